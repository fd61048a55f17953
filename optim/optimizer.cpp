#include <cmath>
#include <set>

#include <rowgrad/optim/optimizer.hpp>
#include <rowgrad/optim/update_rule.hpp>

namespace rowgrad {

Optimizer::Optimizer(std::vector<Parameter*> parameters) { add_parameters(parameters); }

void Optimizer::add_parameters(const std::vector<Parameter*>& parameters) {
  check_argument(!parameters.empty(), "Optimizer: there are no parameters");
  std::set<const Parameter*> seen(parameters_.begin(), parameters_.end());
  for (const Parameter* parameter : parameters) {
    check_argument(parameter != nullptr, "Optimizer: a parameter is null");
    check_argument(seen.insert(parameter).second, "Optimizer: ", parameter->name(),
                   " is given twice");
  }
  parameters_.insert(parameters_.end(), parameters.begin(), parameters.end());
}

void Optimizer::zero_grad() {
  for (Parameter* parameter : parameters_) parameter->zero_gradient();
}

void check_option(std::string_view optimizer, std::string_view option, double value,
                  OptionRange range) {
  const bool fits = std::isfinite(static_cast<real>(value));
  check_argument(
      fits && value >= range.least && value < range.below, optimizer, ": ", option, " is ", value,
      ", expected a finite number not below ", range.least,
      range.below < kUnbounded ? concat(", below ", range.below) : "",
      !fits && std::isfinite(value) ? concat(", at most ", std::numeric_limits<real>::max()) : "");
}

}  // namespace rowgrad
