#pragma once

// The tape: values in the order in which they were computed, with their backward rules.
// Reverse-mode differentiation (Linnainmaa 1970; Griewank & Walther 2008, chapter 3) visits them
// once from last to first, and each passes its gradient on to its inputs.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rowgrad/core/autograd/gradient.hpp>
#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/core/autograd/row_kind.hpp>
#include <rowgrad/core/autograd/variable.hpp>
#include <rowgrad/core/tensor/ids.hpp>

namespace rowgrad {

class Backward;
class Random;

/// Computes the gradients of an op's inputs from that of its value.
using BackwardRule = std::function<void(Backward&)>;

/// The name of an op. A string literal, so that nodes keep it without a copy.
class OpName {
 public:
  /// Converts a string literal, and back to its text.
  template <std::size_t Size>
  consteval OpName(const char (&literal)[Size]) : text_(literal, Size - 1) {  // NOLINT: implicit
    static_assert(Size > 1, "an op has a name: nodes without one are leaves");
  }
  constexpr operator std::string_view() const { return text_; }  // NOLINT: implicit

 private:
  std::string_view text_;
};

/// Options of Tape::backward().
struct BackwardOptions {
  /// Whether the values of ops stay readable after backward(). Otherwise each is released as soon
  /// as no rule needs it any more, except that of the loss, which makes room for the gradients.
  bool keep_values = true;
  /// Gets the gradient of a parameter, the sum over all its uses, as soon as backward() has it,
  /// while those of earlier nodes are still computed; no parameter changes then. Parameters come in
  /// the order of their first uses, from last to first; those that the loss does not depend on do
  /// not.
  std::function<void(Parameter& parameter, Gradient gradient)> sink = {};
};

/// Records a computation and differentiates it once. Several tapes may exist at the same time, each
/// used by one thread at a time. Neither copyable nor movable. A tape must not outlive its
/// parameters or its source of random numbers.
class Tape {
 public:
  /// Whether a tape keeps what backward() needs, or only values.
  enum Mode { kGradient, kInference };

  /// Former names of the modes.
  [[deprecated("use kGradient")]] static constexpr Mode gradient_mode = kGradient;
  [[deprecated("use kInference")]] static constexpr Mode inference = kInference;

  /// Ops that draw random numbers, such as dropout, take them from `random`, usually the only
  /// generator of a run; on a tape without one they throw.
  explicit Tape(Mode mode = kGradient);
  explicit Tape(Random& random, Mode mode = kGradient);
  ~Tape();  // from now on, the handles to its values throw when they are used
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// A value that needs no gradient.
  Variable constant(Tensor value);

  /// A value whose gradient can be read from gradient() after backward().
  Variable input(Tensor value);

  /// The value of a parameter, not copied; backward() adds to its gradient if it is trainable.
  Variable parameter(Parameter& parameter);

  /// The tape's generator. Throws std::logic_error naming `caller` if it has none.
  Random& random(std::string_view caller) const;

  /// Adds d loss / d p to the gradient of every trainable parameter p that the loss depends on.
  /// Throws without changing any parameter (unless memory runs out): std::invalid_argument for a
  /// loss with more than one value; std::logic_error for a second call, an inference tape, a loss
  /// that is on another tape or depends on nothing that needs a gradient, a parameter that changed
  /// after its whole value was read, and a rule that breaks its contract. A table may change after
  /// a lookup: the tape has copies of the rows.
  void backward(const Variable& loss, const BackwardOptions& options = {});

  /// Starts from a variable y of any shape, with its upstream gradient: dp += (dy / dp)ᵀ gradient.
  /// Throws as for a loss, and std::invalid_argument for a gradient of another shape.
  void backward(const Variable& y, const std::same_as<Tensor> auto& gradient,
                const BackwardOptions& options = {}) {  // a template, so that braces are options
    go_backward(y, gradient, options);
  }

  /// Makes backward() keep the gradient of an intermediate variable. Throws std::logic_error after
  /// backward(), and for a variable that needs no gradient or is a parameter, which keeps its own.
  void retain_gradient(const Variable& variable);

  /// After backward(): the gradient of a variable made by input() or passed to retain_gradient().
  /// None if the loss does not depend on it. Throws std::logic_error before backward() and for
  /// other variables.
  const Gradient& gradient(const Variable& variable) const;

  /// The tape as a graph for Graphviz, to be drawn with `dot -Tsvg`: ops and leaves with their
  /// shapes, and the kinds of the gradients that backward() passed.
  std::string to_dot() const;

  /// Whether the parameter's value was read as a whole on this tape, so that gradients may depend
  /// on it. Row lookups do not count: their gradients do not depend on the values of the rows.
  /// Always false on an inference tape.
  bool has_read(const Parameter& parameter) const;

  /// The trainable parameters on the tape, each once.
  std::vector<const Parameter*> parameters() const;

  /// Rows of a table that an op has read, as ids of any shape: see read_rows() in core/ops.
  struct Lookup {
    Parameter* table;                  // borrowed
    std::shared_ptr<const Ids> owner;  // with the op's rule, as copies would cost small steps 3 %
    RowKind kind = RowKind::kRow;      // EmbeddingLookup::kind
    /// The tokens that looked the rows up: EmbeddingLookup::tokens or, if rows are tokens, the ids.
    /// Null if there are none.
    std::shared_ptr<const Ids> tokens = nullptr;
    const Ids& ids = *owner;  // as the op was given them, with repetitions
  };

  /// All lookups on this tape, in their order; none on an inference tape.
  const std::vector<Lookup>& lookups() const { return lookups_; }

