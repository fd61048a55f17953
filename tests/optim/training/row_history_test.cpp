#include "tests/test.hpp"

namespace {

double distance(const Tensor& a, const Tensor& b, std::size_t row) {
  double squares = 0;
  for (std::size_t i = 0; i < a.shape()[1]; ++i)
    squares += std::pow(static_cast<double>(a(row, i)) - static_cast<double>(b(row, i)), 2);
  return std::sqrt(squares);
}

// A lookup of tokens: what they look up is themselves.
void look_up(TableHistory& history, Ids tokens) {
  const auto ids = std::make_shared<const Ids>(std::move(tokens));
  history.look_up(ids, ids);
}

// Gives gradients to rows, each looked up twice, and records them.
void step(Optimizer& optimizer, Parameter& table, TableHistory& history, std::uint64_t number,
          const std::vector<std::int32_t>& rows, double decay = 0) {
  table.zero_gradient();
  for (int twice = 0; twice < 2; ++twice) look_up(history, to_ids(rows));
  table.add_gradient(RowGradient(table.shape(), rows, irregular({rows.size(), 4}, number)));
  history.before_update(number, decay);
  optimizer.step();
  history.after_update();
}

template <class Number>
std::vector<Number> all(const TableHistory::Frame& frame, Number TableHistory::Row::*member) {
  std::vector<Number> numbers;
  for (const TableHistory::Row& row : frame.rows) numbers.push_back(row.*member);
  return numbers;
}

TEST(RowHistory, CountsAndMeasuresTheRowsThatHadAGradient) {
  const Tensor start = irregular({6, 4});
  Parameter table("token.weight", start);
  SGD sgd({&table}, {.learning_rate = 0.5});
  TableHistory history(table, {"token"});
  step(sgd, table, history, 1, {1, 4});
  history.take_frame(1);
  step(sgd, table, history, 2, {0, 4});
  step(sgd, table, history, 3, {4});
  history.take_frame(3);
  EXPECT_FALSE(history.kept_without_gradient());
  EXPECT_FALSE(history.is_dense());
  ASSERT_EQ(history.frames().size(), 2U);
  EXPECT_EQ(history.frames()[0].rows.size(), 2U);
  const TableHistory::Frame last = history.now(3);
  EXPECT_EQ(last.step, 3U);
  EXPECT_EQ(history.ids(), (std::vector<std::int32_t>{1, 4, 0}));
  EXPECT_EQ(all(last, &TableHistory::Row::lookups), (std::vector<std::uint64_t>{2, 6, 2}));
  EXPECT_EQ(all(last, &TableHistory::Row::steps), (std::vector<std::uint64_t>{1, 3, 1}));
  EXPECT_EQ(all(last, &TableHistory::Row::last), (std::vector<std::uint64_t>{1, 3, 2}));
  for (std::size_t i = 0; i < 3; ++i) {
    const auto row = static_cast<std::size_t>(history.ids()[i]);
    EXPECT_NEAR(last.moved[i], distance(table.value(), start, row), 1e-6);
    // Plain SGD moves no row without a gradient.
    EXPECT_EQ(last.rows[i].momentum, 0);
    EXPECT_EQ(last.rows[i].decay, 0);
  }
  EXPECT_EQ(history.most_frequent(2), (std::vector<std::int32_t>{4, 1}));
}

TEST(RowHistory, TellsWhatMomentumAndDecayMoveWithoutAGradient) {
  const Tensor start = irregular({6, 4});
  for (const double rate : {0.0, 0.1}) {
    Parameter table("token.weight", start);
    SGD sgd({&table}, {.learning_rate = 0.01, .momentum = 0.9});
    AdamW adamw({&table}, {.learning_rate = rate, .weight_decay = 0.1});
    Optimizer& optimizer = rate == 0 ? static_cast<Optimizer&>(sgd) : adamw;
    TableHistory history(table, {"token"});
    const double decay = rate * 0.1;
    double momentum = 0;  // of row 1, in the steps without it
    double decayed = 0;
    const auto rest = [&](std::uint64_t first, std::uint64_t last) {
      const Tensor before = table.value();
      for (std::uint64_t number = first; number <= last; ++number)
        step(optimizer, table, history, number, {2}, decay);
      const double kept = std::pow(1 - decay, static_cast<double>(last - first + 1));
      momentum += distance(table.value(), before * static_cast<real>(kept), 1);
      decayed += (1 - kept) * distance(before, zeros({6, 4}), 1);
    };
    step(optimizer, table, history, 1, {1, 2}, decay);
    history.take_frame(1);
    rest(2, 7);
    step(optimizer, table, history, 8, {1, 2}, decay);
    rest(9, 11);
    for (int again = 0; again < 2; ++again) {  // being asked changes nothing
      const TableHistory::Row row = history.now(11).rows[0];
      ASSERT_EQ(history.ids()[0], 1);
      EXPECT_NEAR(row.momentum, momentum, 0.01 * momentum);
      EXPECT_NEAR(row.decay, decayed, 0.01 * decayed);
      EXPECT_GT(row.momentum, 0.001);
      EXPECT_EQ(history.now(11).rows[1].momentum, 0);  // row 2 had a gradient in each step
      EXPECT_EQ(history.kept_without_gradient().has_value(), rate > 0);
    }
  }
}

TEST(RowHistory, FollowsTheRowsThatAreLookedUpWhereGradientsAreDense) {
  Parameter table("token.weight", irregular({6, 4}));
  TableHistory history(table, {"token"});
  table.add_gradient(full({6, 4}, 2));
  look_up(history, Ids{5});
  history.before_update(1, 0);
  history.take_frame(1);
  table.mutable_values()[20] += 1;  // row 5, which had a gradient whether it was looked up or not
  history.before_update(2, 0);
  history.take_frame(2);
  EXPECT_TRUE(history.is_dense());
  EXPECT_EQ(history.ids(), (std::vector<std::int32_t>{5}));
  EXPECT_EQ(history.frames()[0].rows[0].squares, 16);
}

// What a model's tape looks up, by the names that its layers give the rows. There are as many
// tokens as positions, so that tables cannot be told apart by their sizes.
TEST(RowHistory, OfDistancesSaysWhatTheRowsStandFor) {
  const GptOptions small{.vocabulary = 40, .context = 40, .width = 4, .heads = 1, .layers = 1};
  GptOptions buckets = small, few_buckets = small, shaw = small;
  buckets.positions = few_buckets.positions = Positions::kT5;
  few_buckets.t5_max_distance = 17;
  shaw.positions = Positions::kShaw;
  shaw.shaw_max_distance = 3;
  const struct {
    GptOptions options;
    std::size_t tables;
    std::string kind;  // of the last table
    std::map<std::size_t, std::string> labels;
  } cases[] = {
      {buckets, 2, "distance", {{0, "0"}, {15, "15"}, {16, "16 to 18"}, {31, "113 and more"}}},
      {few_buckets, 2, "distance", {{16, "16"}, {20, "no distance"}, {31, "17 and more"}}},
      {shaw, 3, "distance", {{0, "3 and more"}, {2, "1"}, {3, "0"}, {4, "−1"}, {6, "−3"}}},
      {small, 2, "position", {}}};
  for (const auto& [options, tables, kind, labels] : cases) {
    Random random(1);
    GptModel model(options, random);
    RowHistory rows(model);
    Tape tape(random);
    model.forward(tape, to_ids(std::vector<std::int32_t>(40, 1)));
    rows.after_backward(tape);
    ASSERT_EQ(rows.tables().size(), tables);
    EXPECT_EQ(rows.tables()[0].kind(), "token");
    EXPECT_TRUE(rows.tables()[0].labels().empty());
    EXPECT_EQ(rows.tables().back().kind(), kind);
    const std::vector<std::string> all = rows.tables().back().labels();
    EXPECT_EQ(all.size(), labels.empty() ? 0 : labels.rbegin()->first + 1);
    for (const auto& [row, label] : labels) EXPECT_EQ(all.at(row), label);
  }
}

TEST(RowHistory, KeepsAFewFramesOfALongRun) {
  Parameter table("token.weight", irregular({6, 4}));
  SGD sgd({&table});
  TableHistory history(table, {"token"});
  for (std::uint64_t number = 1; number <= 1000; ++number) {
    step(sgd, table, history, number, {static_cast<std::int32_t>(number % 6)});
    history.take_frame(number);
  }
  const std::vector<TableHistory::Frame>& frames = history.frames();
  EXPECT_GE(frames.size(), 9U);
  EXPECT_LE(frames.size(), 20U);
  const std::size_t distance = frames[1].step - 1;
  for (std::size_t i = 1; i < frames.size(); ++i) EXPECT_EQ(frames[i].step, 1 + i * distance);
  EXPECT_EQ(frames.front().step, 1U);
  EXPECT_EQ(history.now(1000).step, 1000U);
}

TEST(RowHistory, FollowsTheFirstOfManyRowsAndCountsThemAll) {
  constexpr std::size_t kRows = 3000;
  Parameter table("token.weight", irregular({kRows, 4}));
  SGD sgd({&table});
  TableHistory all(table, {"token"});
  TableHistory some(table, {"token"}, nullptr, 100);
  std::set<std::int32_t> touched;
  for (std::uint64_t number = 1; number <= 400; ++number) {
    std::set<std::int32_t> rows;
    for (std::uint64_t i = 0; i < 5; ++i)
      rows.insert(static_cast<std::int32_t>(splitmix64(number * 5 + i) % kRows));
    touched.insert(rows.begin(), rows.end());
    const std::vector<std::int32_t> ids(rows.begin(), rows.end());
    table.zero_gradient();
    table.add_gradient(RowGradient(table.shape(), ids, irregular({ids.size(), 4}, number)));
    for (TableHistory* history : {&all, &some}) {
      history->look_up(std::make_shared<const Ids>(to_ids(ids)));
      history->before_update(number, 0);
      EXPECT_EQ(history->rows_now(), ids.size());
    }
    sgd.step();
    for (TableHistory* history : {&all, &some}) {
      history->after_update();
      history->take_frame(number);
    }
  }
  EXPECT_EQ(all.touched(), touched.size());
  EXPECT_EQ(some.touched(), touched.size());
  EXPECT_EQ(all.ids().size(), touched.size());
  EXPECT_EQ(some.ids(), std::vector(all.ids().begin(), all.ids().begin() + 100));
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(kRows); ++id)
    EXPECT_EQ(some.was_touched(id), touched.contains(id));
  const TableHistory::Frame now = some.now(400), expected = all.now(400);
  for (std::size_t i = 0; i < now.rows.size(); ++i) {
    const auto same = std::ranges::find(all.ids(), some.ids()[i]) - all.ids().begin();
    const auto place = static_cast<std::size_t>(same);
    EXPECT_EQ(now.rows[i].lookups, expected.rows[place].lookups);
    EXPECT_EQ(now.rows[i].steps, expected.rows[place].steps);
    EXPECT_EQ(now.rows[i].squares, expected.rows[place].squares);
    EXPECT_EQ(now.moved[i], expected.moved[place]);
  }
  for (const TableHistory::Frame& frame : some.frames())
    EXPECT_EQ(frame.rows.size(), frame.moved.size());
}

