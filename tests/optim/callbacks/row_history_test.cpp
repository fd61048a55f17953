#include "tests/optim/optimizers.hpp"

namespace {

double distance(const Tensor& a, const Tensor& b, std::size_t row) {
  double squares = 0;
  for (std::size_t i = 0; i < a.shape()[1]; ++i)
    squares += std::pow(static_cast<double>(a(row, i)) - static_cast<double>(b(row, i)), 2);
  return std::sqrt(squares);
}

// Looks up tokens, whose ids are the ids of their rows.
void look_up(TableHistory& history, Ids tokens) {
  const auto ids = std::make_shared<const Ids>(std::move(tokens));
  history.look_up(ids, ids);
}

// Makes a step with gradients for some rows and records the step.
void step(Optimizer& optimizer, Parameter& table, TableHistory& history, std::uint64_t number,
          const std::vector<std::int32_t>& rows, double decay = 0) {
  table.zero_gradient();
  look_up(history, to_ids(rows));
  table.add_gradient(RowGradient(table.shape(), rows, irregular({rows.size(), 4}, number)));
  history.before_update(number, {.decay = decay});
  optimizer.step();
  history.after_update();
}

// The history of a row by definition, computed from the table before and after each step.
struct NaiveRow {
  // Adds the movement since the row's last gradient.
  void settle(const Tensor& now, std::size_t id) {
    const double length = distance(rested, zeros(rested.shape()), id);
    const double by_momentum = distance(now, rested * static_cast<real>(kept), id);
    if (by_momentum > 1e-6 * length) row.momentum += by_momentum;
    row.decay += (1 - kept) * length;
  }
  void step(const TableHistory::Step& made, const Tensor& after) {
    ++row.steps;
    row.last = made.step;
    row.squares += made.gradient_norm * made.gradient_norm;
    row.largest = std::max(row.largest, made.gradient_norm);
    row.path += made.moved;
    steps.push_back(made);
    rested = after;
    kept = 1;
  }

  TableHistory::Row row;
  std::vector<TableHistory::Step> steps;
  Tensor rested;    // the table after the row's last gradient
  double kept = 1;  // fraction of these values that decay has left
};

void expect_same(const TableHistory::Row& row, const NaiveRow& expected,
                 std::span<const TableHistory::Step> steps) {
  EXPECT_EQ(row.lookups, expected.row.lookups);
  EXPECT_EQ(row.steps, expected.row.steps);
  EXPECT_EQ(row.last, expected.row.last);
  for (const auto number :
       {&TableHistory::Row::squares, &TableHistory::Row::largest, &TableHistory::Row::path,
        &TableHistory::Row::momentum, &TableHistory::Row::decay})
    EXPECT_NEAR(row.*number, expected.row.*number, 1e-5);
  std::vector<TableHistory::Step> farthest = expected.steps;
  std::ranges::stable_sort(farthest, std::greater<>(), &TableHistory::Step::moved);
  ASSERT_EQ(steps.size(), std::min<std::size_t>(3, farthest.size()));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].step, farthest[i].step);
    EXPECT_EQ(steps[i].lookups, farthest[i].lookups);
    EXPECT_NEAR(steps[i].gradient_norm, farthest[i].gradient_norm, 1e-5);
    EXPECT_NEAR(steps[i].moved, farthest[i].moved, 1e-5);
    EXPECT_EQ(steps[i].text, farthest[i].text);
    EXPECT_EQ(steps[i].place, farthest[i].place);
  }
}

constexpr std::size_t kTableRows = 9;

