#pragma once

// The steps that rows are owed, in closed form: many steps at once, one vector of values at a time.

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include <rowgrad/optim/rule_arrays.hpp>
#include <rowgrad/optim/step_history.hpp>

namespace rowgrad {

/// The steps that rows are owed up to `to`. Keeps the last ones, as neighbours often share them.
template <class Rule>
class OwedSteps {
 public:
  using Arrays = RuleArrays<Rule>;
  using Simd = typename Arrays::Simd;
  using Vectors = typename Arrays::Vectors;

  /// Several steps without gradient as one linear map with coefficients of type `real`. It holds
  /// only for moderate values: none overflows, and coefficients below the range of `real` do not
  /// matter.
  class Part {
   public:
    Part() = default;
    Part(const OwedSteps& owed, const LinearMap<Arrays::kArrays>& map) : owed_(&owed) {
      using Limits = std::numeric_limits<real>;
      constexpr Coefficient kLargest = Limits::max(), kFinest = Limits::denorm_min();
      Coefficient total = 1;  // after the map, values are at most this many times as large
      Coefficient lost = 0;   // the largest error of a coefficient below the normal range
      for (std::size_t i = 0; i < Arrays::kArrays; ++i)
        for (std::size_t j = 0; j < Arrays::kArrays; ++j) {
          const Coefficient size = std::abs(map[i][j]);
          total += size;
          if (size < Limits::min()) lost = std::max(lost, std::min(size, kFinest));
          map_[i][j] = Simd(static_cast<real>(std::clamp(map[i][j], -kLargest, kLargest)));
        }
      Coefficient most = kLargest / (kMostGrowth * total) / 2;  // half, because sums are rounded
      if (!(most >= 1)) return;
      if (lost > 0) most = std::min(most, Limits::min() / lost);
      most_ = Simd(static_cast<real>(most));
    }

    Vectors operator()(const Vectors& x) const {
      const auto holds = this->holds(x);
      if (all(holds)) [[likely]]
        return apply(x);
      Vectors result = copy(x);
      owed_->replay(holds, result);
      return result;
    }

   private:
    friend class OwedSteps;

    // For which values, together with their states, the map holds. Never for infinity or NaN.
    auto holds(const Vectors& x) const {
      Simd total = abs(x[0]);
      for (std::size_t i = 1; i < Arrays::kArrays; ++i) total = total + abs(x[i]);
      return total <= most_;
    }

    Vectors apply(const Vectors& x) const {
      Vectors y;
      for (std::size_t i = 0; i < Arrays::kArrays; ++i) {
        y[i] = map_[i][0] * x[0];
        for (std::size_t j = 1; j < Arrays::kArrays; ++j) y[i] = y[i] + map_[i][j] * x[j];
      }
      return y;
    }

    const OwedSteps* owed_ = nullptr;
    std::array<std::array<Simd, Arrays::kArrays>, Arrays::kArrays> map_;
    Simd most_ = Simd(real{-1});
  };

  OwedSteps(const StepHistory<Rule>& history, std::uint64_t to) : history_(history), to_(to) {}

  std::uint64_t to() const { return to_; }

  /// Whether a row that is up to date as of step `from` is owed any steps; each must have a closed
  /// form. If so, calls visit(part, last) for each part of it: Vectors y = part(x), on values and
  /// states that went through the parts before. A copy of `part` can stay in registers.
  bool visit(std::uint64_t from, const auto& visit) {
    if (from == to_) return false;
    if (std::exchange(from_, from) != from) part_ = Part(*this, history_.compose_steps(from, to_));
    visit(part_, std::true_type());
    return true;
  }

 private:
  // Copies one vector at a time: an array whose address is taken would stay in memory in the loop.
  static Vectors copy(const Vectors& x) {
    Vectors result;
    for (std::size_t k = 0; k < Arrays::kArrays; ++k) result[k] = x[k];
    return result;
  }

  // Replays every step for values that the map does not hold for: those that overflow on the way,
  // or are not finite to begin with, end as they do under the dense optimizer.
  [[gnu::noinline]] void replay(auto holds, Vectors& x) const {
    const Vectors mapped = part_.apply(x);
    for (Simd& numbers : x) numbers = select(holds, Simd(real{0}), numbers);
    std::uint64_t at = from_;
    for (std::size_t run = history_.run_of(from_ + 1); at < to_; ++run) {
      const std::uint64_t end = std::min(to_, history_.runs()[run].end);
      bool changes = true;  // NaN, infinity and zero soon stop changing
      for (; at < end && changes; ++at) {
        const Vectors before = x;
        Arrays::update(history_.runs()[run].rule, x, Simd(real{0}));
        changes = false;
        for (std::size_t k = 0; k < Arrays::kArrays; ++k)
          changes = changes || !all(x[k] == before[k] || (isnan(x[k]) && isnan(before[k])));
      }
      at = end;
    }
    for (std::size_t k = 0; k < Arrays::kArrays; ++k) x[k] = select(holds, mapped[k], x[k]);
  }

  const StepHistory<Rule>& history_;
  std::uint64_t to_;
  std::uint64_t from_ = ~std::uint64_t{0};
  Part part_;
};

}  // namespace rowgrad
