#include <algorithm>
#include <utility>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/base/ranges.hpp>
#include <rowgrad/core/kernels/rows.hpp>

namespace rowgrad {

// --- Backward ---------------------------------------------------------------------------------

Backward::Backward(Tape& tape, Tape::Node& node, Gradient gradient, const Tensor* callers_gradient)
    : tape_(tape),
      node_(node),
      gradient_(std::move(gradient)),
      callers_gradient_(callers_gradient) {
  for (const std::uint32_t input : node.inputs)
    awaited_.push_back(tape.nodes_[input].needs_gradient);
}

Tape::Node& Backward::input_node(std::size_t i) const {
  check_state(i < node_.inputs.size(), node_.op, ": the backward rule used input ", i,
              ", expected an index below ", node_.inputs.size());
  return tape_.nodes_[node_.inputs[i]];
}

const Tensor& Backward::gradient() const {
  if (callers_gradient_ != nullptr) return *callers_gradient_;
  check_state(!gradient_.is_none(), node_.op,
              ": the backward rule used the gradient again after take_gradient()");
  if (gradient_.is_rows()) gradient_ = std::move(gradient_).take_dense();
  return gradient_.dense();
}

Tensor Backward::take_gradient() {
  if (callers_gradient_ != nullptr) gradient_ = *std::exchange(callers_gradient_, nullptr);
  gradient();  // makes it dense
  return std::exchange(gradient_, {}).take_dense();
}

const Tensor& Backward::input(std::size_t i) const {
  const Tape::Node& input = input_node(i);
  check_state(input.parameter == nullptr || input.read_whole, node_.op,
              ": the backward rule used the value of input ", i, ", which the op did not read()");
  return input.value();
}

void Backward::expect(std::size_t i, const Shape& gradient) {
  const Shape& expected = input_shape(i);
  check_state(awaited_[i], node_.op, ": the backward rule gave input ", i,
              " a second gradient, or one that the input does not need");
  check_state(gradient == expected, node_.op, ": the backward rule gave input ", i,
              " a gradient of shape ", bracketed(gradient), ", expected ", bracketed(expected));
  awaited_[i] = false;
}

void GradientSlot::take(Gradient gradient) {
  if (!input_.needs_gradient) return;
  rule_.expect(index_, gradient.is_none() ? input_.shape() : gradient.shape());
  input_.gradient.add(std::move(gradient));
}

real* GradientSlot::data() {
  if (written_.is_none()) {
    rule_.expect(index_, input_.shape());
    if (adds_) written_ = std::exchange(input_.gradient, {});  // none if another slot took it
    if (written_.is_none()) written_ = adds_ ? zeros(input_.shape()) : empty(input_.shape());
  }
  return written_.dense().data();
}

// --- Tape -------------------------------------------------------------------------------------

const Tensor& Tape::Node::value() const {
  check_state(!released, op, ": backward() has released this value (see keep_values)");
  return parameter == nullptr ? owned : parameter->value();
}

const Tensor& Tape::Node::read() {
  const Tensor& result = value();
  if (parameter != nullptr && !std::exchange(read_whole, true)) version_read = parameter->version();
  return result;
}

void Tape::Node::release_value() {
  released = true;
  owned.storage() = {};  // keeps the shape
}

bool Tape::has_read(const Parameter& parameter) const {
  return !is_inference() && std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& node) {
    return node.parameter == &parameter && node.read_whole;
  });
}

