#pragma once

// Applies the deferred steps of rows in closed form: many steps at once, to a vector of values.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include <rowgrad/optim/rule_vectors.hpp>
#include <rowgrad/optim/step_history.hpp>

namespace rowgrad {

/// The deferred steps of rows, up to step `to`. Caches the last Piece, because neighbouring rows
/// are often at the same step.
template <class Rule>
class DeferredSteps {
 public:
  static constexpr std::size_t kArrays = kArraysOf<Rule>;  // values and slots
  using Simd = kernels::Simd;                              // one vector register
  using Vectors = RuleVectors<Rule>;  // a vector of values and one of each slot

  /// Several steps without gradient as one linear map with coefficients of type `real`. The map is
  /// valid for values small enough that none overflows and that coefficients below the range of
  /// `real` have no effect.
  class Piece {
   public:
    Piece() = default;
    /// Creates the piece of a map. `steps` replays every step where the map is not valid.
    Piece(const DeferredSteps& steps, const typename StepHistory<Rule>::Map& map) : steps_(&steps) {
      using Limits = std::numeric_limits<real>;
      constexpr Coefficient kLargest = Limits::max(), kFinest = Limits::denorm_min();
      Coefficient total = 1;  // an upper bound on how much the map enlarges values
      Coefficient lost = 0;   // the largest error of a coefficient below the normal range
      for (std::size_t i = 0; i < kArrays; ++i)
        for (std::size_t j = 0; j < kArrays; ++j) {
          const Coefficient size = std::abs(map[i][j]);
          total += size;
          if (size < Limits::min()) lost = std::max(lost, std::min(size, kFinest));
          map_[i][j] = Simd(static_cast<real>(std::clamp(map[i][j], -kLargest, kLargest)));
        }
      Coefficient most = kLargest / (kMaxGrowth * total) / 2;  // half, for rounding of sums
      if (!(most >= 1)) return;
      if (lost > 0) most = std::min(most, Limits::min() / lost);
      most_ = Simd(static_cast<real>(most));
    }

    Vectors operator()(const Vectors& x) const {  // returns values and state after the steps
      const auto holds = this->holds(x);
      if (kernels::lanes::all(holds)) [[likely]]
        return apply(x);
      Vectors result = copy(x);
      steps_->replay(holds, result);
      return result;
    }

   private:
    friend class DeferredSteps;

    // Returns a mask of the values for which the map is valid; false for infinity and NaN.
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

  /// Borrows the history. `rows` estimates the number of rows.
  DeferredSteps(const StepHistory<Rule>& history, std::uint64_t to, std::size_t /*rows*/)
      : history_(history), to_(to) {}

  std::uint64_t to() const { return to_; }  // returns the last step

  /// Returns true if a row at step `from` is stale. If so, calls call(piece, is_last) for each
  /// piece of its deferred steps, in order. Apply a piece as Vectors y = piece(x); a copy of the
  /// piece can stay in registers. Requires: all steps have a closed form.
  bool for_each_piece(std::uint64_t from, const auto& call) {
    if (from == to_) return false;
    if (std::exchange(from_, from) != from)
      piece_ = Piece(*this, history_.compose_steps(from, to_));
    call(piece_, std::true_type());
    return true;
  }

 private:
  // Copies vector by vector, because an array whose address is taken would stay in memory.
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

// --- Values for which a map is not valid ---------------------------------------------------------

// Replays every step for values for which the map is not valid. Values that overflow on the way or
// were not finite end up as with the dense optimizer.
template <class Rule>
void DeferredSteps<Rule>::replay(auto holds, Vectors& x) const {
  const Vectors mapped = piece_.apply(x);
  for (Simd& values : x) values = select(holds, Simd(real{0}), values);
  std::uint64_t at = from_;
  for (std::size_t i = history_.run_of(from_ + 1); at < to_; ++i) {
    const Rule& rule = history_.rule(i);
    const std::uint64_t end = std::min(to_, history_.runs()[i].end);
    bool changes = true;  // false once a step changes nothing (NaN, infinity, zero)
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
