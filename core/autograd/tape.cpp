#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/kernels/rows.hpp>

namespace rowgrad {

// A tape registers in a slot that outlives it. A variable names the slot and the serial number the
// tape had there, so that a variable of a dead tape is recognised without touching freed memory.
struct TapeSlot {
  std::atomic<std::uint64_t> serial = 0;  // odd while a tape lives here
  Tape* tape = nullptr;
};

namespace {

class TapeSlots {
 public:
  TapeSlot* acquire(Tape* tape) {
    const std::scoped_lock lock(mutex_);
    if (free_.empty()) {
      all_.push_back(std::make_unique<TapeSlot>());
      free_.reserve(all_.capacity());  // room for all of them: release() needs no memory
      free_.push_back(all_.back().get());
    }
    TapeSlot* slot = free_.back();
    free_.pop_back();
    slot->tape = tape;
    ++slot->serial;
    return slot;
  }
  void release(TapeSlot* slot) noexcept {
    const std::scoped_lock lock(mutex_);
    ++slot->serial;
    slot->tape = nullptr;
    free_.push_back(slot);
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<TapeSlot>> all_;
  std::vector<TapeSlot*> free_;
};

// Never destroyed: a tape in static storage may outlive any other static object.
TapeSlots& tape_slots() {
  static TapeSlots& slots = *new TapeSlots;
  return slots;
}

}  // namespace

// --- Variable ---------------------------------------------------------------------------------

Tape& Variable::tape() const {
  check_state(slot_ != nullptr, "Variable: this handle was never given a value");
  check_state(slot_->serial == serial_, "Variable: its tape has been destroyed");
  return *slot_->tape;
}

const Tensor& Variable::value() const { return tape().nodes_[index_].value(); }

const Shape& Variable::shape() const { return tape().nodes_[index_].shape(); }

Tensor Variable::rows(const Ids& ids, const Tensor* added, std::string_view op) const {
  return tape().nodes_[index_].rows(ids, added, op);
}

real Variable::item() const {
  const Tensor& number = value();
  check_argument(number.size() == 1, "Variable::item: shape ", bracketed(number.shape()), " has ",
                 number.size(), " numbers, expected one");
  return *number.data();
}

bool Variable::needs_gradient() const { return tape().nodes_[index_].needs_gradient; }

// --- Backward ---------------------------------------------------------------------------------

Backward::Backward(Tape& tape, std::size_t node, Gradient gradient)
    : tape_(tape), node_(node), gradient_(std::move(gradient)) {
  for (const std::uint32_t input : tape_.nodes_[node_].inputs)
    awaited_.push_back(tape_.nodes_[input].needs_gradient);
}

Gradient& Backward::held() const {
  check_state(!taken_, tape_.nodes_[node_].op,
              ": the backward rule has taken its gradient, and asks for it again");
  return gradient_;
}

std::uint32_t Backward::node_of(std::size_t i) const {
  const Tape::Node& node = tape_.nodes_[node_];
  check_state(i < node.inputs.size(), node.op, ": the backward rule named input ", i,
              ", expected a number below ", node.inputs.size());
  return node.inputs[i];
}

const Tensor& Backward::gradient() const {
  Gradient& gradient = held();
  if (!gradient.is_dense()) gradient = std::move(gradient).take_dense();
  return gradient.dense();
}

Tensor Backward::take_gradient() {
  Gradient& gradient = held();
  taken_ = true;
  return std::move(gradient).take_dense();
}

std::optional<real> Backward::uniform_gradient() const {
  if (!held().is_uniform()) return std::nullopt;
  return gradient_.uniform().value;
}

Gradient Backward::gradient_summed_to(const Shape& shape) const {
  if (!held().is_uniform()) return kernels::sum_to(gradient(), shape);
  const UniformGradient& uniform = gradient_.uniform();
  const std::size_t times =
      element_count(uniform.shape) / std::max<std::size_t>(1, element_count(shape));
  return UniformGradient{shape, uniform.value * static_cast<real>(times)};
}

Gradient Backward::take_gradient_summed_to(const Shape& shape) {
  if (!held().is_uniform()) return kernels::sum_to(take_gradient(), shape);
  Gradient summed = gradient_summed_to(shape);
  taken_ = true;
  return summed;
}

const Tensor& Backward::output() const { return tape_.nodes_[node_].value(); }

const Tensor& Backward::input(std::size_t i) const { return tape_.nodes_[node_of(i)].value(); }

const Shape& Backward::input_shape(std::size_t i) const { return tape_.nodes_[node_of(i)].shape(); }

Tensor Backward::input_rows(std::size_t i, const Ids& ids) const {
  return tape_.nodes_[node_of(i)].rows(ids, nullptr, tape_.nodes_[node_].op);
}

bool Backward::needs(std::size_t i) const { return tape_.nodes_[node_of(i)].needs_gradient; }

void Backward::give(std::size_t i, Gradient gradient) {
  if (!needs(i)) return;
  const Tape::Node& node = tape_.nodes_[node_];
  check_state(awaited_[i], node.op, ": the backward rule gave input ", i, " a second gradient");
  Tape::Node& input = tape_.nodes_[node.inputs[i]];
  if (!gradient.is_none())
    check_state(gradient.shape() == input.shape(), node.op, ": the backward rule gave input ", i,
                " a gradient of shape ", bracketed(gradient.shape()), ", expected ",
                bracketed(input.shape()));
  awaited_[i] = false;
  input.gradient.add(std::move(gradient));
}

// --- Tape -------------------------------------------------------------------------------------

const Tensor& Tape::Node::value() {
  if (parameter == nullptr) return owned;
  if (!std::exchange(read, true)) version_read = parameter->version();
  return parameter->value();
}

Tensor Tape::Node::rows(const Ids& ids, const Tensor* added, std::string_view caller) const {
  kernels::check_table(caller, shape());
  const std::size_t width = shape()[1];
  kernels::check_ids(caller, ids, shape()[0]);
  Shape result_shape(ids.shape().begin(), ids.shape().end());
  result_shape.push_back(width);
  if (added != nullptr) kernels::check_added(caller, result_shape, added->shape());
  const std::span<const std::int32_t> all(ids.data(), ids.size());
  Tensor result = empty(result_shape);
  kernels::AddedRows plus;
  if (added != nullptr)
    plus = {added->data(),
            std::max<std::size_t>(1, added->size() / std::max<std::size_t>(1, width))};
  if (parameter != nullptr) {
    parameter->gather_rows(all, result.data(), plus);
  } else {
    kernels::gather_rows(owned.data(), width, all, result.data(), plus);
  }
  return result;
}

bool Tape::has_read(const Parameter& parameter) const {
  return !is_inference() && std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& node) {
    return node.parameter == &parameter && node.read;
  });
}

