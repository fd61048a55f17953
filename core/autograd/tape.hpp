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
#include <rowgrad/core/autograd/variable.hpp>
#include <rowgrad/core/tensor/ids.hpp>

namespace rowgrad {

class Random;

/// What a backward rule knows about its node, and where it puts the gradients of the inputs.
class Backward {
 public:
  /// The gradient of the node's value: dense and of the value's shape.
  const Tensor& gradient() const;

  /// Moves the gradient out, for a rule that reuses its memory. Any later request for it throws
  /// std::logic_error.
  Tensor take_gradient();

  /// The value of the node, and values and shapes of its inputs. Every function that takes the
  /// index of an input throws std::logic_error if the op has no such input, and input() also if the
  /// op did not read() it.
  const Tensor& output() const;
  const Tensor& input(std::size_t i) const;
  const Shape& input_shape(std::size_t i) const;

  /// Whether input i needs a gradient. Rules should not compute gradients that are not needed.
  bool needs(std::size_t i) const;

  /// Adds the gradient of input i; to be called once for each input that needs one. Throws
  /// std::logic_error if its shape is not that of the input, or if input i already has one.
  void give(std::size_t i, Gradient gradient);

  /// Computes the gradient of input i in place, instead of give(), and only if the input needs one:
  /// calls write(to, add) with the address of as many numbers as the input has. If `add`, they are
  /// the sum of what other ops have given, and `write` adds the gradient to them, which saves
  /// memory and a pass over it. Otherwise they are uninitialised, and `write` sets all of them.
  void into(std::size_t i, const std::invocable<real*, bool> auto& write) {
    if (!needs(i)) return;
    if (Tensor* const sum = gradient_so_far(i)) {
      write(sum->data(), true);
      return give(i, {});
    }
    Tensor gradient = empty(input_shape(i));
    write(gradient.data(), false);
    give(i, std::move(gradient));
  }

  /// The dense gradient that other ops have given input i, or null: for a rule that computes
  /// several gradients at once, and cannot use into(). It may add to this one, and then give an
  /// empty Gradient.
  Tensor* gradient_so_far(std::size_t i);

 private:
  friend Tape;
  Backward(Tape& tape, std::size_t node, Gradient gradient, const Tensor* callers_gradient);

  std::uint32_t node_of(std::size_t input) const;
  Gradient& untaken_gradient() const;

  Tape& tape_;
  std::size_t node_;
  mutable Gradient gradient_;       // made dense on request
  const Tensor* callers_gradient_;  // the one that was passed to Tape::backward(), for its variable
  bool is_taken_ = false;
  std::vector<bool> awaited_;  // for each input, whether the rule still has to give its gradient
};

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
  enum Mode { gradient_mode, inference };

  /// Ops that draw random numbers, such as dropout, take them from `random`, usually the only
  /// generator of a run; on a tape without one they throw.
  explicit Tape(Mode mode = gradient_mode);
  explicit Tape(Random& random, Mode mode = gradient_mode);
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
    std::shared_ptr<const Ids> tokens = nullptr;  // EmbeddingLookup::tokens; null for none
    const Ids& ids = *owner;                      // as the op was given them, with repetitions
  };

  /// All lookups on this tape, in their order; none on an inference tape.
  const std::vector<Lookup>& lookups() const { return lookups_; }

  /// For read_rows(): records a lookup.
  void note_lookup(Parameter& table, std::shared_ptr<const Ids> ids,
                   std::shared_ptr<const Ids> tokens = nullptr) {
    if (!is_inference()) lookups_.push_back({&table, std::move(ids), std::move(tokens)});
  }

  /// Whether it keeps values only, and how many values it has recorded.
  bool is_inference() const { return mode_ == inference; }
  std::size_t size() const { return nodes_.size(); }

 private:
  friend Backward;
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
  void check_parameters_unchanged(std::size_t end) const;
  void run_rule(std::size_t node, const Tensor* callers_gradient);
  void go_backward(const Variable& y, const Tensor& gradient, const BackwardOptions& options);

  Random* random_ = nullptr;
  Mode mode_;
  bool went_backward_ = false;  // whether backward() has started
  bool has_gradients_ = false;  // whether backward() has completed
  std::deque<Node> nodes_;      // a deque, so that references stay valid
  std::vector<Lookup> lookups_;
  TapeSlot* slot_;
};

/// Records the result of an op on the tape of its inputs, of which there is at least one: its
/// value, computed from them, and the rule that computes their gradients from its own. The rule may
/// capture more than input and output values; it is kept only if an input needs a gradient. Throws
/// std::logic_error for an input on another tape.
Variable record(OpName op, std::initializer_list<Variable> inputs, Tensor value, BackwardRule rule);
Variable record(OpName op, std::span<const Variable> inputs, Tensor value, BackwardRule rule);

}  // namespace rowgrad
