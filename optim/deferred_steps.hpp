#pragma once

// The deferred steps of a row in closed form: many steps at once, one vector of values at a time.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include <rowgrad/optim/rule_vectors.hpp>
#include <rowgrad/optim/step_history.hpp>

namespace rowgrad {

/// The deferred steps of rows, up to step `to`. Keeps the last ones, as neighbours often share
/// them.
template <class Rule>
class DeferredSteps {
 public:
  static constexpr std::size_t kArrays = kArraysOf<Rule>;  // values and slots
  using Simd = kernels::Simd;                              // numbers of one vector register
  using Vectors = RuleVectors<Rule>;                       // vectors of values, and of each state

  /// Several steps without gradient as one linear map with coefficients of type `real`. It holds
  /// only for moderate values: none overflows, and coefficients below the range of `real` do not
  /// matter.
  class Piece {
   public:
    Piece() = default;
    /// Applies a map. `steps` replays the steps for values that the map does not hold for.
    Piece(const DeferredSteps& steps, const typename StepHistory<Rule>::Map& map) : steps_(&steps) {
      using Limits = std::numeric_limits<real>;
      constexpr Coefficient kLargest = Limits::max(), kFinest = Limits::denorm_min();
      Coefficient total = 1;  // after the map, values are at most this many times as large
      Coefficient lost = 0;   // the largest error of a coefficient below the normal range
      for (std::size_t i = 0; i < kArrays; ++i)
        for (std::size_t j = 0; j < kArrays; ++j) {
          const Coefficient size = std::abs(map[i][j]);
          total += size;
          if (size < Limits::min()) lost = std::max(lost, std::min(size, kFinest));
          map_[i][j] = Simd(static_cast<real>(std::clamp(map[i][j], -kLargest, kLargest)));
        }
      Coefficient most = kLargest / (kMaxGrowth * total) / 2;  // half, because sums are rounded
      if (!(most >= 1)) return;
      if (lost > 0) most = std::min(most, Limits::min() / lost);
      most_ = Simd(static_cast<real>(most));
    }

    Vectors operator()(const Vectors& x) const {  // values and states after the steps
      const auto holds = this->holds(x);
      if (kernels::lanes::all(holds)) [[likely]]
        return apply(x);
      Vectors result = copy(x);
      steps_->replay(holds, result);
      return result;
    }

   private:
    friend class DeferredSteps;

    // For which values, together with their states, the map holds. Never for infinity or NaN.
    auto holds(const Vectors& x) const {
      Simd total = abs(x[0]);
      for (std::size_t i = 1; i < kArrays; ++i) total = total + abs(x[i]);
      return total <= most_;
    }

    Vectors apply(const Vectors& x) const {
      Vectors y;
      for (std::size_t i = 0; i < kArrays; ++i) {
        y[i] = map_[i][0] * x[0];
        for (std::size_t j = 1; j < kArrays; ++j) y[i] = fma(map_[i][j], x[j], y[i]);
      }
      return y;
    }

    const DeferredSteps* steps_ = nullptr;
    std::array<std::array<Simd, kArrays>, kArrays> map_;
    Simd most_ = Simd(real{-1});
  };

  /// Borrows the history. `rows` is about how many rows follow.
  DeferredSteps(const StepHistory<Rule>& history, std::uint64_t to, std::size_t /*rows*/)
      : history_(history), to_(to) {}

  std::uint64_t to() const { return to_; }  // the last of the steps

  /// Returns true if a row of step `from` is stale. If so, calls call(piece, last) for each piece
  /// of its deferred steps: Vectors y = piece(x), on values and state that went through the pieces
  /// before. A copy of `piece` can stay in registers. Requires: all steps have a closed form.
  bool for_each_piece(std::uint64_t from, const auto& call) {
    if (from == to_) return false;
    if (std::exchange(from_, from) != from)
      piece_ = Piece(*this, history_.compose_steps(from, to_));
    call(piece_, std::true_type());
    return true;
  }

 private:
  // Copies one vector at a time: an array whose address is taken would stay in memory in the loop.
  static Vectors copy(const Vectors& x) {
    Vectors result;
    for (std::size_t k = 0; k < kArrays; ++k) result[k] = x[k];
    return result;
  }

  [[gnu::noinline]] void replay(auto holds, Vectors& x) const;

  const StepHistory<Rule>& history_;
  std::uint64_t to_;
  std::uint64_t from_ = ~std::uint64_t{0};
  Piece piece_;
};

// --- Values that a map does not hold for ---------------------------------------------------------

// Replays every step for values that the map does not hold for: those that overflow on the way,
// or are not finite to begin with, end as they do under the dense optimizer.
template <class Rule>
void DeferredSteps<Rule>::replay(auto holds, Vectors& x) const {
  const Vectors mapped = piece_.apply(x);
  for (Simd& values : x) values = select(holds, Simd(real{0}), values);
  std::uint64_t at = from_;
  for (std::size_t i = history_.run_of(from_ + 1); at < to_; ++i) {
    const Rule& rule = history_.rule(i);
    const std::uint64_t end = std::min(to_, history_.runs()[i].end);
    bool changes = true;  // NaN, infinity and zero soon stop changing
    for (; at < end && changes; ++at) {
      const Vectors before = x;
      update(rule, x, Simd(real{0}));
      changes = false;
      for (std::size_t k = 0; k < kArrays; ++k)
        changes =
            changes || !kernels::lanes::all(x[k] == before[k] || (isnan(x[k]) && isnan(before[k])));
    }
    at = end;
  }
  for (std::size_t k = 0; k < kArrays; ++k) x[k] = select(holds, mapped[k], x[k]);
}

}  // namespace rowgrad