// Two windows of tokens, most of them token 1. Token 0 does not occur, so its row only has dense
// gradients. Token 2 occurs in the first steps, and later often without a gradient; token 7 only
// occurs late. Gradients of row 3 are small.
struct MadeUpStep {
  MadeUpStep(std::uint64_t step, bool dense)
      : tokens(Ids::from_shape({2, 12})),
        values(irregular({kTableRows, 4}, static_cast<int>(step))) {
    std::ranges::fill(tokens, 1);
    tokens.data()[7 * step % 24] = 3 + static_cast<std::int32_t>(step % 3);
    if (step < 4 || step % 5 == 0) tokens.data()[5 * step % 24] = 2;
    if (step > 20) tokens.data()[step % 24] = tokens.data()[23] = 7;
    if (step % 7 == 0) tokens.data()[0] = 8;
    rows = {tokens.begin(), tokens.end()};
    if (!dense) rows.erase(8);
    if (!dense && step >= 4 && step % 10 != 0) rows.erase(2);
    for (std::size_t i = 0; i < 4; ++i) values(3, i) *= real{1e-4};
    gradient = values;
    if (dense) return;
    const std::vector<std::int32_t> indices(rows.begin(), rows.end());
    gradient = RowGradient({kTableRows, 4}, indices, Parameter("", values).rows(indices));
  }

  // Returns the expected step of a row. Does not set `step` and `moved`.
  TableHistory::Step of(std::int32_t id) const {
    const auto lookups = static_cast<std::uint64_t>(std::ranges::count(tokens, id));
    const auto first = static_cast<std::size_t>(std::ranges::find(tokens, id) - tokens.begin());
    const std::size_t before = std::min<std::size_t>(first % 12, 8);
    const std::size_t after = std::min<std::size_t>(11 - first % 12, 3);
    const std::int32_t* const place = tokens.data() + first;
    return {.lookups = lookups,
            .gradient_norm = distance(values, zeros(values.shape()), static_cast<std::size_t>(id)),
            .text = TableHistory::Text({place - before, place + after + 1}),
            .place = before};
  }

  Ids tokens;
  std::set<std::int32_t> rows;  // the tokens whose rows have a gradient
  Tensor values;
  Gradient gradient;
};

enum class Table { kDense, kRows, kWatched, kWatchedInFile };

Tensor all_rows(const Parameter& table) {
  std::vector<std::int32_t> ids(kTableRows);
  std::iota(ids.begin(), ids.end(), 0);
  return table.rows(ids);
}

