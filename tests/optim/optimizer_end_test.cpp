// Deferred steps after their optimizer is destroyed, or after another optimizer trains the table.

#include <fstream>
#include <numeric>
#include <unistd.h>

#include "tests/optim/optimizers.hpp"

namespace {

const OptimizerCase kDeferring[] = {
    {"momentum", SgdOptions{.learning_rate = 0.1, .momentum = 0.9}},
    {"momentum and decay", kMomentum},
    {"decay", SgdOptions{.learning_rate = 0.1, .weight_decay = 0.01}},
    {"Adam", kAdam},
    {"amsgrad", AdamOptions{.learning_rate = 0.01, .amsgrad = true}},
    {"AdamW", AdamWOptions{.learning_rate = 0.01}},
    {"RMSprop", RmsPropOptions{.learning_rate = 0.01, .momentum = 0.9}},
    {"replayed", AdamOptions{.learning_rate = 0.01, .weight_decay = 0.01}},
};

const Shape kShape{40, 9};

// Makes steps in which rows 0 … 9 have gradients now and then, and other rows never do.
void train_ten_rows(Optimizer& optimizer, Parameter& table, int from, int to) {
  for (int i = from; i < to; ++i) step(optimizer, table, {i % 7, 7 + i % 3}, i);
}

struct Trained {
  explicit Trained(const AnyOptions& options, Tensor start = irregular(kShape))
      : table("table", std::move(start)), optimizer(make_optimizer(options, {&table})) {
    train_ten_rows(*optimizer, table, 0, 30);
  }
  const Tensor& stored() { return *table.source().dense(); }

  Parameter table;
  std::unique_ptr<Optimizer> optimizer;
};

// Returns the values, brought up to date by an optimizer that still exists.
Tensor up_to_date(const AnyOptions& options) {
  Trained trained(options);
  trained.table.mutable_values();
  return trained.stored();
}

std::string bits(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data()), tensor.size() * sizeof(real)};
}

TEST(OptimizerEnd, KeepsDeferredStepsWithoutVisitingRows) {
  for (const auto& [name, options] : kDeferring) {
    const std::string expected = bits(up_to_date(options));
    for (const char* how : {"rows", "value", "copy", "saved", "mutable_values"}) {
      Trained trained(options);
      const std::string stale = bits(trained.stored());
      EXPECT_NE(stale, expected);
      trained.optimizer.reset();
      EXPECT_EQ(bits(trained.stored()), stale) << name;
      Parameter& table = trained.table;
      const std::string_view function = how;
      const Tensor read = function == "rows"    ? table.rows(all_rows(kShape[0]))
                          : function == "value" ? table.value()
                          : function == "copy"  ? table.copy()
                          : function == "saved" ? std::get<Tensor>(table.saved())
                                                : (table.mutable_values(), trained.stored());
      EXPECT_EQ(bits(read), expected) << name << ' ' << how;
      EXPECT_EQ(bits(table.value()), expected) << name << " after " << how;
    }
  }
}

TEST(OptimizerEnd, NextOptimizerStartsFromUpToDateRows) {
  for (const auto& [name, options] : kDeferring)
    for (const AnyOptions& next : {AnyOptions(SgdOptions{.learning_rate = 0.1, .momentum = 0.9}),
                                   AnyOptions(AdamWOptions()), AnyOptions(AdagradOptions())}) {
      Trained one(options), other(options);
      other.table.mutable_values();
      for (Trained* each : {&one, &other}) {
        each->optimizer.reset();
        each->optimizer = make_optimizer(next, {&each->table});
        train_ten_rows(*each->optimizer, each->table, 0, 20);
      }
      EXPECT_TRUE(bits_of(one.table, *one.optimizer) == bits_of(other.table, *other.optimizer))
          << name << ", then " << next.index();
    }
}

TEST(OptimizerEnd, ValuesCanBeReplaced) {
  for (const auto& [name, options] : kDeferring) {
    const Tensor expected = up_to_date(options), fresh = irregular(kShape, 5);
    Trained by_rows(options), whole(options), loaded(options);
    for (Trained* each : {&by_rows, &whole, &loaded}) each->optimizer.reset();
    const Ids32 ids{1, 39};
    by_rows.table.assign_rows(ids, full({2, kShape[1]}, 7));
    const Ids32 others{0, 2, 38};
    EXPECT_EQ(by_rows.table.rows(ids), full({2, kShape[1]}, 7)) << name;
    EXPECT_EQ(by_rows.table.rows(others), Parameter("table", expected).rows(others)) << name;
    whole.table.assign(fresh);
    EXPECT_EQ(whole.table.value(), fresh) << name;
    StateDict wrong, state;
    wrong.put("table", zeros({2, 2}));
    EXPECT_THROW(loaded.table.load(wrong, "table"), std::invalid_argument);
    EXPECT_EQ(loaded.table.value(), expected) << name << ": a refusal changes nothing";
    state.put("table", fresh);
    loaded.table.load(state, "table");
    EXPECT_EQ(loaded.table.value(), fresh) << name;
  }
}

