#pragma once

#include <string>

namespace rowgrad {

/// The contents of an https URL, at most 16 MiB. Gives up after three seconds without a connection
/// and after ten seconds with hardly any data, so that a program without a network is not delayed.
/// Throws std::runtime_error; the message is the reason alone.
std::string download(const std::string& url);

}  // namespace rowgrad