void expect_history(const AnyOptions& options, Table kind) {
  const bool dense = kind == Table::kDense, is_watched = kind > Table::kRows;
  const TemporaryFolder folder;
  std::optional<TableFile> file;
  std::optional<Parameter> parameter;
  if (kind == Table::kWatchedInFile)
    parameter.emplace(
        "token.weight",
        file_rows(
            file.emplace(folder / "table",
                         TableFileOptions{.rows = kTableRows, .width = 4, .slots = 3, .seed = 1})));
  else
    parameter.emplace("token.weight", irregular({kTableRows, 4}));
  Parameter& table = *parameter;
  const Tensor start = all_rows(table);
  const auto optimizer = make_optimizer(options, {&table});
  const auto both = {std::make_shared<TableHistory>(table, RowNames{.kind = RowKind::kToken}),
                     std::make_shared<TableHistory>(table, RowNames{.kind = RowKind::kToken}, 3)};
  const TableHistory &history = **both.begin(), &some = **(both.begin() + 1);
  std::map<std::int32_t, NaiveRow> naive;
  std::vector<std::int32_t> order;
  double kept = 1;  // fraction that decay has left in rows without a gradient
  for (std::uint64_t number = 1; number <= 30; ++number) {
    const MadeUpStep step(number, dense);
    table.zero_gradient();
    table.add_gradient(step.gradient);
    const std::optional<double> known = optimizer->decay_without_gradient(table);
    const double left = 1 - known.value_or(0);
    const Tensor before = all_rows(table);
    for (const auto& each : both) {
      look_up(*each, step.tokens);
      EXPECT_TRUE(!is_watched || optimizer->watch_next_step(table, each));
      each->before_update(number, {.decay = known,
                                   .moves_all = optimizer->changes_without_gradient(table),
                                   .is_watched = is_watched});
      EXPECT_EQ(each->rows_in_step(), step.rows.size());
    }
    optimizer->step();
    for (const auto& each : both) EXPECT_TRUE(each->after_update());
    const Tensor after = all_rows(table);
    kept *= left;
    for (auto& [id, row] : naive)
      if (!step.rows.contains(id)) row.kept *= left;
    for (const std::int32_t id : step.rows) {
      const auto i = static_cast<std::size_t>(id);
      if (naive.contains(id))
        naive[id].settle(before, i);
      else
        order.push_back(id);
      TableHistory::Step made = step.of(id);
      made.step = number;
      made.moved = distance(after, before * static_cast<real>(left), i);
      naive[id].step(made, after);
    }
    for (const std::int32_t id : step.tokens)
      if (naive.contains(id)) ++naive[id].row.lookups;
  }
  EXPECT_EQ(history.is_dense(), dense);
  EXPECT_EQ(history.kept_without_gradient().has_value(), kept != 1);
  EXPECT_NEAR(history.kept_without_gradient().value_or(1), kept, 1e-6);
  EXPECT_EQ(history.ids(), order);
  EXPECT_EQ(history.most_frequent(1), std::vector<std::int32_t>{1});
  EXPECT_EQ(some.ids(), std::vector(order.begin(), order.begin() + 3));
  EXPECT_EQ(some.touched(), order.size());

  const Tensor end = all_rows(table);
  std::vector<double> distances;
  for (const std::int32_t id : order)
    distances.push_back(distance(end, start, static_cast<std::size_t>(id)));
  for (const TableHistory* each : {&history, &some, &history})  // reading twice changes nothing
    for (std::size_t i = 0; i < each->ids().size(); ++i) {
      SCOPED_TRACE(concat("row ", order[i]));
      const TableHistory::Frame now = each->now(30);
      NaiveRow expected = naive[order[i]];
      expected.settle(end, static_cast<std::size_t>(order[i]));
      expect_same(now.rows[i], expected, each->steps(i));
      EXPECT_NEAR(now.moved[i], distances[i], 1e-6);
    }
  std::ranges::sort(distances);
  const double hardly = 0.1 * distances[distances.size() / 2];
  const std::vector<ListedRow> rows = list_rows(history);
  ASSERT_EQ(rows.size(), kTableRows);
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(kTableRows); ++id) {
    SCOPED_TRACE(concat("row ", id));
    const auto i = static_cast<std::size_t>(id);
    const bool touched = naive.contains(id);
    EXPECT_EQ(some.was_touched(id), touched);
    EXPECT_EQ(rows[i].id, id);
    EXPECT_EQ(rows[i].steps, touched ? naive[id].row.steps : 0);
    EXPECT_EQ(rows[i].lookups, touched ? naive[id].row.lookups : 0);
    EXPECT_NEAR(rows[i].gradient_norm, touched ? std::sqrt(naive[id].row.squares) : 0, 1e-5);
    EXPECT_NEAR(rows[i].norm, distance(end, zeros(start.shape()), i), 1e-6);
    EXPECT_NEAR(rows[i].moved, distance(end, start, i), 1e-5);
    const Learned moved = distance(end, start, i) > hardly ? Learned::kYes : Learned::kHardly;
    EXPECT_EQ(rows[i].learned, touched ? moved : Learned::kNo);
  }
}

// With momentum and weight decay, the decay of SGD is unknown.
TEST(RowHistory, EqualsItsDefinition) {
  const std::vector<AnyOptions> all{
      SgdOptions{.learning_rate = 0.5},
      SgdOptions{.learning_rate = 0},
      SgdOptions{.learning_rate = 0.1, .weight_decay = 0.1},
      SgdOptions{.learning_rate = 0.01, .momentum = 0.9},
      AdamWOptions{.learning_rate = 0.1, .weight_decay = 0.1},
      AdamWOptions{.learning_rate = 0.1, .weight_decay = 0.1, .amsgrad = true},
      SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.5}};
  for (const Table kind : {Table::kDense, Table::kRows, Table::kWatched, Table::kWatchedInFile})
    for (std::size_t i = 0; i < all.size(); ++i) {
      // Initial values of a table file cannot be computed if the decay is unknown.
      if (kind == Table::kWatchedInFile && i + 1 == all.size()) continue;
      SCOPED_TRACE(concat("optimizer ", i, ", table ", static_cast<int>(kind)));
      expect_history(all[i], kind);
    }
}

