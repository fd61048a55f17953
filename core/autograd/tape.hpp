#pragma once

// The tape: values in the order in which they were computed, with their backward rules.
// Reverse-mode differentiation (Linnainmaa 1970; Griewank & Walther 2008, chapter 3) visits each
// value once, from last to first. The value's rule passes the gradient on to the inputs.

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

/// A function that computes the gradients of an op's inputs from the gradient of its value.
using BackwardRule = std::function<void(Backward&)>;

/// The name of an op: a string literal, which nodes need not copy.
class OpName {
 public:
  /// Convert from a string literal, and to a string view.
  template <std::size_t Size>
  consteval OpName(const char (&literal)[Size]) : text_(literal, Size - 1) {  // NOLINT: implicit
    static_assert(Size > 1, "the name of an op must not be empty: unnamed nodes are leaves");
  }
  constexpr operator std::string_view() const { return text_; }  // NOLINT: implicit

 private:
  std::string_view text_;
};

/// Options of Tape::backward().
struct BackwardOptions {
  /// If false, backward() saves memory: it releases the value of each op, except the loss, once no
  /// rule needs the value.
  bool keep_values = true;
  /// If set, receives the gradient of each parameter that the loss depends on, and parameters keep
  /// their own gradients unchanged. The sink is called when a parameter's sum over all uses is
  /// known, before the rules of earlier nodes run, so parameters come in reverse order of first
  /// use. The sink must not change parameters.
  std::function<void(Parameter& parameter, Gradient gradient)> sink = {};
};

/// A record of a computation, to be differentiated once. Neither copyable nor movable. A tape must
/// not outlive its parameters or its random number generator. Each tape must be used by one thread
/// at a time.
class Tape {
 public:
  /// The mode: kGradient keeps what backward() needs, kInference only values.
  enum Mode { kGradient, kInference };

  /// Former names of the modes.
  [[deprecated("use kGradient")]] static constexpr Mode gradient_mode = kGradient;
  [[deprecated("use kInference")]] static constexpr Mode inference = kInference;

  /// Creates an empty tape. Ops that draw random numbers, such as dropout, draw them from `random`,
  /// and throw std::logic_error on a tape without it.
  explicit Tape(Mode mode = kGradient);
  explicit Tape(Random& random, Mode mode = kGradient);
  ~Tape();  // variables on the tape throw from now on
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// Records a value that needs no gradient.
  Variable constant(Tensor value);

  /// Records a value whose gradient can be read from gradient() after backward().
  Variable input(Tensor value);

  /// Records a parameter without copying it. If it is trainable, backward() adds to its gradient.
  Variable parameter(Parameter& parameter);

  /// Returns the random number generator. Throws std::logic_error, naming `caller`, if none is set.
  Random& random(std::string_view caller) const;

  /// Adds d loss / d p to the gradient of every trainable parameter p that the loss depends on.
  /// A table may change after a lookup, as the tape has copies of the rows.
  ///
  /// Throws std::invalid_argument if the loss does not have exactly one element. Throws
  /// std::logic_error on a second call, on an inference tape, if the loss is on another tape or
  /// needs no gradient, if a parameter changed after its whole value was read, or if a rule breaks
  /// its contract. No parameter changes then, unless Parameter::add_gradient() throws.
  void backward(const Variable& loss, const BackwardOptions& options = {});

  /// Starts from a variable y of any shape and its upstream gradient: dp += (dy / dp)ᵀ gradient.
  /// Throws std::invalid_argument if the shapes of y and gradient differ, and std::logic_error as
  /// above.
  void backward(const Variable& y, const std::same_as<Tensor> auto& gradient,
                const BackwardOptions& options = {}) {  // a template, so that `{…}` means options
    go_backward(y, gradient, options);
  }

  /// Makes backward() keep the gradient of an intermediate variable. Throws std::logic_error after
  /// backward(), for variables that need no gradient, and for parameters.
  void retain_gradient(const Variable& variable);

  /// Returns the gradient of a variable from input() or passed to retain_gradient(), or none if the
  /// loss does not depend on it. Throws std::logic_error before backward() and for other variables.
  const Gradient& gradient(const Variable& variable) const;

  /// Returns the tape as a Graphviz graph, for `dot -Tsvg`: ops and leaves with their shapes, and
  /// the kinds of their gradients after backward().
  std::string to_dot() const;

  /// Returns true if this tape has read the parameter's whole value, so that gradients may depend
  /// on the value. A lookup reads only rows. Returns false on an inference tape.
  bool has_read(const Parameter& parameter) const;

  /// Returns the trainable parameters on the tape, without repetitions. Empty on an inference tape.
  std::vector<const Parameter*> parameters() const;

