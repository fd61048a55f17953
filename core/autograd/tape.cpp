#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

// Each tape registers in a slot that outlives it. A variable stores the slot and the tape's serial
// number there, so a variable of a destroyed tape is recognised without touching freed memory.
struct TapeSlot {
  std::atomic<std::uint64_t> serial = 0;  // odd while the slot is in use
  Tape* tape = nullptr;
};

namespace {

class TapeSlots {
 public:
  TapeSlot* acquire(Tape* tape) {
    const std::scoped_lock lock(mutex_);
    if (free_.empty()) {
      all_.push_back(std::make_unique<TapeSlot>());
      free_.reserve(all_.capacity());  // so that release() needs no memory
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

// Escapes quotes and backslashes for Graphviz.
std::string in_dot(const std::string& text) {
  std::string escaped;
  for (const char byte : text) {
    if (byte == '"' || byte == '\\') escaped += '\\';
    escaped += byte;
  }
  return escaped;
}

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

std::string Variable::name() const { return tape().nodes_[index_].name(); }

std::ostream& operator<<(std::ostream& stream, const Variable& variable) {
  return stream << variable.name() << ' ' << bracketed(variable.shape()) << ' ' << variable.value();
}

Parameter* Variable::parameter() const { return tape().nodes_[index_].parameter; }

real Variable::item() const {
  const Tensor& number = value();
  check_argument(number.size() == 1, "Variable::item: shape ", bracketed(number.shape()), " has ",
                 number.size(), " numbers, expected one");
  return *number.data();
}

bool Variable::needs_gradient() const { return tape().nodes_[index_].needs_gradient; }

// --- Backward ---------------------------------------------------------------------------------

Backward::Backward(Tape& tape, std::size_t node, Gradient gradient, const Tensor* borrowed)
    : tape_(tape), node_(node), gradient_(std::move(gradient)), borrowed_(borrowed) {
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
  if (borrowed_ != nullptr) return *borrowed_;
  if (!gradient.is_dense()) gradient = std::move(gradient).take_dense();
  return gradient.dense();
}

Tensor Backward::take_gradient() {
  Gradient& gradient = held();
  taken_ = true;
  return borrowed_ != nullptr ? *borrowed_ : std::move(gradient).take_dense();
}

const Tensor& Backward::output() const { return tape_.nodes_[node_].value(); }

const Tensor& Backward::input(std::size_t i) const { return tape_.nodes_[node_of(i)].value(); }

const Shape& Backward::input_shape(std::size_t i) const { return tape_.nodes_[node_of(i)].shape(); }

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

Tensor* Backward::gradient_so_far(std::size_t i) {
  Gradient& gradient = tape_.nodes_[node_of(i)].gradient;
  return gradient.is_dense() ? &gradient.dense() : nullptr;
}

// --- Tape -------------------------------------------------------------------------------------

const Tensor& Tape::Node::value() {
  check_state(!released, op, ": backward has released this value");
  if (parameter == nullptr) return owned;
  if (!std::exchange(read, true)) version_read = parameter->version();
  return parameter->value();
}

void Tape::Node::release_value() {
  released = true;
  owned.storage() = {};  // the shape stays
}

bool Tape::has_read(const Parameter& parameter) const {
  return !is_inference() && std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& node) {
    return node.parameter == &parameter && node.read;
  });
}

std::vector<const Parameter*> Tape::parameters() const {
  std::vector<const Parameter*> all;
  for (const Node& node : nodes_)
    if (node.parameter != nullptr && node.needs_gradient &&
        std::find(all.begin(), all.end(), node.parameter) == all.end())
      all.push_back(node.parameter);
  return all;
}

Tape::Tape(Mode mode) : mode_(mode), slot_(tape_slots().acquire(this)) {}

Tape::Tape(Random& random, Mode mode) : Tape(mode) { random_ = &random; }

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

Variable Tape::record(OpName op, std::span<const Variable> inputs, Tensor value,
                      BackwardRule rule) {
  Node node{.op = op, .owned = std::move(value)};
  node.inputs.reserve(inputs.size());
  for (const Variable& input : inputs) {
    node.inputs.push_back(index_of(input, op));
    node.needs_gradient |= nodes_[node.inputs.back()].needs_gradient;
  }
  if (node.needs_gradient) {
    check_argument(rule != nullptr, std::string_view(op), ": there is no backward rule");
    node.rule = std::move(rule);
  }
  return append(std::move(node));
}

Random& Tape::random(std::string_view caller) const {
  check_state(random_ != nullptr, caller,
              ": the tape has no random numbers: make it as Tape tape(random)");
  return *random_;
}

void Tape::check_parameters_unchanged(std::size_t end) const {
  for (std::size_t i = 0; i < end; ++i) {
    const Node& node = nodes_[i];
    check_state(!node.read || node.parameter->version() == node.version_read,
                "Tape::backward: ", node.read ? node.parameter->name() : "",
                " was changed after it was read");
  }
}

void Tape::run_rule(std::size_t index, const Tensor* borrowed) {
  Node& node = nodes_[index];
  node.passed = borrowed != nullptr ? "dense" : node.gradient.kind();
  Backward backward(*this, index,
                    node.retains_gradient ? node.gradient : std::exchange(node.gradient, {}),
                    borrowed);
  node.rule(backward);
  const auto missed = std::find(backward.awaited_.begin(), backward.awaited_.end(), true);
  check_state(missed == backward.awaited_.end(), node.op,
              ": the backward rule gave no gradient for input ",
              missed - backward.awaited_.begin());
  node.rule = nullptr;  // frees what the rule had captured
}

void Tape::backward(const Variable& loss, KeepValues keep) {
  index_of(loss, "Tape::backward");
  check_argument(element_count(loss.shape()) == 1, "Tape::backward: the loss has shape ",
                 bracketed(loss.shape()), ", expected a single number");
  backward(loss, full(loss.shape(), 1), keep);
}

void Tape::backward(const Variable& y, const Tensor& gradient, KeepValues keep) {
  std::vector<std::pair<Parameter*, Gradient>> sums;
  run_backward(y, gradient, keep, [&](Parameter& parameter, Gradient sum) {
    sums.emplace_back(&parameter, std::move(sum));
  });
  for (auto& [parameter, sum] : sums) parameter->prepare_gradient(sum);

  // From here on nothing can fail: parameters change, and gradients can be read.
  has_gradients_ = true;
  for (auto& [parameter, sum] : sums) parameter->add_prepared_gradient(std::move(sum));
}

void Tape::backward(const Variable& y, const Tensor& gradient, KeepValues keep,
                    const GradientSink& sink) {
  run_backward(y, gradient, keep, sink);
  has_gradients_ = true;
}

void Tape::run_backward(const Variable& y, const Tensor& gradient, KeepValues keep,
                        const GradientSink& sink) {
  check_state(!is_inference(), "Tape::backward: an inference tape keeps nothing to go back on");
  check_state(!went_backward_, "Tape::backward: this tape has already gone backward");
  const std::size_t last = index_of(y, "Tape::backward");
  check_argument(gradient.shape() == y.shape(), "Tape::backward: the gradient has shape ",
                 bracketed(gradient.shape()), ", expected ", bracketed(y.shape()));
  check_state(nodes_[last].needs_gradient,
              "Tape::backward: the loss depends on nothing that needs a gradient");
  check_parameters_unchanged(last + 1);
  went_backward_ = true;

  std::vector<std::vector<Node*>> uses;  // the nodes of each parameter, in the order of the first
  for (std::size_t i = 0; i <= last; ++i) {
    Node& node = nodes_[i];
    if (node.parameter == nullptr || !node.needs_gradient) continue;
    const auto same = std::find_if(uses.begin(), uses.end(), [&](const auto& nodes) {
      return nodes.front()->parameter == node.parameter;
    });
    if (same == uses.end())
      uses.push_back({&node});
    else
      same->push_back(&node);
  }

  if (!nodes_[last].rule || nodes_[last].retains_gradient) nodes_[last].gradient = gradient;
  for (std::size_t i = last + 1; i-- > 0;) {
    Node& node = nodes_[i];
    if (node.op.empty()) node.passed = node.gradient.kind();
    if (node.rule && i == last)
      run_rule(i, &gradient);
    else if (node.rule && !node.gradient.is_none())
      run_rule(i, nullptr);
    if (keep == KeepValues::kNo && !node.op.empty() && i < last) node.release_value();

    // Nodes before the first one of a parameter do not depend on it.
    if (uses.empty() || uses.back().front() != &node) continue;
    Gradient sum;
    for (Node* use : uses.back()) sum.add(std::exchange(use->gradient, Gradient()));
    if (!sum.is_none()) sink(*node.parameter, std::move(sum));
    uses.pop_back();
  }
}

void Tape::retain_gradient(const Variable& variable) {
  Node& node = nodes_[index_of(variable, "Tape::retain_gradient")];
  check_state(!went_backward_, "Tape::retain_gradient: this tape has already gone backward");
  check_state(node.needs_gradient, "Tape::retain_gradient: the variable needs no gradient");
  check_state(node.parameter == nullptr,
              "Tape::retain_gradient: a parameter has its gradient itself");
  node.retains_gradient = true;
}

const Gradient& Tape::gradient(const Variable& variable) const {
  const Node& node = nodes_[index_of(variable, "Tape::gradient")];
  check_state(has_gradients_, "Tape::gradient: backward has not been completed");
  const bool is_input = node.op.empty() && node.parameter == nullptr && node.needs_gradient;
  check_state(is_input || node.retains_gradient,
              "Tape::gradient: gradients are kept only for variables made by Tape::input, and for "
              "those that Tape::retain_gradient was called for");
  return node.gradient;
}

std::string Tape::Node::name() const {
  if (!op.empty()) return std::string(op);
  return parameter != nullptr ? parameter->name() : needs_gradient ? "input" : "constant";
}

std::vector<Tape::Entry> Tape::entries() const {
  std::vector<Entry> all;
  for (const Node& node : nodes_)
    all.push_back({std::string(node.op), node.name(), node.shape(), node.passed,
                   node.needs_gradient, node.inputs});
  return all;
}

std::string Tape::to_dot() const {
  TextStream text;
  text << "digraph tape {\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n";
  const std::vector<Entry> all = entries();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Entry& node = all[i];
    text << "  n" << i << " [shape=" << (node.op.empty() ? "box" : "ellipse") << ", label=\""
         << in_dot(node.name) << "\\n"
         << bracketed(node.shape);
    if (has_gradients_ && node.needs_gradient) text << "\\ngradient: " << node.gradient;
    text << "\"" << (node.needs_gradient ? "" : ", color=gray") << "];\n";
    for (const std::uint32_t input : node.inputs) text << "  n" << input << " -> n" << i << ";\n";
  }
  text << "}\n";
  return std::move(text).str();
}

Variable record(OpName op, std::span<const Variable> inputs, Tensor value, BackwardRule rule) {
  check_argument(!inputs.empty(), std::string_view(op), ": no inputs were given");
  return inputs.front().tape().record(op, inputs, std::move(value), std::move(rule));
}

Variable record(OpName op, std::initializer_list<Variable> inputs, Tensor value,
                BackwardRule rule) {
  return record(op, std::span(inputs.begin(), inputs.size()), std::move(value), std::move(rule));
}

}  // namespace rowgrad