// A model with one table of 9 rows.
struct OneTable : Layer {
  explicit OneTable(Random& random) : rows(*this, "rows", kTableRows, 4, random) {}

  // Looks up rows and computes their gradients.
  void backward(const Ids& ids, RowHistory& history, Optimizer& optimizer) {
    optimizer.zero_grad();
    Tape tape;
    const Variable x = rows.forward(tape, ids);
    tape.backward(sum(x * x));
    history.after_backward(tape);
  }

  Submodule<Embedding> rows;
};

TEST(RowHistory, IgnoresSkippedUpdatesAndOtherGradients) {
  Random random(1);
  OneTable model(random);
  AdamW optimizer(model.parameters(), {.learning_rate = 0.1, .weight_decay = 0.5});
  RowHistory rows(model);
  model.backward(Ids{1, 2, 2}, rows, optimizer);
  rows.before_update(1, optimizer);  // without an update
  rows.state_dict();
  model.backward(Ids{3}, rows, optimizer);
  rows.before_update(1, optimizer);
  optimizer.step();
  EXPECT_ERROR(
      std::logic_error,
      "RowHistory::state_dict: step 1 was made, expected a call after after_update(1); add "
      "the history to the run before the callback that saves it",
      rows.state_dict());
  rows.after_update(1);
  const TableHistory& table = rows.tables()[0];
  EXPECT_EQ(table.ids(), (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(table.row(1).steps, 0U);
  EXPECT_EQ(table.row(1).lookups, 2U);
  EXPECT_EQ(table.row(2).steps, 1U);
  EXPECT_EQ(table.moved()[1], 0);
  EXPECT_NEAR(table.kept_without_gradient().value(), 0.95, 1e-6);
  model.backward(Ids{4}, rows, optimizer);
  rows.before_update(2, optimizer);
  model.backward(Ids{5, 6, 7, 8}, rows, optimizer);
  optimizer.step();  // with another gradient than in before_update()
  EXPECT_ERROR(std::logic_error,
               "RowHistory: step 2 was not made with the gradient of before_update()",
               rows.after_update(2));
  EXPECT_EQ(table.row(3).steps, 0U);
  EXPECT_EQ(table.touched(), 4U);
  EXPECT_NEAR(table.kept_without_gradient().value(), 0.95, 1e-6);
  model.backward(Ids{1}, rows, optimizer);
  rows.before_update(3, optimizer);
  optimizer.step();
  rows.after_update(3);
  EXPECT_EQ(table.row(0).steps, 1U);
}

TEST(RowHistory, CountsNoDecayInStepsWithoutGradients) {
  Random random(1);
  OneTable model(random);
  AdamW optimizer(model.parameters(), {.learning_rate = 0.1, .weight_decay = 0.5});
  RowHistory rows(model);
  model.backward(Ids{1}, rows, optimizer);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    rows.before_update(step, optimizer);
    optimizer.step();
    rows.after_update(step);
    optimizer.zero_grad();
  }
  EXPECT_NEAR(rows.tables()[0].kept_without_gradient().value(), 0.95, 1e-6);
}

TEST(RowHistory, DoesNotRecordAStepIfBeforeUpdateFailed) {
  struct Failing : TablePlacement {
    IndexRange rows_here(std::size_t rows) const override { return {0, rows}; }
    Parameter& whole_table(Parameter& here, std::size_t, const EmbeddingLookup&) override {
      return here;
    }
    void fetch(std::span<const TableLookup>) override { check_runtime(!fails, "out of reach"); }
    bool fails = false;
  } tables;
  Random random(1);
  OneTable model(random);
  SGD optimizer(model.parameters(), {.learning_rate = 0.1});
  RowHistory rows(model, &tables);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    model.backward(step == 2 ? Ids{2, 3, 4, 5, 6, 7, 8} : Ids{1}, rows, optimizer);
    model.rows.weight.mutable_values();  // a change, so that the history reads the rows again
    tables.fails = step == 2;
    if (tables.fails)
      EXPECT_ERROR(std::runtime_error, "out of reach", rows.before_update(step, optimizer));
    else
      rows.before_update(step, optimizer);
    optimizer.step();
    if (tables.fails)
      EXPECT_ERROR(std::logic_error,
                   "RowHistory: before_update(2, …) was not called before the step",
                   rows.after_update(step));
    else
      rows.after_update(step);
  }
  const TableHistory& table = rows.tables()[0];
  EXPECT_EQ(table.ids(), std::vector<std::int32_t>{1});
  EXPECT_EQ(table.row(0).steps, 2U);
}

