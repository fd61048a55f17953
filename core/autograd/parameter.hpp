#pragma once

// A tensor that training changes. Layers own parameters; tapes and optimizers borrow them.

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <rowgrad/core/autograd/gradient.hpp>

namespace rowgrad {

/// A named value with its gradient. Neither copied nor moved: tapes and optimizers keep its
/// address, so it must outlive them.
class Parameter {
 public:
  explicit Parameter(std::string name, Tensor value)
      : name_(std::move(name)), value_(std::move(value)) {}
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  /// The dotted name from the outermost layer that holds it: "token.weight".
  const std::string& name() const { return name_; }
  void rename(std::string name) { name_ = std::move(name); }

  const Tensor& value() const { return value_; }
  const Shape& shape() const { return value_.shape(); }

  /// The numbers, to be changed in place. Counts as a change: a tape that recorded the parameter
  /// before refuses to go backward, since its gradients would be those of other numbers.
  std::span<real> numbers() {
    ++version_;
    return {value_.data(), value_.size()};
  }

  /// Replaces the value. Throws std::invalid_argument if the shape differs.
  void assign(Tensor value);

  /// How often the value was changed.
  std::uint64_t version() const { return version_; }

  /// What tapes have added up since zero_gradient().
  const Gradient& gradient() const { return gradient_; }
  void zero_gradient() { gradient_ = Gradient(); }

  /// Adds to the gradient. Throws std::invalid_argument if the shapes differ.
  void add_gradient(Gradient gradient);

  /// Whether backward computes a gradient for it and optimizers change it.
  bool trainable() const { return trainable_; }
  void set_trainable(bool trainable) { trainable_ = trainable; }

 private:
  std::string name_;
  Tensor value_;
  Gradient gradient_;
  std::uint64_t version_ = 0;
  bool trainable_ = true;
};

}  // namespace rowgrad
