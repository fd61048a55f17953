#include <rowgrad/layers/linear.hpp>
#include <rowgrad/layers/sequential.hpp>

namespace rowgrad {

Variable Sequential::forward(const Variable& x) {
  Variable value = x;
  for (const VariableFunction& step : steps_) value = step(value);
  return value;
}

Mlp::Mlp(const std::vector<std::size_t>& widths, Random& random, const MlpOptions& options) {
  check_argument(widths.size() >= 2, "Mlp: widths is ", bracketed(widths),
                 ", expected at least two widths: inputs and outputs");
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    add<Linear>(widths[i], widths[i + 1], random);
    if (i + 2 == widths.size() && !options.activate_last) break;
    add(options.activation);
    if (options.dropout != 0) add<Dropout>(options.dropout);
  }
}

}  // namespace rowgrad
