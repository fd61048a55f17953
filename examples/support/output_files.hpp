#pragma once

#include <string>
#include <vector>

namespace rowgrad {

/// Refuses, before any work, files that could not be written after it: those in a folder that is
/// not there, those that are folders, two with one name, and one that is also read. Empty paths
/// stand for options that were not given. Throws std::runtime_error.
void check_outputs(const std::vector<std::string>& written, const std::vector<std::string>& read);

/// Flushes standard output. Throws std::runtime_error if something printed there was lost.
void check_standard_output();

}  // namespace rowgrad
