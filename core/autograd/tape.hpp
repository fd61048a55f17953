#pragma once

// The tape: values in the order in which they were computed, and how to go back. Reverse-mode
// differentiation (Linnainmaa 1970; Griewank & Walther 2008, chapter 3): one walk from the last
// value to the first, each passing its gradient on to its inputs.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rowgrad/core/autograd/gradient.hpp>
#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

class Random;

/// What a backward rule sees of its node, and where it puts what it found.
class Backward {
 public:
  /// The gradient of the node's value, dense, of the value's shape.
  const Tensor& gradient() const;

  /// The same, for a rule that reuses the memory. Whatever asks for the gradient afterwards throws
  /// std::logic_error.
  Tensor take_gradient();

  /// The node's value, and that of its inputs. Everything that takes the number of an input throws
  /// std::logic_error for one that the op does not have.
  const Tensor& output() const;
  const Tensor& input(std::size_t i) const;
  const Shape& input_shape(std::size_t i) const;

  /// Whether a gradient for input i is wanted. A rule computes nothing for one that is not.
  bool needs(std::size_t i) const;

  /// The gradient of input i, once for each input that needs one. Throws std::logic_error if its
  /// shape is not that of the input, or if input i already has it.
  void give(std::size_t i, Gradient gradient);

 private:
  friend Tape;
  Backward(Tape& tape, std::size_t node, Gradient gradient, const Tensor* borrowed);

  std::uint32_t node_of(std::size_t i) const;  // of input i
  Gradient& held() const;                      // the gradient, which must not have been taken

  Tape& tape_;
  std::size_t node_;
  mutable Gradient gradient_;  // made dense when it is asked for
  const Tensor* borrowed_;     // the gradient, if it is a caller's
  bool taken_ = false;
  std::vector<bool> awaited_;
};

using BackwardRule = std::function<void(Backward&)>;

/// The name of an op, a string literal: nodes keep it without a copy.
class OpName {
 public:
  template <std::size_t Size>
  consteval OpName(const char (&literal)[Size]) : text_(literal, Size - 1) {  // NOLINT: is a name
    static_assert(Size > 1, "an op has a name: nodes without one are leaves");
  }
  constexpr operator std::string_view() const { return text_; }  // NOLINT: and a text

 private:
  std::string_view text_;
};

/// Records computations and differentiates them once. Several may live at once; each is used by one
/// thread at a time. Neither copied nor moved. Parameters used on it, and its source of random
/// numbers, must outlive it.
class Tape {
 public:
  enum class Mode { kGradient, kInference };
  static constexpr Mode gradient_mode = Mode::kGradient;
  static constexpr Mode inference = Mode::kInference;  // values only: nothing is kept for backward

  explicit Tape(Mode mode = gradient_mode);

  /// With a source of random numbers for ops that draw some: as a rule the run's one generator.
  explicit Tape(Random& random, Mode mode = gradient_mode);
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// A value that needs no gradient.
  Variable constant(Tensor value);

  /// A value whose gradient can be read from gradient() after backward().
  Variable input(Tensor value);

  /// A parameter, not copied; backward() adds to its gradient if it is trainable.
  Variable parameter(Parameter& parameter);

  /// The result of an op: its value, computed from `inputs`, and the rule that turns its gradient
  /// into theirs; the rule may capture what it needs besides input and output values. It is kept
  /// only if some input needs a gradient. Throws std::logic_error if an input is on another tape.
  Variable record(OpName op, std::span<const Variable> inputs, Tensor value, BackwardRule rule);

  /// The tape's random numbers. Throws std::logic_error that names `caller` if it has none.
  Random& random(std::string_view caller) const;

  /// Adds d loss / d p to the gradient of every trainable parameter p that the loss depends on.
  /// Throws, and changes no parameter: std::invalid_argument for a loss of more than one number;
  /// std::logic_error for a second call, an inference tape, a loss on another tape or one that
  /// depends on nothing that needs a gradient, a parameter changed since its value was read, and a
  /// rule that breaks its contract.
  void backward(const Variable& loss);

  /// The same for any tensor y, from the gradient of something with respect to it: dp += (dy / dp)ᵀ
  /// gradient. Throws std::invalid_argument for a gradient of another shape.
  void backward(const Variable& y, const Tensor& gradient);

  /// Has backward() keep the gradient of a variable in the middle. Throws std::logic_error after
  /// backward(), and for a variable that needs no gradient or is a parameter, which keeps its own.
  void retain_gradient(const Variable& variable);

  /// After backward(): the gradient of a variable that input() made, or that retain_gradient() was
  /// called for. None if the loss does not depend on it. Throws std::logic_error before backward()
  /// and for other variables.
  const Gradient& gradient(const Variable& variable) const;

  /// The tape as a graph in Graphviz's language, to be drawn by `dot -Tsvg`: ops and leaves with
  /// their shapes, and the kinds of the gradients that backward() passed.
  std::string to_dot() const;

  /// Whether the parameter's value was read as a whole on this tape, so that gradients may depend
  /// on it. Looking rows up is no such reading: its gradient does not depend on what the rows hold.
  /// Always false on an inference tape.
  bool has_read(const Parameter& parameter) const;

  /// The trainable parameters on it, each once.
  std::vector<const Parameter*> parameters() const;

  bool is_inference() const { return mode_ == Mode::kInference; }
  std::size_t size() const { return nodes_.size(); }

 private:
  friend Backward;
  friend Variable;

  struct Node {
    std::string_view op = {};  // "" for leaves
    Tensor owned = {};         // unused by parameters, which are not copied
    std::vector<std::uint32_t> inputs = {};
    BackwardRule rule = {};
    Gradient gradient = {};            // while backward runs; leaves keep it
    std::string_view passed = "none";  // the kind of the gradient that it got
    Parameter* parameter = nullptr;
    std::uint64_t version_read = 0;  // of the parameter, if its value was read as a whole
    bool read = false;
    bool needs_gradient = false;
    bool retains_gradient = false;

    const Shape& shape() const { return parameter != nullptr ? parameter->shape() : owned.shape(); }
    const Tensor& value();
    std::string name() const;
  };

  Variable append(Node node);
  std::uint32_t index_of(const Variable& variable, std::string_view caller) const;
  void check_parameters_unchanged(std::size_t end) const;
  void run_rule(std::size_t node, const Tensor* borrowed);

  Random* random_ = nullptr;
  Mode mode_;
  bool went_backward_ = false;  // or tried to
  bool has_gradients_ = false;  // it ran to its end
  std::deque<Node> nodes_;      // a deque, so that values stay where they are
  TapeSlot* slot_;
};

/// Tape::record on the tape of the inputs.
Variable record(OpName op, std::initializer_list<Variable> inputs, Tensor value, BackwardRule rule);
Variable record(OpName op, std::span<const Variable> inputs, Tensor value, BackwardRule rule);

}  // namespace rowgrad