TEST(RowHistory, DoesNotChangeTraining) {
  for (const AnyOptions& options : std::vector<AnyOptions>{
           SgdOptions{.learning_rate = 0.5},
           SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.5},
           AdamWOptions{.learning_rate = 0.1, .weight_decay = 0.1, .amsgrad = true}}) {
    const auto train = [&](bool is_watched) {
      Random random(1);
      OneTable model(random);
      const auto optimizer = make_optimizer(options, model.parameters());
      RowHistory rows(model);
      for (std::uint64_t step = 1; step <= 20; ++step) {
        const auto row = static_cast<std::int32_t>(step % 7);
        model.backward(step % 3 == 0 ? Ids{row, 1, 2} : Ids{row}, rows, *optimizer);
        if (is_watched) rows.before_update(step, *optimizer);
        optimizer->step();
        if (is_watched) rows.after_update(step);
      }
      EXPECT_EQ(rows.tables()[0].touched(), is_watched ? 7U : 0U);
      return bits_of(model.rows.weight, *optimizer);
    };
    EXPECT_EQ(train(true), train(false));
  }
}

TEST(RowHistory, TruncatesLongTexts) {
  const std::vector<std::int32_t> tokens(20, 1);
  EXPECT_EQ(TableHistory::Text(tokens).size(), TableHistory::Text::kMax);
}

// The vocabulary is as large as the context, so shapes cannot distinguish the tables.
TEST(RowHistory, NamesPositionsAndDistances) {
  GptOptions options{.vocabulary = 40, .context = 40, .width = 4, .heads = 1, .layers = 1};
  const auto last_table = [&](std::size_t tables) {
    Random random(1);
    GptModel model(options, random);
    RowHistory rows(model);
    Tape tape(random);
    model.forward(tape, to_ids(std::vector<std::int32_t>(40, 1)));
    rows.after_backward(tape);
    EXPECT_EQ(rows.tables().size(), tables);
    EXPECT_EQ(rows.tables()[0].kind(), RowKind::kToken);
    EXPECT_TRUE(rows.tables()[0].labels().empty());
    return std::pair(rows.tables().back().noun(), rows.tables().back().labels());
  };
  using Labels = std::vector<std::string>;
  EXPECT_EQ(last_table(2), std::pair(std::string("position"), Labels()));
  options.positions = Positions::kShaw;
  options.shaw_max_distance = 3;
  EXPECT_EQ(last_table(3), std::pair(std::string("distance"),
                                     Labels{"3 and more", "2", "1", "0", "−1", "−2", "−3"}));
  options.positions = Positions::kT5;
  const Labels t5 = last_table(2).second;
  ASSERT_EQ(t5.size(), 32U);
  EXPECT_EQ((Labels{t5[0], t5[15], t5[16], t5[31]}),
            (Labels{"0", "15", "16 to 18", "113 and more"}));
  options.t5_max_distance = 17;
  const Labels few = last_table(2).second;
  EXPECT_EQ((Labels{few[16], few[20], few[31]}), (Labels{"16", "no distance", "17 and more"}));
}

