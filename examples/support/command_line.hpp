#pragma once

// How a program was called, for reports.

#include <string>

#include <nlohmann/json.hpp>

namespace CLI {
class App;
}

namespace rowgrad {

/// The command line with the options that were given, quoted for a shell.
std::string command_line(const CLI::App& app);

/// The value of each option by its name, given or not.
nlohmann::json option_values(const CLI::App& app);

}  // namespace rowgrad
