#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tests/bench/workload.hpp"
#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/optim/optimizer.hpp>

namespace rowgrad::bench {

/// Seconds that the parts of steps took, one entry a step.
struct StepParts {
  std::vector<double> forward = {};  // zero_grad, too
  std::vector<double> backward = {};
  std::vector<double> update = {};  // the optimizer's step
};

/// A model with its optimizer, and batches that come round: sixteen different ones, so that the
/// rows of large batches are not in the cache when they come again.
class TrainingStep {
 public:
  virtual ~TrainingStep() = default;

  /// zero_grad, forward, backward and step, on the next batch.
  void run(StepParts& parts);

 protected:
  explicit TrainingStep(const Workload& workload);

  /// Which optimizer, for which parameters. To be called once, by the constructor of each model.
  void optimize(const std::vector<Parameter*>& parameters);

 private:
  virtual Variable forward(Tape& tape, const Ids& inputs, const Ids& targets) = 0;
  virtual void backward(const Variable& result) { result.tape().backward(result); }

  std::string optimizer_name_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<Ids> inputs_;
  std::vector<Ids> targets_;
  std::size_t next_ = 0;
};

/// Throws std::invalid_argument for a model or an optimizer that there is none of.
std::unique_ptr<TrainingStep> make_training_step(const Workload& workload);

}  // namespace rowgrad::bench
