// Deferred steps of Adam and AdamW, compared with the rule itself, step by step in long double.

#include "tests/test.hpp"

namespace {

// A row that has gradients in three steps and then none. The gradients have all magnitudes: the
// smallest squares underflow to 0, and the largest overflow.
template <bool kDecoupled>
class Away {
 public:
  using Options = AdamOptionsOf<kDecoupled>;
  using Rule = AdamRuleOf<kDecoupled>;
  using Exact = long double;

  // Makes `before` steps without a gradient, then three steps with one.
  explicit Away(const Options& options, int before = 0)
      : options_(options), optimizer_({&table_}, options) {
    set_gradient({}, zeros({0, kSizes}));
    defer(before);
    history_ = {};
    for (int i = 0; i < 3; ++i, ++step_) {
      Tensor gradient = empty({1, kSizes});
      for (std::size_t k = 0; k < kSizes; ++k)
        gradient(0, k) = static_cast<real>(std::pow(10.0, kExponents[k] * kWider) * (1 + 0.5 * i));
      set_gradient({0}, gradient);
      optimizer_.step();
    }
    set_gradient({}, zeros({0, kSizes}));
    const std::vector<Tensor> start = arrays_of(table_, optimizer_);
    for (std::size_t k = 0; k < kSizes; ++k) {
      values_[k] = start[0](0, k);
      for (std::size_t i = 1; i < start.size(); ++i) slots_[k][i - 1] = start[i](0, k);
    }
  }

  void set_options(const Options& options) {
    options_ = options;
    optimizer_.set_options(options);
  }

  void defer(int count) {
    for (int i = 0; i < count; ++i) {
      optimizer_.step();
      const Rule rule(options_, {.step = ++step_});
      history_.append(rule);
      for (std::size_t k = 0; k < kSizes; ++k) rule.update(values_[k], Exact{0}, slots_[k]);
    }
  }

  // Returns the number of pieces in which the closed form sums the steps. Each piece adds a
  // rounding error of either sign.
  Exact pieces() const {
    std::size_t count = 0;
    DeferredSteps<Rule> deferred(history_, history_.steps(), 1);
    deferred.for_each_piece(0, [&](const auto&, bool) { ++count; });
    return static_cast<Exact>(count);
  }

  // Checks all values except the first `first`, and all slots. The default tolerances allow a few
  // roundings each for the root, the quotient, the sum of the steps and the result.
  void expect_exact(Exact value_roundings = 12, Exact slot_roundings = 12,
                    std::size_t first = 0) const {
    Parameter copy("table", table_.copy());
    RuleOptimizer<Rule> other({&copy}, options_);
    other.load_state_dict(optimizer_.state_dict());
    copy.mutable_values();  // applies deferred steps
    const std::vector<Tensor> found = arrays_of(copy, other);
    for (std::size_t i = 0; i < found.size(); ++i)
      for (std::size_t k = i == 0 ? first : 0; k < kSizes; ++k) {
        const Exact value = found[i](0, k), expected = i == 0 ? values_[k] : slots_[k][i - 1];
        if (value == expected || (std::isnan(value) && std::isnan(expected))) continue;
        const Exact roundings = i == 0 ? value_roundings : slot_roundings;
        EXPECT_LE(std::abs(value - expected), roundings * Exact{kEpsilon} * std::abs(expected) +
                                                  Exact{std::numeric_limits<real>::min()})
            << (i == 0 ? "value " : Rule::kSlots[i - 1]) << ' ' << value << ", expected "
            << expected << ", with gradient 1e" << kExponents[k] * kWider << " after step "
            << step_;
      }
  }

 private:
  static constexpr std::array kExponents{-30, -20, -10, -5, -2, 0, 2, 5, 10, 18, 25, 35};
  static constexpr int kWider = sizeof(real) == 8 ? 8 : 1;
  static constexpr std::size_t kSizes = kExponents.size();

  void set_gradient(Ids32 rows, const Tensor& gradient) {
    table_.zero_gradient();
    table_.add_gradient(RowGradient({1, kSizes}, std::move(rows), gradient));
  }

  // Returns the values and all slots in use.
  static std::vector<Tensor> arrays_of(const Parameter& table, const Optimizer& optimizer) {
    std::vector<Tensor> all{table.copy()};
    const StateDict state = optimizer.state_dict();
    for (const std::string_view name : Rule::kSlots)
      if (const std::string key = concat("table.", name); state.contains(key))
        all.push_back(state.tensor(key, {1, kSizes}));
    return all;
  }

