#include <algorithm>

#include <rowgrad/core/ops/shape.hpp>
#include <rowgrad/layers/linear.hpp>
#include <rowgrad/layers/sequential.hpp>

namespace rowgrad {

LookBack::LookBack(std::size_t steps) : steps_(steps) {
  check_argument(steps > 0, "LookBack: steps must be above 0");
}

Variable LookBack::forward(const Variable& x) {
  const Shape shape = x.shape();
  check_argument(shape.size() >= 2, "LookBack: x has shape ", bracketed(shape),
                 ", expected [..., length, width]");
  if (steps_ == 1) return x;
  Shape result = shape;
  result.push_back(steps_);
  element_count(result, "LookBack");
  const std::size_t length = shape[shape.size() - 2];
  std::vector<Variable> parts;
  for (std::size_t back = steps_; back-- > 0;) {
    const std::size_t missing = std::min(back, length);
    Shape before = shape;
    before[shape.size() - 2] = missing;
    const auto kept = static_cast<std::ptrdiff_t>(length - missing);
    parts.push_back(
        missing == 0 ? x
                     : concatenate({x.tape().constant(zeros(before)), slice(x, -2, 0, kept)}, -2));
  }
  return concatenate(parts, -1);
}

Variable Sequential::forward(const Variable& x) {
  Variable value = x;
  for (const VariableFunction& step : steps_) value = step(value);
  return value;
}

Mlp::Mlp(const std::vector<std::size_t>& widths, Random& random, const MlpOptions& options) {
  check_argument(widths.size() >= 2, "Mlp: widths ", bracketed(widths),
                 " are too few, expected at least inputs and outputs");
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    add<Linear>(widths[i], widths[i + 1], random);
    if (i + 2 == widths.size() && !options.activate_last) break;
    add(options.activation);
    if (options.dropout != 0) add<Dropout>(options.dropout);
  }
}

}  // namespace rowgrad
