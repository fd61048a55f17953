#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/ops/dropout.hpp>

namespace rowgrad {

Variable dropout(const Variable& x, double p, Random& random) {
  check_argument(p >= 0 && p <= 1, "dropout: p is ", p, ", expected 0 to 1");
  if (p == 0) return x;
  Tensor mask = empty(x.shape());
  const auto kept = static_cast<real>(p < 1 ? 1 / (1 - p) : 0);
  for (real& factor : mask.storage()) factor = random.bits() * 0x1p-32 < p ? 0 : kept;
  constexpr auto kProduct = [](const kernels::Simd& a, const kernels::Simd& b) { return a * b; };
  Tensor value = kernels::map(kProduct, x.value(), mask);
  return record("dropout", {x}, std::move(value),
                [kProduct, mask = std::move(mask)](Backward& node) {
                  node.give(0, kernels::map_in_place(kProduct, node.take_gradient(), mask));
                });
}

}  // namespace rowgrad