TEST(RowHistory, KeepsTheStepsThatMovedARowFarthestWithTheirText) {
  Parameter table("token.weight", irregular({20, 4}));
  SGD sgd({&table}, {.learning_rate = 0.5});
  TableHistory history(table, {"token"});
  const std::array<real, 5> sizes{3, 1, 4, 2, 5};
  double path = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::vector<std::int32_t> ids(24);
    for (std::size_t at = 0; at < ids.size(); ++at) ids[at] = static_cast<std::int32_t>(at % 12);
    ids[12 + i] = 17;  // in the second window, and again at its end
    ids[23] = 17;
    Ids inputs = Ids::from_shape({2, 12});
    std::ranges::copy(ids, inputs.data());
    look_up(history, inputs);
    table.zero_gradient();
    table.add_gradient(RowGradient(table.shape(), {17}, full({1, 4}, sizes[i])));
    history.before_update(i + 1, 0);
    const Tensor before = table.value();
    sgd.step();
    path += distance(table.value(), before, 17);
    history.after_update();
  }
  ASSERT_EQ(history.ids(), std::vector<std::int32_t>{17});
  EXPECT_NEAR(history.rows()[0].path, path, 1e-5);
  const std::vector<TableHistory::Step>& steps = history.steps()[0];
  ASSERT_EQ(steps.size(), 3U);
  const std::array<std::uint64_t, 3> expected{5, 3, 1};
  for (std::size_t i = 0; i < 3; ++i) {
    const TableHistory::Step& step = steps[i];
    EXPECT_EQ(step.step, expected[i]);
    EXPECT_EQ(step.lookups, 2U);
    EXPECT_NEAR(step.gradient_norm, 2 * sizes[step.step - 1], 1e-5);
    EXPECT_NEAR(step.moved, sizes[step.step - 1], 1e-5);
    EXPECT_EQ(step.place, step.step - 1);  // the window has no more before it
    EXPECT_EQ(step.text.size(), step.place + 4);
    EXPECT_EQ(step.text[step.place], 17);
    EXPECT_EQ(step.text[step.place + 1], static_cast<std::int32_t>(step.place + 1));
  }
}

