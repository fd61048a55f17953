#pragma once

// The steps that rows are owed under Adam and AdamW, in closed form.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include <rowgrad/optim/owed_steps.hpp>

namespace rowgrad {

template <bool kDecoupled>
struct AdamRuleOf;

/// Without a gradient, the mean m and the squares are only scaled, and step k takes
///
///   aₖ · m / (gₖ · s + epsilon)
///
/// from the value, with m and s, the root of the squares, as they were before all steps: aₖ and gₖ
/// are the same for all values. (Decoupled decay comes last: aₖ is relative to what it leaves.)
/// Steps whose g is nearly the same, g · (1 + zₖ), are one part. Together they take
///
///   m / (g · s + epsilon) · Σₙ (−y)ⁿ · Σₖ aₖ · zₖⁿ,  y = g · s / (g · s + epsilon)
///
/// As y is between 0 and 1 for any squares and any epsilon, a few powers of z are enough: mostly,
/// one part is all steps until the mean has faded. An absence of any length costs the same.
template <bool kDecoupled>
class OwedSteps<AdamRuleOf<kDecoupled>> {
 public:
  using Rule = AdamRuleOf<kDecoupled>;
  using Simd = kernels::Simd;
  using Vectors = typename RuleArrays<Rule>::Vectors;

  OwedSteps(const StepHistory<Rule>& history, std::uint64_t to) : history_(history), to_(to) {}

  std::uint64_t to() const { return to_; }

  bool visit(std::uint64_t from, const auto& visit) {
    if (from == to_) return false;
    if (from == from_) {
      visit(part_, true);
    } else {
      from_ = find_parts(from, std::cref(visit)) == 1 ? from : kNone;
    }
    return true;
  }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  static constexpr std::size_t kTerms = sizeof(real) == 4 ? 6 : 10;

  struct Part {
    bool amsgrad;
    real beta2, epsilon, g;
    std::array<real, kTerms> sums = {};  // Σ aₖ · (−zₖ)ⁿ
    // Of the last part, for these come after all steps: the roots of factors, which may themselves
    // be too small for `real`.
    real keep = 1, fade = 1, shrink = 1;

    Vectors operator()(const Vectors& x) const {
      const auto& [w, mean, square, largest] = x;
      // With amsgrad, the largest square does not change any more after the first step.
      const Simd divisor = amsgrad ? max(largest, Simd(beta2) * square) : square;
      const Simd one(real{1});
      const Simd inverse = one / (Simd(g) * sqrt(divisor) + Simd(epsilon));
      const Simd y = one - Simd(epsilon) * inverse;  // also if the root is infinite
      Simd sum(sums.back());
      for (std::size_t n = kTerms - 1; n-- > 0;) sum = sum * y + Simd(sums[n]);
      // Only one product is added to or subtracted from anything at a time: otherwise, the compiler
      // might fuse one of two, and the bits would depend on the caller.
      const auto twice = [](const Simd& number, real root) {
        return number * Simd(root) * Simd(root);
      };
      return {twice(w - mean * inverse * sum, keep), twice(mean, fade), twice(square, shrink),
              amsgrad ? divisor : largest};
    }
  };

  // Returns the number of parts. Never inlined, for the same reason.
  [[gnu::noinline]] std::size_t find_parts(std::uint64_t from,
                                           const std::function<void(const Part&, bool)>& visit) {
    constexpr double kUnit = std::numeric_limits<real>::epsilon();
    const auto& runs = history_.runs();
    std::size_t run = history_.run_of(from + 1);
    const Rule& first = runs[run].rule;
    part_ = {.amsgrad = first.amsgrad != 0, .beta2 = first.beta2, .epsilon = first.epsilon, .g = 0};
    std::size_t parts = 0;
    double g = 0;
    std::array<double, kTerms> sums{};
    const auto finish = [&](bool last) {
      part_.g = static_cast<real>(g);
      for (std::size_t n = 0; n < kTerms; ++n) part_.sums[n] = static_cast<real>(sums[n]);
      if (last) {
        const auto map = history_.compose_steps(from, to_);
        const auto root_of = [&](std::size_t i) {  // 0 only of 0: infinite values stay infinite
          const auto root = static_cast<real>(std::sqrt(map[i][i]));
          return map[i][i] == 0 ? root : std::max(root, std::numeric_limits<real>::min());
        };
        part_.keep = root_of(0);
        part_.fade = root_of(1);
        part_.shrink = root_of(2);
      }
      ++parts;
      visit(part_, last);
    };

    Coefficient mean = 1, root = 1;  // what steps leave of them; of the mean, relative to the value
    double first_g = 0, total = 0;
    for (std::uint64_t at = from; at < to_; ++at) {
      const Rule& rule = runs[run].rule;
      if (at + 1 == runs[run].end) ++run;
      mean *= Coefficient{rule.beta1} / rule.keep;
      if (rule.amsgrad == 0) root *= std::sqrt(Coefficient{rule.beta2});
      const auto here = static_cast<double>(rule.inverse_correction * root);
      if (at == from) first_g = g = here;
      // A mean that has faded to the square of a rounding counts no more, at any later rate.
      if (mean * first_g <= kUnit * kUnit * here) break;
      std::array<double, kTerms + 1> terms{static_cast<double>(mean * rule.step_size)};
      total += terms[0];
      const auto fits = [&] {  // whether the powers that are left out are negligible
        const double z = 1 - here / g;
        for (std::size_t n = 0; n < kTerms; ++n) terms[n + 1] = terms[n] * z;
        return std::abs(z) <= 0.5 && std::abs(terms[kTerms]) * first_g <= kUnit / 64 * total * g;
      };
      if (!fits() || rule.epsilon != part_.epsilon) {
        finish(false);
        sums = {};
        g = here;
        part_.epsilon = rule.epsilon;
        fits();
      }
      for (std::size_t n = 0; n < kTerms; ++n) sums[n] += terms[n];
    }
    finish(true);
    return parts;
  }

  const StepHistory<Rule>& history_;
  std::uint64_t to_;
  std::uint64_t from_ = kNone;
  Part part_{};  // the only one of the steps since from_
};

}  // namespace rowgrad
