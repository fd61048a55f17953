#pragma once

// The options of a command line, compared with what else was chosen.

#include <nlohmann/json.hpp>

#include <rowgrad/examples/support/train_options.hpp>

namespace rowgrad {

/// Throws std::invalid_argument for an option that was given but has no effect, as another one is
/// `chosen`: the values of all options by name, for example a TrainOptions.
void check_options_have_effects(const CLI::App& app, const nlohmann::json& chosen);

/// The options of a resumed run: the saved ones, except for --epochs, --steps and --learning-rate
/// if given. Throws std::invalid_argument naming any other option that was given with a value that
/// differs from the saved one.
TrainOptions resumed_options(const CLI::App& app, const TrainOptions& given,
                             const TrainOptions& saved);

}  // namespace rowgrad
