#pragma once

#include <optional>
#include <utility>

#include <rowgrad/optim/optimizer.hpp>

namespace rowgrad {

struct SgdOptions {
  double learning_rate = 1e-3;
  double momentum = 0;      // 0 is plain SGD
  double dampening = 0;     // of the gradient that enters the momentum
  bool nesterov = false;    // look ahead; needs momentum and no dampening
  double weight_decay = 0;  // added to the gradient, times the weight
};

/// Stochastic gradient descent, the update of torch.optim.SGD (Sutskever et al. 2013 for momentum):
///
///   d = gradient + weight_decay · w
///   v = d at first, then momentum · v + (1 − dampening) · d
///   w = w − learning_rate · (d + momentum · v with nesterov, v with momentum, d without)
///
/// With row gradients, plain SGD touches those rows alone, and the result is that of the dense
/// gradient bit for bit. Momentum and weight decay move rows without a gradient too, which rows
/// alone cannot do exactly: step() refuses them with std::logic_error. A layer asked for dense
/// gradients (EmbeddingOptions::dense_gradient) can be trained with both.
class SGD : public Optimizer {
 public:
  struct Group {
    std::vector<Parameter*> parameters = {};
    SgdOptions options = {};
  };

  /// Throws std::invalid_argument for an option outside its range or not finite.
  SGD(std::vector<Parameter*> parameters, const SgdOptions& options);

  /// Groups of parameters with options of their own.
  explicit SGD(std::vector<Group> groups);

  void step() override;

  std::size_t group_count() const override { return options_.size(); }
  double learning_rate(std::size_t group = 0) const override {
    return options(group).learning_rate;
  }
  void set_learning_rate(double rate, std::size_t group = 0) override {
    SgdOptions changed = options(group);
    changed.learning_rate = rate;
    set_options(changed, group);
  }

  /// For schedules: the options of a group from the next step on. Throws like the constructor.
  const SgdOptions& options(std::size_t group = 0) const;
  void set_options(const SgdOptions& options, std::size_t group = 0);

  std::map<std::string, Tensor> state() const override;
  void load_state(std::map<std::string, Tensor> state) override;

 private:
  struct Slot {
    Parameter* parameter;
    std::size_t group;
    std::optional<Tensor> momentum;  // v; made by the first step that needs it
  };

  void update(Slot& slot);

  std::vector<SgdOptions> options_;
  std::vector<Slot> slots_;
};

}  // namespace rowgrad