// From where it began, also of a row whose first gradient comes late, and of one that has none:
// where decay is known, where it goes through momentum, and where gradients are dense.
TEST(RowList, SaysWhichRowsNeverLearned) {
  for (const bool dense : {false, true})
    for (const bool known : {false, true}) {
      const Tensor start = irregular({6, 4});
      Parameter table("token.weight", start);
      SGD coupled({&table}, {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.5});
      AdamW adamw({&table}, {.learning_rate = 0.01, .weight_decay = 0.5});
      Optimizer& optimizer = known ? static_cast<Optimizer&>(adamw) : coupled;
      EXPECT_EQ(optimizer.idle_decay(table).has_value(), known);
      TableHistory history(table, {"token"});
      for (std::uint64_t step = 1; step <= 4; ++step) {
        table.zero_gradient();
        const std::vector<std::int32_t> rows = step == 4 ? std::vector{0, 1, 4} : std::vector{0, 1};
        history.look_up(std::make_shared<const Ids>(to_ids(rows)));
        history.look_up(std::make_shared<const Ids>(Ids{1}));
        if (dense)
          table.add_gradient(irregular({6, 4}, static_cast<int>(step)));
        else
          table.add_gradient(RowGradient(table.shape(), rows, irregular({rows.size(), 4})));
        history.before_update(step, optimizer.idle_decay(table));
        optimizer.step();
        history.after_update();
      }
      const std::vector<ListedRow> rows = list_rows(history);
      ASSERT_EQ(rows.size(), 6U);
      for (std::size_t i = 0; i < 6; ++i) {
        const std::uint64_t steps = i < 2 ? 4 : i == 4 ? 1 : 0;
        EXPECT_EQ(rows[i].id, static_cast<std::int32_t>(i));
        EXPECT_NEAR(rows[i].moved, distance(table.value(), start, i), 1e-5) << i << dense << known;
        EXPECT_NEAR(rows[i].norm, distance(table.value(), zeros({6, 4}), i), 1e-6);
        EXPECT_EQ(rows[i].steps, steps);
        EXPECT_EQ(rows[i].lookups, i == 1 ? 8U : steps);
        EXPECT_EQ(rows[i].gradient_norm > 0, steps > 0);
        EXPECT_EQ(rows[i].learned == Learned::kNo, steps == 0);
      }
    }
}

