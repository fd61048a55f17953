#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/norm.hpp>
#include <rowgrad/optim/gradient_clipping.hpp>

namespace rowgrad {
namespace {

using kernels::Simd;

void check_limit(const char* caller, const char* name, double limit) {
  check_argument(std::isfinite(limit) && limit >= 0, caller, ": ", name, " is ", limit,
                 ", expected a finite number >= 0");
}

void check_parameters(const char* caller, std::span<const Parameter* const> parameters) {
  std::set<const Parameter*> seen;
  for (const Parameter* parameter : parameters) {
    check_argument(parameter != nullptr, caller, ": got a null parameter");
    check_argument(seen.insert(parameter).second, caller, ": duplicate parameter ",
                   parameter->name());
  }
}

double joint_norm(const char* caller, std::span<const Parameter* const> parameters, double p,
                  const decltype(ClipNormOptions::all_parts)& all_parts = {}) {
  check_argument(p == 1 || p == 2 || p == std::numeric_limits<double>::infinity(), caller,
                 ": p is ", p, ", expected 1, 2 or infinity");
  check_parameters(caller, parameters);
  std::vector<kernels::RowSpan> arrays;
  std::vector<const Parameter*> of_arrays;
  for (const Parameter* parameter : parameters) {
    const std::span<const real> values = parameter->gradient().values();
    const Shape& shape = parameter->shape();
    const std::size_t width = shape.empty() ? 1 : shape.back();
    if (parameter->gradient().is_none() || width == 0) continue;
    arrays.push_back({values.data(), values.size() / width, width});
    of_arrays.push_back(parameter);
  }
  if (!all_parts) return kernels::norm(arrays, p);
  return kernels::norm(arrays, p, [&](std::size_t array, std::vector<double> parts) {
    return all_parts(*of_arrays[array], std::move(parts));
  });
}

// Replaces every gradient value g by f(g).
void change_gradients(std::span<Parameter* const> parameters, const auto& f) {
  for (Parameter* parameter : parameters) {
    const std::span<real> values = parameter->mutable_gradient_values();
    kernels::map_into(values.size(), values.data(), f, values.data());
  }
}

}  // namespace

double gradient_norm(const Parameter& parameter, double p) {
  const Parameter* const only = &parameter;
  return joint_norm("gradient_norm", {&only, 1}, p);
}

double gradient_norm(std::span<Parameter* const> parameters, double p) {
  return joint_norm("gradient_norm", {parameters.data(), parameters.size()}, p);
}

double clip_grad_norm(std::span<Parameter* const> parameters, double max_norm,
                      const ClipNormOptions& options) {
  constexpr auto kName = "clip_grad_norm";
  check_limit(kName, "max_norm", max_norm);
  const double before =
      joint_norm(kName, {parameters.data(), parameters.size()}, options.p, options.all_parts);
  check_runtime(!options.error_if_not_finite || std::isfinite(before), kName,
                ": the norm of order ", options.p, " is ", before,
                ", expected a finite number; the gradients are unchanged");
  // Written so that a NaN factor does not return here.
  const double factor = max_norm / (before + 1e-6);
  if (factor >= 1) return before;
  const Simd times(static_cast<real>(factor));
  change_gradients(parameters, [&times](const Simd& g) { return g * times; });
  return before;
}

void clip_grad_value(std::span<Parameter* const> parameters, double limit) {
  constexpr auto kName = "clip_grad_value";
  check_limit(kName, "limit", limit);
  check_parameters(kName, {parameters.data(), parameters.size()});
  const auto largest = static_cast<double>(std::numeric_limits<real>::max());
  const Simd high(static_cast<real>(std::min(limit, largest)));
  const Simd low = -high;
  change_gradients(parameters,
                   [&](const Simd& g) { return select(g > high, high, select(g < low, low, g)); });
}

}  // namespace rowgrad