// A model whose segment table has the shape of its token table.
struct TokensAndSegments : Layer {
  explicit TokensAndSegments(Random& random)
      : segment(*this, "segment", 5, 4, random),
        token(*this, "token", 5, 4, random, EmbeddingOptions{.kind = RowKind::kToken}),
        plain(*this, "plain", zeros({5, 4})) {}

  Submodule<Embedding> segment, token;
  Parameter plain;
};

TEST(RowHistory, OnlyLookupsOfTokensHaveTexts) {
  Random random(1);
  TokensAndSegments model(random);
  SGD sgd(model.parameters());
  RowHistory rows(model);
  Tape tape;
  const Ids tokens{3, 4, 0};
  const Variable x = model.segment.forward(tape, Ids{1, 1, 2}) + model.token.forward(tape, tokens);
  const Variable plain =
      embedding(tape.parameter(model.plain), Ids{2, 2, 2}, {.kind = RowKind::kPosition});
  tape.backward(sum(x * x + plain));
  rows.after_backward(tape);
  rows.before_update(1, sgd);
  sgd.step();
  rows.after_update(1);
  ASSERT_EQ(rows.tables().size(), 3U);
  const auto tokenizer = CharacterTokenizer::from_text("abcde");
  const TableHistory &token = rows.tables()[0], &segment = rows.tables()[2];
  EXPECT_EQ(&token.table(), &model.token.weight);
  EXPECT_EQ(RowLabels(token, &tokenizer).of(3), "d");
  EXPECT_EQ(token.steps(0).at(0).text, TableHistory::Text(tokens.storage()));
  EXPECT_EQ(&segment.table(), &model.segment.weight);
  EXPECT_EQ(segment.noun(), "row");
  EXPECT_EQ(RowLabels(segment, &tokenizer).of(1), "1");
  EXPECT_TRUE(segment.steps(0).at(0).text.empty());
  EXPECT_EQ(rows.tables()[1].noun(), "position");
}

// Decay has shrunk row 1 to nothing before its first gradient.
TEST(RowList, MeasuresFullyDecayedRowsFromTheirFirstGradient) {
  Parameter table("token.weight", irregular({3, 4}));
  SGD sgd({&table}, {.learning_rate = 0.3, .weight_decay = 0.5});
  TableHistory history(table, {.kind = RowKind::kToken});
  for (std::uint64_t number = 1; number < 1500; ++number)
    step(sgd, table, history, number, {0}, *sgd.decay_without_gradient(table));
  const Tensor before = table.copy();
  step(sgd, table, history, 1500, {0, 1}, *sgd.decay_without_gradient(table));
  const std::vector<ListedRow> rows = list_rows(history);
  EXPECT_GT(rows[1].moved, 0.1);
  EXPECT_NEAR(rows[1].moved, distance(table.value(), before, 1), 1e-6);
  EXPECT_EQ(rows[1].learned, Learned::kYes);
  EXPECT_TRUE(std::isnan(rows[2].moved));
  EXPECT_EQ(rows[2].learned, Learned::kNo);
}

// A layer that names the rows of one of its tables.
struct Pairs : Layer {
  explicit Pairs(Random& random)
      : left(*this, "left", 6, 4, random),
        right(*this, "right", 5, 4, random),
        scale(*this, "scale", full({4, 4}, 1)) {}

  std::optional<RowNames> row_names(const Parameter& table) const override {
    if (&table != &left.weight) return {};
    return RowNames{.noun = "user", .names = names};
  }
  Variable product(Tape& tape, const Ids& ids) {
    const Variable x = matmul(left.forward(tape, ids), tape.parameter(scale));
    return sum(x * right.forward(tape, Ids{4, 4, 4}));
  }

