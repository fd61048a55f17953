// Rows of Adam and AdamW that were away, against the rule itself, step by step in long double.

#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/tensors.hpp"
#include <rowgrad/optim/adam.hpp>

namespace rowgrad {
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
  void expect_exact() {
    const Tensor row = table_.rows(std::vector<std::int32_t>{0});
    for (std::size_t column = 0; column < kSizes; ++column)
      expect_near(row(0, column), numbers_[column], "value", column);
  }

  void expect_exact_states() {
    table_.mutable_values();  // settles
    const Checkpoint state = optimizer_.state_dict();
    for (std::size_t k = 0; k < (options_.amsgrad ? 3 : 2); ++k) {
      const std::string name(Rule::kStates[k]);
      for (std::size_t column = 0; column < kSizes; ++column)
        expect_near(state.tensor("table." + name, {2, kSizes})(0, column), states_[column][k], name,
                    column);
    }
  }

 private:
  using Exact = long double;
  static constexpr std::size_t kSizes = 17;  // from 1e-18 to 1e14

  void expect_near(real found, Exact expected, const std::string& what, std::size_t column) const {
    const Exact most = 12 * Exact{testing::kEpsilon} * std::abs(expected) +
                       Exact{std::numeric_limits<real>::min()};
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

TEST(OwedAdamSteps, AreExactAfterAnyAbsenceForAnyGradientAndAnyEpsilon) {
  expect_exact_after_any_absence<false>({}, 4000);
  expect_exact_after_any_absence<false>({.learning_rate = 1e9}, 4000);
  expect_exact_after_any_absence<false>({.amsgrad = true}, 4000);
  expect_exact_after_any_absence<true>({}, 100'000);
  expect_exact_after_any_absence<true>({.weight_decay = 10, .amsgrad = true}, 4000);
}

TEST(OwedAdamSteps, AreExactWhereTheSquaresFadeNearlyAsFastAsTheMean) {
  expect_exact_after_any_absence<false>({.beta2 = 0.95}, 4000);
  expect_exact_after_any_absence<true>({.beta1 = 0.5, .beta2 = 0.6}, 4000);
  expect_exact_after_any_absence<true>({.beta1 = 0.99, .beta2 = 0.999}, 4000);
}

TEST(OwedAdamSteps, AreExactWhenTheRateChangesInEveryStep) {
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

TEST(OwedAdamSteps, AreExactWhenOtherOptionsChange) {
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

}  // namespace
}  // namespace rowgrad
