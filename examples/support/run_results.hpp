#pragma once

// The results of a run, for files that other programs read.

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include <rowgrad/examples/support/training.hpp>

namespace rowgrad {

/// One line per epoch: epoch, steps, training_loss, validation_loss (empty without validation),
/// tokens_per_second.
std::string metrics_csv(const Training& training);

/// Options, sizes and history.
nlohmann::json run_json(const Training& training);

}  // namespace rowgrad