  /// A lookup: the rows that an op has read from a table. See read_rows() in core/ops.
  struct Lookup {
    Parameter* table;                  // borrowed
    std::shared_ptr<const Ids> owner;  // owns `ids`, shared with the op's rule
    RowKind kind = RowKind::kRow;      // EmbeddingLookup::kind
    /// The tokens from which the ids were computed (EmbeddingLookup::tokens), or null.
    std::shared_ptr<const Ids> tokens = nullptr;
    const Ids& ids = *owner;  // ids of any shape; may repeat
  };

  /// Returns all lookups on this tape, in order. Empty on an inference tape.
  const std::vector<Lookup>& lookups() const { return lookups_; }

  /// Records a lookup. Only read_rows() calls this.
  void record_lookup(Parameter& table, std::shared_ptr<const Ids> ids, RowKind kind = RowKind::kRow,
                     std::shared_ptr<const Ids> tokens = nullptr) {
    if (!is_inference()) lookups_.push_back({&table, std::move(ids), kind, std::move(tokens)});
  }

  /// Return true for kInference, and the number of recorded values.
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
    Tensor owned = {};         // unused for parameters
    std::vector<std::uint32_t> inputs = {};
    BackwardRule rule = {};
    Gradient gradient = {};                   // kept for inputs and retained variables
    std::string_view gradient_kind = "none";  // for to_dot()
    Parameter* parameter = nullptr;
    bool read_whole = false;         // true if the whole parameter was read
    std::uint64_t version_read = 0;  // the parameter's version at that time
    bool needs_gradient = false;
    bool retains_gradient = false;
    bool released = false;

    const Shape& shape() const { return parameter != nullptr ? parameter->shape() : owned.shape(); }
    const Tensor& value() const;
    const Tensor& read();  // records that the whole parameter was read
    void release_value();
    std::string name() const;
  };

  Variable append(Node node);
  std::uint32_t index_of(const Variable& variable, std::string_view caller) const;
  void run_rule(Node& node, const Tensor* callers_gradient);
  void go_backward(const Variable& y, const Tensor& gradient, const BackwardOptions& options);

  Random* random_ = nullptr;
  Mode mode_;
  bool went_backward_ = false;  // true once backward() has started
  bool has_gradients_ = false;  // true once backward() has finished
  std::deque<Node> nodes_;      // a deque keeps references valid
  std::vector<Lookup> lookups_;
  TapeSlot* slot_;
};

/// The place for the gradient of one input of an op. A backward rule fills each slot once.
class GradientSlot {
 public:
  GradientSlot(const GradientSlot&) = delete;
  ~GradientSlot() {
    if (!written_.is_none()) input_.gradient.add(std::move(written_));
  }

  /// Returns true if the input needs a gradient. If not, the rule should not compute one.
  explicit operator bool() const { return input_.needs_gradient; }

  /// Adds a Tensor, a RowGradient or an xtensor expression such as `a * b` to the input's gradient,
  /// if the input needs one. Throws std::logic_error if the shapes differ, and on a second call.
  void take(Gradient gradient);
  template <class Expression>
  requires(!std::same_as<Expression, Tensor>) void take(
      const xt::xexpression<Expression>& expression) {
    if (*this) take(Gradient(Tensor(expression)));
  }

  /// Returns memory that the rule fills before the slot is destroyed, instead of calling take(). If
  /// adds() is true, the memory holds a partial sum of the input's gradient, and the rule must add
  /// to the sum. Otherwise, it must write every element.
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
  Gradient written_ = {};  // memory that data() returned
};

/// The argument of a backward rule: the value and gradient of its node, the values of the inputs,
/// and slots for their gradients. Members throw std::logic_error if input i does not exist.
class Backward {
 public:
  /// Returns the node's gradient, dense and in the value's shape.
  const Tensor& gradient() const;

  /// Moves the gradient out, for a rule that reuses the memory. Later calls of gradient() and
  /// take_gradient() throw std::logic_error.
  Tensor take_gradient();

  /// Return the value of the node, and the value and shape of input i. input() throws
  /// std::logic_error for a parameter that the op did not read().
  const Tensor& output() const { return node_.value(); }
  const Tensor& input(std::size_t i) const;
  const Shape& input_shape(std::size_t i) const { return input_node(i).shape(); }

  /// Returns the slot of input i. The rule must fill the slots of inputs that need a gradient.
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
  const Tensor* callers_gradient_;  // passed to Tape::backward(); null for other nodes
  std::vector<bool> awaited_;       // for each input: true if its gradient is still missing
};

/// Records an op on the tape of its inputs: the value, and the rule that computes the gradients of
/// the inputs. The rule may capture other data, and is kept only if an input needs a gradient.
/// Throws std::invalid_argument if `inputs` is empty or a needed rule is missing, and
/// std::logic_error if the inputs are on different tapes.
Variable record(OpName op, std::span<const Variable> inputs, Tensor value, BackwardRule rule);
inline Variable record(OpName op, std::initializer_list<Variable> inputs, Tensor value,
                       BackwardRule rule) {
  return record(op, std::span(inputs.begin(), inputs.size()), std::move(value), std::move(rule));
}

}  // namespace rowgrad
