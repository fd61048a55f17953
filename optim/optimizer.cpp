#include <cmath>
#include <new>
#include <set>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/optim/optimizer.hpp>
#include <rowgrad/optim/update_rule.hpp>

namespace rowgrad {

Optimizer::Optimizer(std::vector<Parameter*> parameters) { add_parameters(parameters); }

Optimizer::~Optimizer() {
  for (Parameter* parameter : parameters_) parameter->remove_user(*this);
}

void Optimizer::forget(const Parameter& parameter) noexcept {
  std::erase(parameters_, &parameter);
  lost_ = true;
  try {
    lost_name_ = parameter.name();
  } catch (const std::bad_alloc&) {
    lost_name_ = "a parameter";  // short enough to need no allocation
  }
}

void Optimizer::check_parameters_live() const {
  check_state(!lost_, "Optimizer: ", lost_name_,
              " was destroyed before the optimizer that trains it");
}

void Optimizer::add_parameters(const std::vector<Parameter*>& parameters) {
  check_parameters_live();
  check_argument(!parameters.empty(), "Optimizer: got no parameters, expected at least one");
  std::set<const Parameter*> seen(parameters_.begin(), parameters_.end());
  for (const Parameter* parameter : parameters) {
    check_argument(parameter != nullptr, "Optimizer: got a null parameter");
    check_argument(seen.insert(parameter).second, "Optimizer: duplicate parameter ",
                   parameter->name());
  }
  const std::size_t before = parameters_.size();
  try {
    parameters_.insert(parameters_.end(), parameters.begin(), parameters.end());
    for (Parameter* parameter : parameters) parameter->add_user(*this);
  } catch (const std::bad_alloc&) {
    for (Parameter* parameter : parameters) parameter->remove_user(*this);
    parameters_.resize(before);
    throw;
  }
}

void Optimizer::check_trains_all(const Tape& tape) const {
  const std::set<const Parameter*> own(parameters_.begin(), parameters_.end());
  for (const Parameter* parameter : tape.parameters())
    check_state(
        own.contains(parameter), "Optimizer: '", parameter->name(), "' ",
        bracketed(parameter->shape()),
        " is used by the loss, but is not one of the optimizer's parameters: is its layer a "
        "Submodule of the model?");
}

void Optimizer::check_uses_all() const {
  for (const Parameter* parameter : parameters_)
    check_state(!parameter->trainable() || !parameter->gradient().is_none(), "Optimizer: '",
                parameter->name(), "' ", bracketed(parameter->shape()),
                " is a parameter of the optimizer, but the loss does not use it: does forward use "
                "its layer? Freeze the parameter if the loss should not use it.");
}

std::shared_ptr<void> Optimizer::claim_rates() {
  if (!schedule_.expired()) return nullptr;
  const std::shared_ptr<void> handle = std::make_shared<bool>();
  schedule_ = handle;
  return handle;
}

void Optimizer::zero_grad() {
  check_parameters_live();
  for (Parameter* parameter : parameters_) parameter->zero_gradient();
}

void check_option(std::string_view optimizer, std::string_view option, double value,
                  OptionRange range) {
  const bool is_finite = std::isfinite(static_cast<real>(value));
  if (is_finite && value >= range.least && value < range.below) return;
  std::string bounds;
  if (range.least > -kUnbounded) bounds += concat(" >= ", range.least);
  if (range.below < kUnbounded) bounds += concat(", < ", range.below);
  if (!is_finite && std::isfinite(value))
    bounds += concat(", <= ", std::numeric_limits<real>::max());
  throw_invalid_argument(
      {optimizer, ": ", option, " is ", value, ", expected a finite number", bounds});
}

}  // namespace rowgrad
