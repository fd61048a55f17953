#pragma once

// The files that a training program writes while a run is in progress.

#include <nlohmann/json.hpp>

#include <rowgrad/examples/support/output_files.hpp>
#include <rowgrad/examples/support/train_program.hpp>
#include <rowgrad/examples/support/training.hpp>

namespace rowgrad {

/// Each function writes those of its files that the options ask for.
class RunFiles {
 public:
  explicit RunFiles(const TrainProgram& options);

  /// The checkpoint: see Training::save.
  void save(const Training& training);

  /// The checkpoint and the losses by epoch.
  void write(const Training& training);

  /// --json
  void write_run(const nlohmann::json& run);

 private:
  const TrainProgram& options_;
  OwnFile checkpoint_;
  OwnFile metrics_;
  OwnFile json_;
};

}  // namespace rowgrad
