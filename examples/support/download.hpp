#pragma once

#include <string>

namespace rowgrad {

/// What an https address holds, at most 16 MiB. Gives up on a connection after three seconds and
/// on one that has gone quiet after ten, so that a program without network is not held up. Throws
/// std::runtime_error with the reason alone.
std::string download(const std::string& url);

}  // namespace rowgrad
