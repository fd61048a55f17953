#pragma once

// The deferred steps of rows in closed form, for Adam and AdamW.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <rowgrad/optim/deferred_steps.hpp>

namespace rowgrad {

template <bool kDecoupled>
struct AdamRuleOf;

/// The closed form that DEFERRED_STEPS.md derives. Without a gradient, the mean m and the squares
/// are only scaled, and step k subtracts
///
///   aₖ · m / (gₖ · s + epsilon)
///
/// from the value. Here m and s, the root of the squares, are the values before all steps. aₖ and
/// gₖ are the same for all values. (Decoupled decay is applied last, so aₖ is divided by the decay
/// so far.) Steps with nearly equal g, written g · (1 + zₖ), form a piece. A piece subtracts
///
///   m / (g · s + epsilon) · Σₙ (−y)ⁿ · Σₖ aₖ · zₖⁿ,  y = g · s / (g · s + epsilon)
///
/// As y is between 0 and 1 for any squares and any epsilon, a few powers of z are enough. Usually,
/// one piece covers all steps until the mean has faded, that is, until later steps are negligible
/// compared with the first.
///
/// Let S be the root of the largest finite value. Relative to the first step, step k is at most
///
///   mₖ · (g₁ · S + epsilon) / (gₖ · S + epsilon)
///
/// where mₖ is the remaining fraction of the mean. This bound shrinks in each step by beta1 /
/// √beta2 or faster. So the number of steps to sum is limited: about 300 with the default betas in
/// float, 700 in double. If beta1 is nearly √beta2, the sum ends once m and s fade below the range
/// of `real`.
///
/// Each piece is scaled by a power of two for which g or epsilon is at least 1. So g · s does not
/// underflow and 1 / (g · s + epsilon) does not overflow, even if g and aₖ are far below the range
/// of `real`.
template <bool kDecoupled>
class DeferredSteps<AdamRuleOf<kDecoupled>> {
 public:
  using Rule = AdamRuleOf<kDecoupled>;
  using Simd = kernels::Simd;
  using Vectors = RuleVectors<Rule>;

  DeferredSteps(const StepHistory<Rule>& history, std::uint64_t to, std::size_t rows)
      : history_(history),
        to_(to),
        known_(std::bit_ceil(std::clamp<std::size_t>(2 * rows, 16, kMaxKnown))) {}

  std::uint64_t to() const { return to_; }

  bool for_each_piece(std::uint64_t from, const auto& call) {
    if (from == to_) return false;
    Known& known = known_[from % known_.size()];
    if (known.from != from) {
      if (pieces_.size() >= 2 * kMaxKnown) {
        std::ranges::fill(known_, Known());
        pieces_.clear();
      }
      const std::size_t begin = pieces_.size();
      find_pieces(from);
      known = {from, begin, pieces_.size()};
    }
    for (std::size_t i = known.begin; i < known.end; ++i) call(pieces_[i], i + 1 == known.end);
    return true;
  }

 private:
  using Limits = std::numeric_limits<real>;

  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  static constexpr std::size_t kMaxKnown = 4096;
  static constexpr std::size_t kTerms = sizeof(real) == 4 ? 6 : 10;
  static constexpr real kUnit = Limits::epsilon();

  // A coefficient from 0 to 1, which may be far below the range of `real`. Only the product is
  // rounded: the error of a rounded coefficient would have the same sign each time and add up.
  struct Factor {
    // The coefficient is scale · (high + rest). If it is positive, so are `high` and `rest`, so
    // that infinity stays infinite.
    real scale, high, rest;

    Factor() = default;
    explicit Factor(Coefficient coefficient) : scale(1) {
      Coefficient least = 0;
      if (coefficient < kUnit && coefficient > 0) {
        int exponent;
        std::frexp(coefficient, &exponent);
        exponent = std::max(exponent, Limits::min_exponent - 1);
        scale = std::ldexp(real{1}, exponent);
        coefficient = std::ldexp(coefficient, -exponent);
        least = Limits::min();
      }
      high = static_cast<real>(std::max(coefficient * (1 - kUnit), least));
      rest = static_cast<real>(std::max(coefficient - high, least));
    }

    Simd operator()(const Simd& values) const {
      const Simd scaled = values * Simd(scale);
      return fma_exact(scaled, Simd(high), scaled * Simd(rest));
    }
  };

  struct Piece {
    bool amsgrad;
    real beta2, epsilon, g;
    std::array<real, kTerms> sums;      // Σ aₖ · (−zₖ)ⁿ
    Factor decay_factor, fade, shrink;  // applied after all steps: 1 except in the last piece