  Options options_;
  Parameter table_{"table", zeros({1, kSizes})};
  RuleOptimizer<Rule> optimizer_;
  std::uint64_t step_ = 0;
  StepHistory<Rule> history_;  // the deferred steps of the row
  std::array<Exact, kSizes> values_{};
  std::array<std::array<Exact, 3>, kSizes> slots_{};
};

template <bool kDecoupled>
void expect_exact(const AdamOptionsOf<kDecoupled>& options, std::initializer_list<int> absences,
                  int before, bool adds_pieces) {
  SCOPED_TRACE(concat("betas ", options.beta1, ", ", options.beta2, ", epsilon ", options.epsilon,
                      ", ", before, " steps before"));
  Away<kDecoupled> away(options, before);
  int deferred = 0;
  for (const int absence : absences) {
    away.defer(absence - std::exchange(deferred, absence));
    away.expect_exact(adds_pieces ? 12 + std::sqrt(away.pieces()) : 12);
  }
}

template <bool kDecoupled>
void expect_exact_for_any_epsilon(AdamOptionsOf<kDecoupled> options, int longest) {
  for (const double epsilon : {1e-15, 1e-8, 1e-4, 1.0}) {
    options.epsilon = epsilon;
    for (const int before : {0, 400})
      expect_exact(options, {1, 2, 10, 100, 1000, longest}, before, false);
  }
}

TEST(DeferredAdamSteps, AreExactAfterAnyAbsence) {
  expect_exact_for_any_epsilon<false>({}, 4000);
  expect_exact_for_any_epsilon<false>({.learning_rate = 1e9}, 4000);
  expect_exact_for_any_epsilon<false>({.amsgrad = true}, 4000);
  expect_exact_for_any_epsilon<true>({}, 20'000);
  expect_exact_for_any_epsilon<true>({.weight_decay = 10, .amsgrad = true}, 4000);
  expect_exact_for_any_epsilon<false>({.beta2 = 0.95}, 4000);
  expect_exact_for_any_epsilon<true>({.beta1 = 0.5, .beta2 = 0.6}, 4000);
  expect_exact_for_any_epsilon<true>({.beta1 = 0.99, .beta2 = 0.999}, 4000);
}

struct Betas {
  double beta1, beta2;
  int longest;
};

// With some betas, the mean fades nearly as slowly as the root of the squares. The longest absence
// is beyond the last step that is summed, even in double with the smallest epsilon. By then, most
// squares are below the range of `double`.
constexpr std::array kBetas{
    Betas{0.9, 0.999, 2000},    Betas{0.7, 0.5, 2000},     Betas{0.9, 0.82, 6000},
    Betas{0.97, 0.945, 20'000}, Betas{0.945, 0.9, 10'000}, Betas{0.99, 0.981, 50'000},
    Betas{0.9, 0.9, 2000},      Betas{0.5, 0.2501, 2000},  Betas{0.99, 0.9802, 50'000},
    Betas{0, 0.9, 2000},        Betas{1e-12, 1e-20, 2000},
};

TEST(DeferredAdamSteps, AreExactForAnyBetas) {
  for (const auto& [beta1, beta2, longest] : kBetas) {
    const std::initializer_list<int> absences{1, 30, longest / 25, longest};
    for (const double epsilon : {1e-30, 1e-8, 1.0})
      expect_exact<false>({.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon}, absences, 0, true);
    expect_exact<false>({.beta1 = beta1, .beta2 = beta2, .amsgrad = true}, absences, 0, true);
    expect_exact<true>({.beta1 = beta1, .beta2 = beta2, .weight_decay = 1e-2}, absences, 0, true);
  }
}

TEST(DeferredAdamSteps, SumEndsOnceTheMeanHasFaded) {
  for (const Betas& betas : kBetas) {
    const AdamRule rule({.beta1 = betas.beta1, .beta2 = betas.beta2}, {.step = 4});
    const auto value_after = [&](std::uint64_t steps, double start) {
      StepHistory<AdamRule> history;
      history.append(rule, steps);
      RuleVectors<AdamRule> x;
      x.fill(kernels::Simd(static_cast<real>(start)));
      DeferredSteps<AdamRule>(history, steps, 1).for_each_piece(0, [&](const auto& piece, bool) {
        x = piece(x);
      });
      return x[0];
    };
    for (const double start : {1e-30, 0.5, 1e30})
      EXPECT_TRUE(kernels::lanes::all(value_after(1'000'000, start) ==
                                      value_after(1'000'000'000'000, start)));
  }
}

TEST(DeferredAdamSteps, AreExactWhenTheRateChangesInEveryStep) {
  AdamWOptions options;
  Away<true> away(options, 30);
  for (int i = 0; i < 500; ++i) {
    options.learning_rate = i < 20 ? 0 : 1e-6 * std::pow(1.02, i);
    away.set_options(options);
    away.defer(1);
    if (i % 50 == 49) away.expect_exact();
  }
}

TEST(DeferredAdamSteps, AreExactWhenOtherOptionsChange) {
  Away<false> away({.amsgrad = true});
  for (const AdamOptions& options :
       {AdamOptions{.epsilon = 1e-4, .amsgrad = true}, AdamOptions{.beta2 = 0.99},
        AdamOptions{.beta1 = 0.8, .epsilon = 1}, AdamOptions{.beta2 = 0.9999, .amsgrad = true}}) {
    away.defer(12);
    away.set_options(options);
    away.defer(12);
    away.expect_exact();
  }
}

TEST(DeferredAdamSteps, AreExactWhenEpsilonShrinksAfterTheMeanHasFaded) {
  constexpr bool kDouble = sizeof(real) == 8;
  Away<false> away({.epsilon = 1});
  away.defer(kDouble ? 800 : 400);
  away.set_options({.epsilon = kDouble ? 1e-30 : 1e-16});
  away.defer(100);
  away.expect_exact(12, 12, 1);  // the smallest mean is below the range of `real`
}

TEST(DeferredAdamSteps, RoundingErrorsOfShortAbsencesAreUnbiased) {
  constexpr int kSteps = 2000;
  Away<true> away({});
  for (int i = 0; i < kSteps; ++i) {
    // Every second step is replayed, because a mean with beta1 = 0.9999 outlasts the squares.
    away.set_options({.beta1 = i % 2 == 0 ? 0.9 : 0.9999, .weight_decay = 0.123});
    away.defer(1);
  }
  const long double roundings = 12 + std::sqrt(kSteps / 2.0L);
  away.expect_exact(roundings, roundings);
}

}  // namespace
