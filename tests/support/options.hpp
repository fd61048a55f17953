#pragma once

// Command lines for tests.

#include <string>
#include <vector>

#include <rowgrad/examples/rowgrad/options/command_line.hpp>

namespace rowgrad::testing {

/// Returns a command line of rowgrad train that has parsed the arguments.
inline CommandLine parsed_line(OptionTable options, const std::vector<std::string>& arguments,
                               const CommandLine::Complete& complete = {}) {
  CommandLine line("rowgrad train", "", std::move(options));
  std::vector<const char*> words{"train"};
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  line.parse(static_cast<int>(words.size()), words.data(), complete);
  return line;
}

}  // namespace rowgrad::testing
