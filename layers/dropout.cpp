#include <atomic>

#include <rowgrad/core/ops/dropout.hpp>
#include <rowgrad/layers/dropout.hpp>

namespace rowgrad {
namespace {

// For layers that are given no seed: one after another, far from those that people choose.
std::uint64_t next_seed() {
  static std::atomic<std::uint64_t> next = 0x9E3779B9;
  return next++;
}

}  // namespace

Dropout::Dropout(double p, std::optional<std::uint64_t> seed)
    : p_(p), random_(seed ? *seed : next_seed()) {
  check_argument(p >= 0 && p <= 1, "Dropout: p is ", p, ", expected 0 to 1");
  register_random("random", random_);
}

Variable Dropout::forward(const Variable& x) { return training() ? dropout(x, p_, random_) : x; }

}  // namespace rowgrad