Tape::Tape(Mode mode) : mode_(mode), slot_(tape_slots().acquire(this)) {}

Tape::~Tape() { tape_slots().release(slot_); }

Variable Tape::append(Node node) {
  nodes_.push_back(std::move(node));
  return {slot_, slot_->serial, static_cast<std::uint32_t>(nodes_.size() - 1)};
}

Variable Tape::constant(Tensor value) {
  element_count(value.shape(), "Tape::constant");
  return append({.owned = std::move(value)});
}

Variable Tape::input(Tensor value) {
  element_count(value.shape(), "Tape::input");
  return append({.owned = std::move(value), .needs_gradient = !is_inference()});
}

Variable Tape::parameter(Parameter& parameter) {
  return append(
      {.parameter = &parameter, .needs_gradient = parameter.trainable() && !is_inference()});
}

std::uint32_t Tape::index_of(const Variable& variable, std::string_view caller) const {
  check_state(&variable.tape() == this, caller, ": a variable belongs to another tape");
  return variable.index_;
}

Variable Tape::record(std::string_view op, std::span<const Variable> inputs, Tensor value,
                      BackwardRule rule) {
  Node node{.op = op, .owned = std::move(value)};
  node.inputs.reserve(inputs.size());
  for (const Variable& input : inputs) {
    node.inputs.push_back(index_of(input, op));
    node.needs_gradient |= nodes_[node.inputs.back()].needs_gradient;
  }
  if (node.needs_gradient) {
    check_argument(rule != nullptr, op, ": there is no backward rule");
    node.rule = std::move(rule);
  } else {
    node.inputs.clear();
  }
  return append(std::move(node));
}

