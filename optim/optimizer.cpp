#include <set>
#include <utility>

#include <rowgrad/optim/optimizer.hpp>

namespace rowgrad {

Optimizer::Optimizer(std::vector<Parameter*> parameters) : parameters_(std::move(parameters)) {
  check_argument(!parameters_.empty(), "Optimizer: there are no parameters");
  std::set<const Parameter*> seen;
  for (const Parameter* parameter : parameters_) {
    check_argument(parameter != nullptr, "Optimizer: a parameter is null");
    check_argument(seen.insert(parameter).second, "Optimizer: ", parameter->name(),
                   " is given twice");
  }
}

void Optimizer::zero_grad() {
  for (Parameter* parameter : parameters_) parameter->zero_gradient();
}

void Optimizer::load_state(std::map<std::string, Tensor> state) {
  check_argument(state.empty(), "Optimizer::load_state: this optimizer keeps nothing, but '",
                 state.empty() ? "" : state.begin()->first, "' is given");
}

}  // namespace rowgrad