// Where decay has left nothing of the rows before their first gradient.
TEST(RowList, MeasuresRowsThatDecayHasTakenFromThere) {
  Parameter table("token.weight", irregular({3, 4}));
  SGD sgd({&table}, {.learning_rate = 0.3, .weight_decay = 0.5});
  TableHistory history(table, {"token"});
  for (std::uint64_t number = 1; number < 1500; ++number)
    step(sgd, table, history, number, {0}, *sgd.idle_decay(table));
  const Tensor before = table.copy();
  step(sgd, table, history, 1500, {0, 1}, *sgd.idle_decay(table));
  const std::vector<ListedRow> rows = list_rows(history);
  EXPECT_GT(rows[1].moved, 0.1);
  EXPECT_NEAR(rows[1].moved, distance(table.value(), before, 1), 1e-6);
  EXPECT_EQ(rows[1].learned, Learned::kYes);
  EXPECT_TRUE(std::isnan(rows[2].moved));
  EXPECT_EQ(rows[2].learned, Learned::kNo);
}

TEST(RowList, SaysThatNothingLearnedWhereNothingMoved) {
  Parameter table("token.weight", irregular({3, 4}));
  TableHistory history(table, {"token"});
  step(*std::make_unique<SGD>(std::vector<Parameter*>{&table}, SgdOptions{.learning_rate = 0}),
       table, history, 1, {0, 2});
  const std::vector<ListedRow> rows = list_rows(history);
  EXPECT_EQ(rows[0].learned, Learned::kHardly);
  EXPECT_EQ(rows[1].learned, Learned::kNo);
}

