#pragma once

#include <string>
#include <vector>

namespace rowgrad {

/// Checks, before any work, that the files `written` can be written after it: their folders exist
/// and are writable, and they are not folders themselves. Also refuses files that are read or
/// written elsewhere, under whatever path: `read`, in folders of labelled texts, The Verdict and
/// GPT-2's files where programs look for them, each other, and standard input, output and error.
/// Devices and pipes may be shared. Empty paths stand for options that were not given. Throws
/// std::runtime_error.
void check_outputs(const std::vector<std::string>& written, const std::vector<std::string>& read);

}  // namespace rowgrad