  std::vector<std::string> names{"Ann", "Bob", "Cy", "Di", "Ed", "Fay"};
  Submodule<Embedding> left, right;
  Parameter scale;
};

TEST(RowHistory, CoversAllTablesThatAreLookedUp) {
  Random random(1);
  Pairs model(random);
  AdamW adamw(model.parameters(), {.learning_rate = 0.1, .weight_decay = 0.5});
  RowHistory rows(model);
  EXPECT_TRUE(rows.tables().empty());
  for (std::uint64_t step = 1; step <= 3; ++step) {
    adamw.zero_grad();
    Tape tape;
    tape.backward(model.product(tape, {1, 1, 3}));
    rows.after_backward(tape);
    rows.before_update(step, adamw);
    adamw.step();
    rows.after_update(step);
  }
  ASSERT_EQ(rows.tables().size(), 2U);
  const TableHistory &left = rows.tables()[0], &right = rows.tables()[1];
  EXPECT_EQ(&left.table(), &model.left.weight);
  EXPECT_EQ(left.noun(), "user");
  EXPECT_EQ(RowLabels(left, nullptr).of(3), "Di");
  EXPECT_EQ(left.ids(), (std::vector<std::int32_t>{1, 3}));
  EXPECT_EQ(left.row(0).lookups, 6U);
  EXPECT_TRUE(left.steps(0).front().text.empty());
  EXPECT_EQ(right.noun(), "row");
  EXPECT_EQ(right.ids(), std::vector<std::int32_t>{4});
  EXPECT_EQ(right.row(0).lookups, 9U);
  EXPECT_NEAR(left.kept_without_gradient().value(), std::pow(0.95, 3), 1e-6);
}

TEST(RowHistory, RejectsOtherModelsAndStepsWithoutBeforeUpdate) {
  Random random(1);
  Pairs model(random), other(random);
  SGD sgd(model.parameters());
  RowHistory rows(model);
  Tape both, alone;
  both.backward(model.product(both, {1, 1, 1}) + other.product(both, {2, 2, 2}));
  model.names.pop_back();
  EXPECT_INVALID("left.weight: got 5 row names, expected none or 6", rows.after_backward(both));
  model.names.clear();
  rows.after_backward(both);
  ASSERT_EQ(rows.tables().size(), 2U);
  EXPECT_EQ(&rows.tables()[0].table(), &model.left.weight);
  alone.backward(other.product(alone, {2, 2, 2}));
  EXPECT_INVALID(
      "RowHistory: the tape looked up left.weight, which is not a parameter of the model",
      rows.after_backward(alone));
  EXPECT_INVALID("RowHistory: left.weight is not a parameter of the model",
                 rows.of(other.left.weight));
  EXPECT_INVALID("RowMovement: left.weight is not a parameter of the model",
                 RowMovement(model, other.left.weight, 0));
  for (const std::int32_t row : {-1, 6})
    EXPECT_INVALID(concat("RowMovement: row ", row, " is out of range: left.weight has 6 rows"),
                   RowMovement(model, model.left.weight, row));
  Linear linear(2, 4, random);
  EXPECT_INVALID("RowMovement: bias has shape [4], expected a table [rows, width]",
                 RowMovement(linear, *linear.bias, 0));
  const std::string untold = "RowHistory: before_update(1, …) was not called before the step";
  EXPECT_ERROR(std::logic_error, untold, rows.after_update(1));
  rows.before_update(1, sgd);
  sgd.step();
  rows.after_update(1);
  EXPECT_EQ(rows.tables()[0].row(0).lookups, 3U);
  EXPECT_ERROR(std::logic_error, untold, rows.after_update(1));
}

TEST(Optimizers, ReturnTheDecayOfRowsWithoutAGradient) {
  Parameter table("table", irregular({6, 4}));
  const auto decay = [&](auto&& optimizer) { return optimizer.decay_without_gradient(table); };
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
  EXPECT_EQ(SGD(one).decay_without_gradient(other), std::nullopt);
}

}  // namespace
