#include <cmath>
#include <string_view>

#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/optim/sgd.hpp>

namespace rowgrad {

using kernels::map_span;
using kernels::Simd;

namespace {

constexpr std::string_view kMomentum = "momentum.";

void check_options(const SgdOptions& options) {
  const auto check = [](const char* name, double value) {
    check_argument(std::isfinite(value) && value >= 0, "SGD: ", name, " is ", value,
                   ", expected a finite number not below 0");
  };
  check("learning_rate", options.learning_rate);
  check("momentum", options.momentum);
  check("weight_decay", options.weight_decay);
  check_argument(std::isfinite(options.dampening), "SGD: dampening is ", options.dampening);
  check_argument(!options.nesterov || (options.momentum > 0 && options.dampening == 0),
                 "SGD: nesterov needs momentum above 0 and no dampening, got momentum ",
                 options.momentum, " and dampening ", options.dampening);
}

std::vector<Parameter*> all_parameters(const std::vector<SGD::Group>& groups) {
  std::vector<Parameter*> all;
  for (const SGD::Group& group : groups)
    all.insert(all.end(), group.parameters.begin(), group.parameters.end());
  return all;
}

}  // namespace

SGD::SGD(std::vector<Parameter*> parameters, const SgdOptions& options)
    : SGD(std::vector<Group>{{std::move(parameters), options}}) {}

SGD::SGD(std::vector<Group> groups) : Optimizer(all_parameters(groups)) {
  for (const Group& group : groups) {
    check_options(group.options);
    for (Parameter* parameter : group.parameters)
      slots_.push_back({parameter, options_.size(), std::nullopt});
    options_.push_back(group.options);
  }
}

const SgdOptions& SGD::options(std::size_t group) const {
  check_argument(group < options_.size(), "SGD: group ", group, " of ", options_.size());
  return options_[group];
}

void SGD::set_options(const SgdOptions& options, std::size_t group) {
  check_options(options);
  check_argument(group < options_.size(), "SGD: group ", group, " of ", options_.size());
  options_[group] = options;
}

void SGD::step() {
  const auto takes_part = [](const Slot& slot) {
    return slot.parameter->trainable() && !slot.parameter->gradient().is_none();
  };
  for (const Slot& slot : slots_) {
    const SgdOptions& options = options_[slot.group];
    check_state(!takes_part(slot) || slot.parameter->gradient().is_dense() ||
                    (options.momentum == 0 && options.weight_decay == 0),
                "SGD: ", slot.parameter->name(), " has row gradients, which momentum ",
                options.momentum, " and weight decay ", options.weight_decay,
                " cannot use exactly yet; set both to 0, or ask its layer for dense gradients");
  }
  for (Slot& slot : slots_)
    if (takes_part(slot)) update(slot);
}

void SGD::update(Slot& slot) {
  const SgdOptions& options = options_[slot.group];
  const Simd rate(static_cast<real>(options.learning_rate));
  const Simd decay(static_cast<real>(options.weight_decay));
  if (options.momentum == 0) {
    visit_gradient(*slot.parameter, [&](std::size_t, std::size_t count, real* values,
                                        const real* gradient) {
      map_span(
          count, values, [&](const Simd& w, const Simd& g) { return w - rate * (g + decay * w); },
          values, gradient);
    });
    return;
  }

  const bool first = !slot.momentum;
  if (first) slot.momentum = zeros(slot.parameter->shape());
  real* momentum = slot.momentum->data();
  const Simd keep(static_cast<real>(options.momentum));
  const Simd enter(static_cast<real>(first ? 1 : 1 - options.dampening));
  const Simd ahead(static_cast<real>(options.nesterov ? 1 : 0));
  const Simd follow(static_cast<real>(options.nesterov ? options.momentum : 1));
  visit_gradient(*slot.parameter,
                 [&](std::size_t offset, std::size_t count, real* values, const real* gradient) {
                   real* v = momentum + offset;
                   map_span(
                       count, v,
                       [&](const Simd& old, const Simd& w, const Simd& g) {
                         return keep * old + enter * (g + decay * w);
                       },
                       v, values, gradient);
                   map_span(
                       count, values,
                       [&](const Simd& w, const Simd& g, const Simd& now) {
                         return w - rate * (ahead * (g + decay * w) + follow * now);
                       },
                       values, gradient, v);
                 });
}

std::map<std::string, Tensor> SGD::state() const {
  std::map<std::string, Tensor> all;
  for (const Slot& slot : slots_) {
    if (!slot.momentum) continue;
    const auto name = concat(kMomentum, slot.parameter->name());
    check_argument(all.emplace(name, *slot.momentum).second,
                   "SGD::state: two parameters are named ", slot.parameter->name());
  }
  return all;
}

void SGD::load_state(std::map<std::string, Tensor> state) {
  std::map<std::string, const Slot*> names;
  for (const Slot& slot : slots_) {
    const auto name = concat(kMomentum, slot.parameter->name());
    check_argument(names.emplace(name, &slot).second, "SGD::load_state: two parameters are named ",
                   slot.parameter->name());
    const auto found = state.find(name);
    if (found == state.end()) continue;
    check_argument(found->second.shape() == slot.parameter->shape(), "SGD::load_state: '", name,
                   "' has shape ", bracketed(found->second.shape()), ", expected ",
                   bracketed(slot.parameter->shape()));
  }
  for (const auto& [name, tensor] : state)
    check_argument(names.contains(name), "SGD::load_state: there is no parameter for '", name, "'");
  for (Slot& slot : slots_) {
    const auto found = state.find(concat(kMomentum, slot.parameter->name()));
    slot.momentum = found == state.end() ? std::nullopt : std::optional(std::move(found->second));
  }
}

}  // namespace rowgrad
