// Rows of Adam and AdamW that were away, against the rule itself, step by step in long double.

#include "tests/test.hpp"

namespace {

// Row 0 of a table, every column with gradients of another size. Row 1 has gradients in all steps.
template <bool kDecoupled>
class Away {
 public:
  using Options = AdamOptionsOf<kDecoupled>;
  using Rule = AdamRuleOf<kDecoupled>;

  explicit Away(const Options& options)
      : options_(options), table_("table", zeros({2, kSizes})), optimizer_({&table_}, options) {}

  void set_options(const Options& options) {
    options_ = options;
    optimizer_.set_options(options);
  }

  void steps(int count, bool present) {
    for (int i = 0; i < count; ++i) {
      Tensor values = full({present ? 2U : 1U, kSizes}, 1);
      for (std::size_t column = 0; present && column < kSizes; ++column)
        values(0, column) = static_cast<real>(std::pow(10.0, 2 * static_cast<double>(column) - 18) *
                                              (1 + 0.25 * static_cast<double>(column % 3) + i));
      table_.zero_gradient();
      table_.add_gradient(
          RowGradient({2, kSizes}, present ? std::vector{0, 1} : std::vector{1}, values));
      optimizer_.step();
      const Rule rule(options_, {.step = ++step_});
      for (std::size_t column = 0; column < kSizes; ++column)
        rule.update(numbers_[column], Exact{present ? values(0, column) : 0}, states_[column]);
    }
  }

  // A few roundings each: of the root, the quotient, the sum of the steps and of what they sum to.
  // Each replayed step has another one, to either side.
  void expect_exact(int replayed = 0) {
    const Tensor row = table_.rows(std::vector<std::int32_t>{0});
    for (std::size_t column = 0; column < kSizes; ++column)
      expect_near(row(0, column), numbers_[column], "value", column, 12 + std::sqrt(replayed));
  }

  void expect_exact_states() {
    table_.mutable_values();  // settles
    const Checkpoint state = optimizer_.state_dict();
    for (std::size_t k = 0; k < (options_.amsgrad ? 3 : 2); ++k) {
      const std::string name(Rule::kStates[k]);
      for (std::size_t column = 0; column < kSizes; ++column)
        expect_near(state.tensor("table." + name, {2, kSizes})(0, column), states_[column][k], name,
                    column, 12);
    }
  }

 private:
  using Exact = long double;
  static constexpr std::size_t kSizes = 17;  // from 1e-18 to 1e14

  void expect_near(real found, Exact expected, const std::string& what, std::size_t column,
                   Exact roundings) const {
    const Exact most =
        roundings * Exact{kEpsilon} * std::abs(expected) + Exact{std::numeric_limits<real>::min()};
    EXPECT_LE(std::abs(found - expected), most)
        << what << ' ' << found << " of column " << column << ", expected "
        << static_cast<double>(expected) << ", after step " << step_;
  }