  /// For read_rows(): records a lookup.
  void record_lookup(Parameter& table, std::shared_ptr<const Ids> ids, RowKind kind = RowKind::kRow,
                     std::shared_ptr<const Ids> tokens = nullptr) {
    if (!is_inference()) lookups_.push_back({&table, std::move(ids), kind, std::move(tokens)});
  }

  /// Whether it keeps values only, and how many values it has recorded.
  bool is_inference() const { return mode_ == kInference; }
  std::size_t size() const { return nodes_.size(); }

 private:
  friend Backward;
  friend class GradientSlot;
  friend Variable;
  friend Variable record(OpName op, std::span<const Variable> inputs, Tensor value,
                         BackwardRule rule);

  struct Node {
    std::string_view op = {};  // "" for leaves
    Tensor owned = {};         // unused for parameters, which are not copied
    std::vector<std::uint32_t> inputs = {};
    BackwardRule rule = {};
    Gradient gradient = {};                   // during backward; leaves keep it
    std::string_view gradient_kind = "none";  // of the gradient that backward() passed
    Parameter* parameter = nullptr;
    bool read_whole = false;         // whether the parameter's value was read as a whole
    std::uint64_t version_read = 0;  // the parameter's version at that time
    bool needs_gradient = false;
    bool retains_gradient = false;
    bool released = false;

    const Shape& shape() const { return parameter != nullptr ? parameter->shape() : owned.shape(); }
    const Tensor& value() const;
    const Tensor& read();  // records that a parameter was read as a whole
    void release_value();
    std::string name() const;
  };

  Variable append(Node node);
  std::uint32_t index_of(const Variable& variable, std::string_view caller) const;
  void run_rule(Node& node, const Tensor* callers_gradient);
  void go_backward(const Variable& y, const Tensor& gradient, const BackwardOptions& options);

  Random* random_ = nullptr;
  Mode mode_;
  bool went_backward_ = false;  // whether backward() has started
  bool has_gradients_ = false;  // whether backward() has completed
  std::deque<Node> nodes_;      // a deque, so that references stay valid
  std::vector<Lookup> lookups_;
  TapeSlot* slot_;
};

/// A place for the gradient of one input of an op, which the backward rule fills once.
class GradientSlot {
 public:
  GradientSlot(const GradientSlot&) = delete;
  ~GradientSlot() {
    if (!written_.is_none()) input_.gradient.add(std::move(written_));
  }

  /// Returns true if the input needs a gradient. If not, the rule should not compute it.
  explicit operator bool() const { return input_.needs_gradient; }

  /// Adds a Tensor, a RowGradient or an expression of xtensor such as `a * b`, if the input needs a
  /// gradient. Throws std::logic_error for another shape than the input's, and for a second one.
  void take(Gradient gradient);
  template <class Expression>
  requires(!std::same_as<Expression, Tensor>) void take(
      const xt::xexpression<Expression>& expression) {
    if (*this) take(Gradient(Tensor(expression)));
  }

  /// Returns memory for the gradient, which the rule fills before the slot is destroyed, instead of
  /// take(). If adds(), the memory has the sum of the input's other gradients, and the rule adds to
  /// it, which saves memory and a pass over it. Otherwise, the rule sets every element.
  real* data();
  bool adds() const { return adds_; }

 private:
  friend Backward;
  GradientSlot(Backward& rule, std::size_t index, Tape::Node& input)
      : rule_(rule), index_(index), input_(input) {}

  Backward& rule_;
  std::size_t index_;
  Tape::Node& input_;
  bool adds_ = input_.gradient.is_dense();
  Gradient written_ = {};  // through data()
};

/// The argument of a backward rule: its node's value and gradient, the values of the inputs, and
/// slots for their gradients. Functions throw std::logic_error for an input that does not exist.
class Backward {
 public:
  /// The gradient of the node's value: dense and of the value's shape.
  const Tensor& gradient() const;

  /// Moves the gradient out, for a rule that reuses its memory. Any later request for it throws
  /// std::logic_error.
  Tensor take_gradient();

  /// The value of the node, and values and shapes of its inputs. input() throws std::logic_error if
  /// the op did not read() the input.
  const Tensor& output() const { return node_.value(); }
  const Tensor& input(std::size_t i) const;
  const Shape& input_shape(std::size_t i) const { return input_node(i).shape(); }

  /// Returns the slot of input i. The rule must fill the slots of all inputs that need a gradient.
  GradientSlot slot(std::size_t i) { return {*this, i, input_node(i)}; }

 private:
  friend GradientSlot;
  friend Tape;
  Backward(Tape& tape, Tape::Node& node, Gradient gradient, const Tensor* callers_gradient);

  Tape::Node& input_node(std::size_t i) const;
  void expect(std::size_t i, const Shape& gradient);

  Tape& tape_;
  Tape::Node& node_;
  mutable Gradient gradient_;       // made dense on request
  const Tensor* callers_gradient_;  // the one that was passed to Tape::backward(), for its variable
  std::vector<bool> awaited_;  // for each input, whether the rule still has to give its gradient
};

/// Records the result of an op on the tape of its inputs, of which there is at least one: its
/// value, computed from them, and the rule that computes their gradients from its own. The rule may
/// capture more than input and output values; it is kept only if an input needs a gradient. Throws
/// std::logic_error for an input on another tape.
Variable record(OpName op, std::span<const Variable> inputs, Tensor value, BackwardRule rule);
inline Variable record(OpName op, std::initializer_list<Variable> inputs, Tensor value,
                       BackwardRule rule) {
  return record(op, std::span(inputs.begin(), inputs.size()), std::move(value), std::move(rule));
}

}  // namespace rowgrad