void Tape::check_parameters_unchanged(std::size_t end) const {
  for (std::size_t i = 0; i < end; ++i) {
    const Node& node = nodes_[i];
    check_state(!node.read || node.parameter->version() == node.version_read,
                "Tape::backward: ", node.read ? node.parameter->name() : "",
                " was changed after it was read");
  }
}

void Tape::run_rule(std::size_t index) {
  Node& node = nodes_[index];
  Backward backward(*this, index, std::exchange(node.gradient, Gradient()));
  node.rule(backward);
  const auto missed = std::find(backward.awaited_.begin(), backward.awaited_.end(), true);
  check_state(missed == backward.awaited_.end(), node.op,
              ": the backward rule gave no gradient for input ",
              missed - backward.awaited_.begin());
  node.rule = nullptr;  // frees what the rule had captured
}

void Tape::backward(const Variable& loss) {
  check_state(!is_inference(), "Tape::backward: an inference tape keeps nothing to go back on");
  check_state(!went_backward_, "Tape::backward: this tape has already gone backward");
  const std::size_t last = index_of(loss, "Tape::backward");
  check_argument(loss.value().size() == 1, "Tape::backward: the loss has shape ",
                 bracketed(loss.shape()), ", expected a single number");
  check_state(nodes_[last].needs_gradient,
              "Tape::backward: the loss depends on nothing that needs a gradient");
  check_parameters_unchanged(last + 1);
  went_backward_ = true;

  nodes_[last].gradient = full(loss.shape(), 1);
  for (std::size_t i = last + 1; i-- > 0;)
    if (nodes_[i].rule && !nodes_[i].gradient.is_none()) run_rule(i);

  std::vector<Node*> parameters;  // the first node of each, which gets the gradients of all
  for (std::size_t i = 0; i <= last; ++i) {
    Node& node = nodes_[i];
    node.gradient.write_out();
    if (node.parameter == nullptr || node.gradient.is_none()) continue;
    const auto first = std::find_if(parameters.begin(), parameters.end(), [&](const Node* other) {
      return other->parameter == node.parameter;
    });
    if (first != parameters.end()) {
      (*first)->gradient.add(std::exchange(node.gradient, Gradient()));
    } else {
      parameters.push_back(&node);
    }
  }
  for (Node* node : parameters) node->parameter->prepare_gradient(node->gradient);

  // Only now, when nothing can fail any more, do parameters change and can gradients be read.
  has_gradients_ = true;
  for (Node* node : parameters)
    node->parameter->add_prepared_gradient(std::exchange(node->gradient, Gradient()));
}

const Gradient& Tape::gradient(const Variable& input) const {
  const Node& node = nodes_[index_of(input, "Tape::gradient")];
  check_state(has_gradients_, "Tape::gradient: backward has not been completed");
  check_state(node.needs_gradient && !node.rule && node.inputs.empty() && node.parameter == nullptr,
              "Tape::gradient: gradients are kept only for variables made by Tape::input");
  return node.gradient;
}

Variable record(std::string_view op, std::span<const Variable> inputs, Tensor value,
                BackwardRule rule) {
  check_argument(!inputs.empty(), op, ": no inputs were given");
  return inputs.front().tape().record(op, inputs, std::move(value), std::move(rule));
}

Variable record(std::string_view op, std::initializer_list<Variable> inputs, Tensor value,
                BackwardRule rule) {
  return record(op, std::span(inputs.begin(), inputs.size()), std::move(value), std::move(rule));
}

}  // namespace rowgrad