TEST(OptimizerEnd, LoadingAStateKeepsTheOldDeferredSteps) {
  for (const auto& [name, options] : kDeferring) {
    Trained trained(options);
    const Tensor before = trained.stored();
    Parameter other("table", zeros(kShape));
    trained.optimizer->load_state_dict(make_optimizer(options, {&other})->state_dict());
    EXPECT_EQ(trained.stored(), before) << name;
    EXPECT_EQ(trained.table.value(), up_to_date(options)) << name;
    train_ten_rows(*trained.optimizer, trained.table, 0, 3);
    EXPECT_NE(trained.table.value(), before) << name;
  }
}

// --- Rows without state -------------------------------------------------------------------------

TEST(RowsWithoutState, AreVisitedOnlyIfDeferredStepsChangeThem) {
  constexpr std::uint64_t kRows = 100'000, kTouched = 10;
  for (const auto& [name, options] : kDeferring) {
    if (std::string_view(name) == "replayed") continue;  // may change any row
    const bool decays = std::string_view(name).find("decay") != std::string_view::npos ||
                        std::string_view(name) == "AdamW";
    Trained trained(options, full({kRows, 2}, 1));
    const std::uint64_t before = trained.optimizer->rows_visited();
    SGD other({&trained.table}, {.learning_rate = 0.1, .momentum = 0.5});
    train_ten_rows(other, trained.table, 0, 1);
    EXPECT_EQ(trained.optimizer->rows_visited() - before, decays ? kRows : kTouched) << name;
    EXPECT_EQ(trained.table.rows(Ids32{99'999})(0, 0) != 1, decays) << name;
  }
}

TEST(RowsWithoutState, AreSkippedWhenTheHistoryIsShortened) {
  Parameter table("table", irregular({20'000, 2}));
  SGD optimizer({&table}, {.learning_rate = 0.1, .momentum = 0.9});
  for (int i = 0; i < 4200; ++i) {
    optimizer.set_learning_rate(1e-3 + 1e-7 * i);
    step(optimizer, table, {i % 7 * 2000}, i);
  }
  EXPECT_LE(optimizer.rows_visited(), 4200U + 7);  // each of 7 rows with state at most once more
  EXPECT_LT(optimizer.state_dict().integers("table.lazy.steps").size(), 2200U);
}

std::size_t resident_bytes() {
  BufferPool::release_idle();
  std::size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<std::size_t>(getpagesize());
}

TEST(RowsWithoutState, TakeNoMemoryWhenTheOptimizerChanges) {
#ifdef ROWGRAD_ADDRESS_SANITIZER
  GTEST_SKIP() << "AddressSanitizer builds write zeros, which makes pages resident";
#endif
  constexpr std::size_t kRows = 200'000, kWidth = 64, kBytes = kRows * kWidth * sizeof(real);
  const auto is_like = [](std::size_t bytes) { return bytes + kBytes / 4; };
  for (const auto& [name, options] : kDeferring) {
    if (std::string_view(name) == "replayed") continue;
    const std::size_t before = resident_bytes();
    Trained trained(options, sparse_zeros({kRows, kWidth}));
    trained.optimizer.reset();
    EXPECT_LE(resident_bytes(), is_like(before)) << name;
    trained.optimizer = make_optimizer(kAdam, {&trained.table});
    train_ten_rows(*trained.optimizer, trained.table, 0, 3);
    // Decay writes the values of all rows, but no slots.
    EXPECT_LE(resident_bytes(), is_like(before + kBytes)) << name;
    if (std::get_if<AdamOptions>(&options) != nullptr) {
      EXPECT_LE(resident_bytes(), is_like(before)) << name;
    }
  }
}

TEST(RowsWithoutState, TakeNoMemoryWhenReadOrSaved) {
#ifdef ROWGRAD_ADDRESS_SANITIZER
  GTEST_SKIP() << "AddressSanitizer builds write zeros, which makes pages resident";
#endif
  constexpr std::size_t kRows = 200'000, kWidth = 64, kBytes = kRows * kWidth * sizeof(real);
  Ids32 all(kRows);
  std::iota(all.begin(), all.end(), 0);
  for (const auto& [name, options] : kDeferring) {
    if (std::string_view(name) == "replayed") continue;  // reading a row creates its state
    Trained trained(options, sparse_zeros({kRows, kWidth}));
    const Tensor before = trained.table.rows(all);
    const std::size_t bytes = resident_bytes();
    trained.table.rows(all);
    const StateDict state = trained.optimizer->state_dict();
    EXPECT_LE(resident_bytes(), bytes + kBytes / 4) << name;
    EXPECT_EQ(state.integers("table.lazy.at.rows").size(), 10U) << name;
  }
}

}  // namespace