    Vectors operator()(const Vectors& x) const {
      const auto& [w, mean, square, largest] = x;
      // With amsgrad, the largest square no longer changes after the first step.
      const Simd divisor = amsgrad ? max(largest, Simd(beta2) * square) : square;
      const Simd one(real{1});
      const Simd inverse = one / fma(Simd(g), sqrt(divisor), Simd(epsilon));
      const Simd y = fma(Simd(-epsilon), inverse, one);  // valid even if the root is infinite
      Simd sum(sums.back());
      for (std::size_t n = kTerms - 1; n-- > 0;) sum = fma(sum, y, Simd(sums[n]));
      return {decay_factor(fma(-mean * inverse, sum, w)), fade(mean), shrink(square),
              amsgrad ? divisor : largest};
    }
  };

  // Appends to pieces_ the pieces of steps from + 1 … to_.
  [[gnu::noinline]] void find_pieces(std::uint64_t from) {
    const double most_root = std::sqrt(double{Limits::max()});
    const auto& runs = history_.runs();
    std::size_t run = history_.run_of(from + 1);
    const Rule& next = history_.rule(run);
    double g = next.inverse_correction, epsilon = next.epsilon;
    const double first = g * most_root + epsilon;  // upper bound of the first step's divisor
    double inverse = 1 / g;
    double weight = 1;  // upper bound of (first step's divisor / this piece's divisor)
    double total = 0;
    std::array<double, kTerms> sums{};
    const Factor one(1);
    Piece piece{next.amsgrad != 0, next.beta2, 0, 0, {}, one, one, one};
    const auto finish = [&](bool last) {
      const double scale = std::ldexp(1.0, std::max(0, -std::ilogb(std::max(g, epsilon))));
      piece.g = std::max(static_cast<real>(g * scale), Limits::min());
      piece.epsilon = static_cast<real>(epsilon * scale);
      for (std::size_t n = 0; n < kTerms; ++n) piece.sums[n] = static_cast<real>(sums[n] * scale);
      if (last) {
        const auto map = history_.compose_steps(from, to_);
        piece.decay_factor = Factor(map[0][0]);
        piece.fade = Factor(map[1][1]);
        piece.shrink = Factor(map[2][2]);
      }
      pieces_.push_back(piece);
    };

    Coefficient mean = 1, root = 1;    // remaining fractions; the mean is divided by the decay
    Coefficient fade = 1, shrink = 1;  // the factors of one step
    real beta1 = -1, beta2 = -1, decay_factor = -1;
    for (std::uint64_t at = from; at < to_; ++at) {
      const Rule& rule = history_.rule(run);
      if (at + 1 == runs[run].end) ++run;
      if (rule.beta1 != beta1 || rule.beta2 != beta2 || rule.decay_factor != decay_factor) {
        beta1 = rule.beta1, beta2 = rule.beta2, decay_factor = rule.decay_factor;
        fade = Coefficient{rule.beta1} / rule.decay_factor;
        shrink = rule.amsgrad != 0 ? 1 : std::sqrt(Coefficient{rule.beta2});
      }
      mean *= fade;
      root *= shrink;
      const auto here = static_cast<double>(rule.inverse_correction * root);
      const double divisor = here * most_root + rule.epsilon;
      // A mean that has faded to the square of a rounding error is negligible at any later rate.
      if (mean * first <= kUnit * kUnit * divisor) break;
      std::array<double, kTerms + 1> terms{static_cast<double>(mean * rule.step_size)};
      total += terms[0];
      const auto fits = [&] {  // returns true if the omitted powers are negligible
        const double z = 1 - here * inverse;
        for (std::size_t n = 0; n < kTerms; ++n) terms[n + 1] = terms[n] * z;
        return std::abs(z) <= 0.5 && std::abs(terms[kTerms]) * weight <= kUnit / 64 * total;
      };
      if (at == from || !fits() || rule.epsilon != epsilon) {
        if (at > from) finish(false);
        sums = {};
        g = here;
        inverse = 1 / g;
        epsilon = rule.epsilon;
        weight = first / divisor;
        fits();
      }
      for (std::size_t n = 0; n < kTerms; ++n) sums[n] += terms[n];
    }
    finish(true);
  }

  // A cache entry: the pieces that follow step `from`. Many rows are at the same few steps, and
  // finding the pieces takes longer than applying them.
  struct Known {
    std::uint64_t from = kNone;
    std::size_t begin = 0, end = 0;
  };

  const StepHistory<Rule>& history_;
  std::uint64_t to_;
  std::vector<Known> known_;  // the entry of a step is at index step % size
  std::vector<Piece> pieces_;
};

}  // namespace rowgrad
