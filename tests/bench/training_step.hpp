#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tests/bench/workload.hpp"
#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/optim/optimizer.hpp>

namespace rowgrad::bench {

/// The seconds that the parts of steps took, one entry per step.
struct StepParts {
  std::vector<double> forward = {};  // including zero_grad
  std::vector<double> backward = {};
  std::vector<double> update = {};  // the optimizer's step
};

/// A model with its optimizer, and sixteen different batches that are used in turn, so that the
/// rows of large batches are not in the cache when they are used again.
class TrainingStep {
 public:
  virtual ~TrainingStep() = default;

  /// zero_grad, forward, backward and step, on the next batch.
  void run(StepParts& parts);

 protected:
  explicit TrainingStep(const Workload& workload);

  /// Makes the optimizer for these parameters. The constructor of each model must call it once.
  void optimize(const std::vector<Parameter*>& parameters);

 private:
  virtual Random* random() { return nullptr; }  // for dropout
  virtual Variable forward(Tape& tape, const Ids& inputs, const Ids& targets) = 0;
  virtual void backward(const Variable& result) {
    result.tape().backward(result, {.keep_values = false});
  }

  std::string optimizer_name_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<Ids> inputs_;
  std::vector<Ids> targets_;
  std::size_t next_ = 0;
};

/// Throws std::invalid_argument for an unknown model or optimizer.
std::unique_ptr<TrainingStep> make_training_step(const Workload& workload);

}  // namespace rowgrad::bench