TEST(RowList, IsTextThatSpreadsheetsRead) {
  Parameter table("token.weight", zeros({5, 2}));
  TableHistory history(table, {"token"});
  const auto controls = CharacterTokenizer::from_text(std::string_view("\0\v=\xE2\x80\xA8z", 7));
  const CharacterTokenizer tokenizer = CharacterTokenizer::from_text("\t\n\"a\\");
  EXPECT_HAS(rows_text(history, list_rows(history), &controls),
             "\n0\t<0x00>\t0\t0\t0\t0\t0\tno\n1\t<0x0B>\t");
  EXPECT_HAS(rows_text(history, list_rows(history), &controls), "\n4\t<0xE2><0x80><0xA8>\t");
  EXPECT_HAS(rows_text(history, list_rows(history), &controls, ','), "\n2,\"\\=\",");
  std::vector<ListedRow> rows = list_rows(history);
  rows[3] = {.id = 3,
             .lookups = 7,
             .steps = 2,
             .gradient_norm = 0.5,
             .norm = 0.25,
             .moved = 0.125,
             .learned = Learned::kHardly};
  rows[4].moved = std::nan("");
  EXPECT_EQ(rows_text(history, rows, &tokenizer),
            "id\ttoken\tlookups\tsteps\tgradient_norm\tnorm\tmoved\tlearned\n"
            "0\t\\t\t0\t0\t0\t0\t0\tno\n"
            "1\t\\n\t0\t0\t0\t0\t0\tno\n"
            "2\t\\\"\t0\t0\t0\t0\t0\tno\n"
            "3\t\\\\\t7\t2\t0.5\t0.25\t0.125\thardly\n"
            "4\ta\t0\t0\t0\t0\t\tno\n");
  const std::string csv = rows_text(history, rows, &tokenizer, ',');
  EXPECT_NE(csv.find("\n2,\"\"\"\",0,0,0,0,0,no\n"), std::string::npos) << csv;
  EXPECT_NE(rows_text(history, rows, nullptr).find("\n3\t3\t7\t"), std::string::npos);
}

// Of any model, whose layer names the rows of one.
TEST(RowHistory, RefusesNamesOfOtherRows) {
  struct Named : Layer {
    explicit Named(Random& random) : film(*this, "film", 5, 4, random) {}
    std::optional<RowNames> row_names(const Parameter&) const override {
      return RowNames{"film", {"Brazil", "Heat"}};
    }
    Part<Embedding> film;
  };
  Random random(1);
  Named model(random);
  RowHistory rows(model);
  Tape tape;
  tape.backward(sum(model.film.forward(tape, Ids{4, 1})));
  EXPECT_INVALID("film.weight: there are 2 names of rows, expected none or 5",
                 rows.after_backward(tape));
}