  Options options_;
  Parameter table_;
  RuleOptimizer<Rule> optimizer_;
  std::uint64_t step_ = 0;
  std::array<Exact, kSizes> numbers_{};
  std::array<std::array<Exact, 3>, kSizes> states_{};
};

template <bool kDecoupled>
void expect_exact_after_any_absence(const AdamOptionsOf<kDecoupled>& options, int longest) {
  for (const int before : {0, 400})
    for (const double epsilon : {1e-15, 1e-8, 1e-4, 1.0}) {
      SCOPED_TRACE(
          concat("beta2 ", options.beta2, ", epsilon ", epsilon, ", ", before, " steps before"));
      auto varied = options;
      varied.epsilon = epsilon;
      Away<kDecoupled> away(varied);
      away.steps(before, false);
      away.steps(3, true);
      int steps = 0;
      for (const int until : {1, 2, 10, 100, 1000, longest}) {
        away.steps(until - std::exchange(steps, until), false);
        away.expect_exact();
      }
      away.expect_exact_states();
    }
}

TEST(MissedAdamSteps, AreExactAfterAnyAbsenceForAnyGradientAndAnyEpsilon) {
  expect_exact_after_any_absence<false>({}, 4000);
  expect_exact_after_any_absence<false>({.learning_rate = 1e9}, 4000);
  expect_exact_after_any_absence<false>({.amsgrad = true}, 4000);
  expect_exact_after_any_absence<true>({}, 20'000);
  expect_exact_after_any_absence<true>({.weight_decay = 10, .amsgrad = true}, 4000);
}

TEST(MissedAdamSteps, AreExactWhereTheSquaresFadeNearlyAsFastAsTheMean) {
  expect_exact_after_any_absence<false>({.beta2 = 0.95}, 4000);
  expect_exact_after_any_absence<true>({.beta1 = 0.5, .beta2 = 0.6}, 4000);
  expect_exact_after_any_absence<true>({.beta1 = 0.99, .beta2 = 0.999}, 4000);
}

TEST(MissedAdamSteps, AreExactWhenTheRateChangesInEveryStep) {
  AdamWOptions options;
  Away<true> away(options);
  away.steps(30, false);
  away.steps(3, true);
  for (int i = 0; i < 500; ++i) {
    options.learning_rate = i < 20 ? 0 : 1e-6 * std::pow(1.02, i);
    away.set_options(options);
    away.steps(1, false);
    if (i % 50 == 49) away.expect_exact();
  }
  away.expect_exact_states();
}

TEST(MissedAdamSteps, AreExactWhenOtherOptionsChange) {
  Away<false> away({.amsgrad = true});
  away.steps(3, true);
  for (const AdamOptions& options :
       {AdamOptions{.epsilon = 1e-4, .amsgrad = true}, AdamOptions{.beta2 = 0.99},
        AdamOptions{.beta1 = 0.8, .epsilon = 1}, AdamOptions{.beta2 = 0.9999, .amsgrad = true}}) {
    away.steps(12, false);
    away.set_options(options);
    away.steps(12, false);
    away.expect_exact();
  }
  away.expect_exact_states();
}

TEST(MissedAdamSteps, AreExactWhenEpsilonFallsAfterTheMeanHasFadedBesideIt) {
  constexpr bool kDouble = sizeof(real) == 8;
  Away<false> away({.epsilon = 1});
  away.steps(3, true);
  away.steps(kDouble ? 800 : 400, false);
  away.set_options({.epsilon = kDouble ? 1e-30 : 1e-16});
  away.steps(100, false);
  away.expect_exact();
}

TEST(MissedAdamSteps, DoNotAddUpRoundingsToOneSideInManyShortAbsences) {
  constexpr int kSteps = 2000;
  Away<true> away({});
  away.steps(3, true);
  for (int i = 0; i < kSteps; ++i) {  // a mean that outlasts the squares is replayed
    away.set_options({.beta1 = i % 2 == 0 ? 0.9 : 0.9999, .weight_decay = 0.123});
    away.steps(1, false);
  }
  away.expect_exact(kSteps / 2);
}

// --- The closed form by itself ------------------------------------------------------------------

// Numbers with states from gradients of all sizes, so small that squares become 0, and so large
// that they become infinite; and what becomes of them without a gradient, step by step.
template <bool kDecoupled>
class Idling {
 public:
  using Options = AdamOptionsOf<kDecoupled>;
  using Rule = AdamRuleOf<kDecoupled>;

  explicit Idling(const Options& options) : options_(options) {
    for (auto& array : start_) array.assign(kSizes, 0);
    for (int i = 0; i < 3; ++i) {
      std::vector<real> gradient;
      for (const int exponent : kExponents)
        gradient.push_back(static_cast<real>(std::pow(10.0, exponent * kWider) * (1 + 0.5 * i)));
      const Rule rule = next_rule();
      change_values<Rule>(
          kSizes, pointers(start_), gradient.data(),
          [rule](RuleVectors<Rule>& x, const kernels::Simd& g) { update(rule, x, g); });
    }
    for (std::size_t i = 0; i < kSizes; ++i) {
      numbers_[i] = start_[0][i];
      states_[i] = {start_[1][i], start_[2][i], start_[3][i]};
    }
  }

  void steps_until(std::uint64_t count) {
    while (history_.steps() < count) {
      const Rule rule = next_rule();
      ASSERT_EQ(rule.idle(), IdleStep::kAdam);
      history_.append(rule);
      for (std::size_t i = 0; i < kSizes; ++i) rule.update(numbers_[i], Exact{0}, states_[i]);
    }
  }

  // The same rule, so many times.
  void steps_at_once(std::uint64_t count) { history_.append(next_rule(), count); }

  std::array<std::vector<real>, 4> closed_form(std::size_t* pieces = nullptr) const {
    auto result = start_;
    MissedSteps<Rule>(history_, history_.steps(), 1)
        .for_each_piece(0, [&](const auto& piece, bool) {
          if (pieces != nullptr) ++*pieces;
          change_values<Rule>(
              kSizes, pointers(result), nullptr,
              [piece](RuleVectors<Rule>& x, const kernels::Simd&) { x = piece(x); });
        });
    return result;
  }

  // Each piece rounds its numbers once more, to either side.
  void expect_exact() const {
    std::size_t pieces = 0;
    const auto found = closed_form(&pieces);
    for (std::size_t i = 0; i < kSizes; ++i) {
      SCOPED_TRACE(concat("gradient 1e", kExponents[i] * kWider, ", ", pieces, " pieces"));
      expect_near(found[0][i], numbers_[i], "value", 12 + std::sqrt(static_cast<Exact>(pieces)));
      for (std::size_t k = 0; k < 3; ++k)
        expect_near(found[k + 1][i], states_[i][k], Rule::kStates[k], 12);
    }
  }

 private:
  using Exact = long double;
  static constexpr std::array kExponents{-30, -20, -10, -5, -2, 0, 2, 5, 10, 18, 25, 35};
  static constexpr int kWider = sizeof(real) == 8 ? 8 : 1;
  static constexpr std::size_t kSizes = kExponents.size();

  Rule next_rule() { return Rule(options_, {.step = ++step_, .first_of_state = step_ == 1}); }

  static RulePointers<Rule> pointers(std::array<std::vector<real>, 4>& arrays) {
    return {arrays[0].data(), arrays[1].data(), arrays[2].data(), arrays[3].data()};
  }

  void expect_near(real found, Exact expected, std::string_view what, Exact roundings) const {
    if (found == expected) return;  // both infinite
    EXPECT_LE(std::abs(found - expected), roundings * Exact{kEpsilon} * std::abs(expected) +
                                              Exact{std::numeric_limits<real>::min()})
        << what << ' ' << found << ", expected " << static_cast<double>(expected) << ", after "
        << history_.steps() << " steps";
  }

  Options options_;
  std::uint64_t step_ = 0;
  StepHistory<Rule> history_;
  std::array<std::vector<real>, 4> start_;
  std::array<Exact, kSizes> numbers_{};
  std::array<std::array<Exact, 3>, kSizes> states_{};
};

template <bool kDecoupled>
void expect_closed_form(const AdamOptionsOf<kDecoupled>& options, std::uint64_t longest) {
  SCOPED_TRACE(concat("betas ", options.beta1, ", ", options.beta2, ", epsilon ", options.epsilon,
                      options.amsgrad ? ", amsgrad" : ""));
  Idling<kDecoupled> idling(options);
  for (const std::uint64_t until : {std::uint64_t{1}, std::uint64_t{30}, longest / 25, longest}) {
    idling.steps_until(until);
    idling.expect_exact();
  }
}

struct Betas {
  double beta1, beta2;
  std::uint64_t longest;
};

// Of some, the mean fades nearly as slowly as the root of the squares, long after both are below
// the range of `real`, and the squares below that of `double`.
constexpr std::array kBetas{
    Betas{0.9, 0.999, 20'000},   Betas{0.7, 0.5, 10'000},     Betas{0.9, 0.82, 20'000},
    Betas{0.97, 0.945, 100'000}, Betas{0.945, 0.9, 40'000},   Betas{0.99, 0.981, 100'000},
    Betas{0.9, 0.9, 10'000},     Betas{0.5, 0.2501, 10'000},  Betas{0.99, 0.9802, 30'000},
    Betas{0, 0.9, 10'000},       Betas{1e-12, 1e-20, 10'000},
};

TEST(MissedAdamSteps, AreExactForAnyBetasEpsilonsAndGradients) {
  for (const auto& [beta1, beta2, longest] : kBetas) {
    for (const double epsilon : {1e-30, 1e-15, 1e-8, 1.0})
      expect_closed_form<false>({.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon}, longest);
    expect_closed_form<false>({.beta1 = beta1, .beta2 = beta2, .amsgrad = true}, longest);
    expect_closed_form<true>({.beta1 = beta1, .beta2 = beta2, .weight_decay = 1e-2}, longest);
  }
}

TEST(MissedAdamSteps, AreSummedUntilTheMeanHasFadedHoweverLongTheAbsence) {
  for (const auto& betas : kBetas) {
    const AdamOptions options{.beta1 = betas.beta1, .beta2 = betas.beta2};
    Idling<false> fading(options), away(options);
    fading.steps_at_once(1'000'000);
    away.steps_at_once(1'000'000'000'000);
    EXPECT_EQ(fading.closed_form()[0], away.closed_form()[0]);
  }
}

}  // namespace
