#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/dropout.hpp>
#include <rowgrad/core/ops/dropout.hpp>

namespace rowgrad {

Variable dropout(const Variable& x, double p) {
  check_argument(p >= 0 && p <= 1, "dropout: p is ", p, ", expected 0 to 1");
  if (p == 0) return x;
  const std::size_t count = x.value().size();
  const auto factor = static_cast<real>(p < 1 ? 1 / (1 - p) : 0);
  kernels::KeepMask mask = kernels::draw_keep_mask(x.tape().random("dropout"), count, p);
  Tensor value = empty(x.shape());
  kernels::apply_keep_mask(mask, count, x.value().data(), factor, value.data());
  return record("dropout", {x}, std::move(value), [mask = std::move(mask), factor](Backward& node) {
    Tensor dx = node.take_gradient();
    kernels::apply_keep_mask(mask, dx.size(), dx.data(), factor, dx.data());
    node.give(0, std::move(dx));
  });
}

}  // namespace rowgrad