TEST(RowHistory, FollowsAllTablesThatAreLookedUp) {
  struct Pairs : Layer {
    explicit Pairs(Random& random)
        : left(*this, "left", 6, 4, random),
          right(*this, "right", 5, 4, random),
          scale(*this, "scale", full({4, 4}, 1)) {}
    std::optional<RowNames> row_names(const Parameter& table) const override {
      if (&table != &left.weight) return {};
      return RowNames{"user", {"Ann", "Bob", "Cy", "Di", "Ed", "Fay"}};
    }
    Part<Embedding> left, right;
    Parameter scale;
  };
  Random random(1);
  Pairs model(random);
  AdamW adamw(model.parameters(), {.learning_rate = 0.1, .weight_decay = 0.5});
  RowHistory rows(model);
  EXPECT_TRUE(rows.tables().empty());
  for (std::uint64_t step = 1; step <= 3; ++step) {
    adamw.zero_grad();
    Tape tape;
    const Ids left = {1, 1, 3};
    tape.backward(sum(matmul(model.left.forward(tape, left), tape.parameter(model.scale)) *
                      model.right.forward(tape, Ids{4, 4, 4})));
    rows.after_backward(tape);
    rows.before_update(step, adamw);
    adamw.step();
    rows.after_update(step);
  }
  ASSERT_EQ(rows.tables().size(), 2U);
  const TableHistory& table = rows.tables()[0];
  EXPECT_EQ(&table.table(), &model.left.weight);
  EXPECT_EQ(table.kind(), "user");
  EXPECT_EQ(RowLabels(table, nullptr).of(3), "Di");
  EXPECT_EQ(table.ids(), (std::vector<std::int32_t>{1, 3}));
  EXPECT_EQ(table.rows()[0].lookups, 6U);
  EXPECT_TRUE(table.steps()[0].front().text.empty());
  EXPECT_EQ(rows.tables()[1].kind(), "row");
  EXPECT_EQ(rows.tables()[1].ids(), (std::vector<std::int32_t>{4}));
  EXPECT_EQ(rows.tables()[1].rows()[0].lookups, 9U);
  EXPECT_NEAR(table.kept_without_gradient().value(), std::pow(0.95, 3), 1e-6);
}

TEST(RowHistory, RefusesOtherModelsAndStepsThatItWasNotToldOf) {
  struct One : Layer {
    explicit One(Random& random) : table(*this, "table", 5, 4, random) {}
    Part<Embedding> table;
  };
  Random random(1);
  One model(random), other(random);
  SGD sgd(model.parameters());
  RowHistory rows(model);
  Tape both, alone;
  both.backward(sum(model.table.forward(both, Ids{1}) + other.table.forward(both, Ids{2})));
  rows.after_backward(both);
  ASSERT_EQ(rows.tables().size(), 1U);
  EXPECT_EQ(&rows.tables()[0].table(), &model.table.weight);
  alone.backward(sum(other.table.forward(alone, Ids{2})));
  EXPECT_INVALID(
      "RowHistory: the tape has looked up table.weight, which is no parameter of the model",
      rows.after_backward(alone));
  EXPECT_INVALID("RowHistory: table.weight is no parameter of the model",
                 rows.of(other.table.weight));
  EXPECT_INVALID("RowMovement: table.weight is no parameter of the model",
                 RowMovement(model, other.table.weight, 0));
  const std::string untold =
      "RowHistory: before_update(1, …) was not called before that step was "
      "made";
  EXPECT_EQ(error_of<std::logic_error>([&] { rows.after_update(1); }), untold);
  rows.before_update(1, sgd);
  sgd.step();
  rows.after_update(1);
  EXPECT_EQ(rows.tables()[0].rows()[0].lookups, 1U);
  EXPECT_EQ(error_of<std::logic_error>([&] { rows.after_update(1); }), untold);
}

TEST(Optimizers, TellWhatDecayTakesWithoutAGradient) {
  Parameter table("table", irregular({6, 4}));
  const auto decay = [&](auto&& optimizer) { return optimizer.idle_decay(table); };
  const std::initializer_list<Parameter*> one{&table};
  EXPECT_EQ(decay(SGD(one, {.learning_rate = 0.5, .momentum = 0.9})), 0);
  EXPECT_EQ(decay(SGD(one, {.momentum = 0.9, .weight_decay = 0.1})), std::nullopt);
  EXPECT_NEAR(decay(SGD(one, {.learning_rate = 0.5, .weight_decay = 0.1})).value(), 0.05, 1e-6);
  EXPECT_EQ(decay(Adam(one, {.learning_rate = 0.5})), 0);
  EXPECT_EQ(decay(Adam(one, {.weight_decay = 0.1})), std::nullopt);
  EXPECT_EQ(decay(RMSprop(one, {.weight_decay = 0.1})), std::nullopt);
  EXPECT_NEAR(decay(AdamW(one, {.learning_rate = 0.5, .weight_decay = 0.1})).value(), 0.05, 1e-6);
  EXPECT_EQ(decay(AdamW(one, {.weight_decay = 0.1, .rows = RowUpdates::kTouchedOnly})), 0);
  Parameter other("other", irregular({6, 4}));
  EXPECT_EQ(SGD(one).idle_decay(other), std::nullopt);
}

}  // namespace