Variable Tape::append(Node node) {
  nodes_.push_back(std::move(node));
  return {slot_, static_cast<std::uint32_t>(nodes_.size() - 1)};
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

Random& Tape::random(std::string_view caller) const {
  check_state(random_ != nullptr, caller,
              ": the tape has no random number generator, expected Tape tape(random)");
  return *random_;
}

void Tape::run_rule(Node& node, const Tensor* callers_gradient) {
  node.gradient_kind = callers_gradient != nullptr ? "dense" : node.gradient.kind();
  Backward backward(*this, node,
                    node.retains_gradient ? node.gradient : std::exchange(node.gradient, {}),
                    callers_gradient);
  node.rule(backward);
  const auto missed = std::find(backward.awaited_.begin(), backward.awaited_.end(), true);
  check_state(missed == backward.awaited_.end(), node.op,
              ": the backward rule left the slot of input ", missed - backward.awaited_.begin(),
              " empty, expected a gradient");
  node.rule = nullptr;  // frees the captured data
}

void Tape::backward(const Variable& loss, const BackwardOptions& options) {
  index_of(loss, "Tape::backward");
  check_argument(element_count(loss.shape()) == 1, "Tape::backward: the loss has shape ",
                 bracketed(loss.shape()), ", expected a single element");
  go_backward(loss, full(loss.shape(), 1), options);
}

void Tape::go_backward(const Variable& y, const Tensor& gradient, const BackwardOptions& options) {
  check_state(!is_inference(), "Tape::backward: the tape is an inference tape");
  check_state(!went_backward_, "Tape::backward: backward() was already called on this tape");
  const std::size_t last = index_of(y, "Tape::backward");
  check_argument(gradient.shape() == y.shape(), "Tape::backward: the gradient has shape ",
                 bracketed(gradient.shape()), ", expected ", bracketed(y.shape()));
  check_state(nodes_[last].needs_gradient,
              "Tape::backward: the loss depends on nothing that needs a gradient");
  std::vector<std::pair<Parameter*, Gradient>> sums;
  std::vector<std::vector<Node*>> uses;  // nodes of each parameter, by first use
  for (std::size_t i = 0; i <= last; ++i) {
    Node& node = nodes_[i];
    check_state(!node.read_whole || node.parameter->version() == node.version_read,
                "Tape::backward: ", node.read_whole ? node.parameter->name() : "",
                " has changed since this tape read it");
    if (node.parameter == nullptr || !node.needs_gradient) continue;
    const auto same = std::find_if(uses.begin(), uses.end(), [&](const auto& nodes) {
      return nodes.front()->parameter == node.parameter;
    });
    (same == uses.end() ? uses.emplace_back() : *same).push_back(&node);
  }

  went_backward_ = true;
  if (!nodes_[last].rule || nodes_[last].retains_gradient) nodes_[last].gradient = gradient;
  for (std::size_t i = last + 1; i-- > 0;) {
    Node& node = nodes_[i];
    if (node.op.empty()) node.gradient_kind = node.gradient.kind();
    if (node.rule && (i == last || !node.gradient.is_none()))
      run_rule(node, i == last ? &gradient : nullptr);
    if (!options.keep_values && !node.op.empty() && i < last) node.release_value();

    // The gradient of a parameter is complete once its first use has been visited.
    if (uses.empty() || uses.back().front() != &node) continue;
    // Adding many gradients as a tree is more accurate, and faster for row gradients.
    const auto sum_few = [&](IndexRange range, Gradient& sum) {
      if (range.size() > kernels::kRunningSum) return false;
      for (std::size_t use = range.begin; use < range.end; ++use)
        sum.add(std::exchange(uses.back()[use]->gradient, Gradient()));
      return true;
    };
    Gradient sum = tree_sum<Gradient>({0, uses.back().size()}, sum_few,
                                      [](Gradient& a, Gradient b) { a.add(std::move(b)); });
    if (!options.sink)
      sums.emplace_back(node.parameter, std::move(sum));
    else if (!sum.is_none())
      options.sink(*node.parameter, std::move(sum));
    uses.pop_back();
  }

  // From here on, only allocations and RowSource::check_takes_gradient() can fail.
  has_gradients_ = true;
  for (auto& [parameter, sum] : sums) parameter->add_gradient(std::move(sum));
}

void Tape::retain_gradient(const Variable& variable) {
  Node& node = nodes_[index_of(variable, "Tape::retain_gradient")];
  check_state(!went_backward_, "Tape::retain_gradient: backward() was already called on this tape");
  check_state(node.needs_gradient, "Tape::retain_gradient: the variable needs no gradient");
  check_state(node.parameter == nullptr,
              "Tape::retain_gradient: the variable is a parameter, which keeps its own gradient");
  node.retains_gradient = true;
}

const Gradient& Tape::gradient(const Variable& variable) const {
  const Node& node = nodes_[index_of(variable, "Tape::gradient")];
  check_state(has_gradients_, "Tape::gradient: backward() has not completed");
  const bool is_input = node.op.empty() && node.parameter == nullptr && node.needs_gradient;
  check_state(is_input || node.retains_gradient,
              "Tape::gradient: the gradient was not kept, expected a variable made by input() or "
              "passed to retain_gradient()");
  return node.gradient;
}

Variable record(OpName op, std::span<const Variable> inputs, Tensor value, BackwardRule rule) {
  check_argument(!inputs.empty(), std::string_view(op), ": no inputs, expected at least one");
  Tape& tape = inputs.front().tape();
  Tape::Node node{.op = op, .owned = std::move(value)};
  node.inputs.reserve(inputs.size());
  for (const Variable& input : inputs) {
    node.inputs.push_back(tape.index_of(input, op));
    node.needs_gradient |= tape.nodes_[node.inputs.back()].needs_gradient;
  }
  if (node.needs_gradient) {
    check_argument(rule != nullptr, std::string_view(op), ": the backward rule is missing");
    node.rule = std::move(rule);
  }
  return tape.append(std::move(node));
}

}  // namespace rowgrad
