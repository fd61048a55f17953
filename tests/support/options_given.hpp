#pragma once

#include <string>
#include <vector>

#include <rowgrad/examples/support/options.hpp>

namespace rowgrad::testing {

/// A command line that was read, the name of the program first.
inline CommandLine given(OptionTable options, const std::vector<std::string>& arguments) {
  CommandLine line("", std::move(options));
  std::vector<const char*> texts;
  for (const std::string& argument : arguments) texts.push_back(argument.c_str());
  line.parse(static_cast<int>(texts.size()), texts.data());
  return line;
}

}  // namespace rowgrad::testing
