#include "tests/support/models.hpp"
#include "tests/support/short_text.hpp"
#include "tests/test.hpp"
#include <rowgrad/examples/report/report_page.hpp>
#include <rowgrad/examples/report/run_analysis.hpp>
#include <rowgrad/examples/report/run_report.hpp>

namespace {

TrainOptions watched_run() {
  TrainOptions options = small_run();
  options.epochs = 2;
  options.clip = 0.5;
  options.clip_from = 3;
  options.gpt.dropout = 0;
  return options;
}

TrainOptions gpt_with(std::size_t heads, std::size_t layers, const GptMemories& memories = {}) {
  TrainOptions options = watched_run();
  options.model = "gpt";
  options.gpt.heads = heads;
  options.gpt.layers = layers;
  options.gpt.memories = memories;
  return options;
}

// Takes ids of two axes, as language_model.hpp promises them to a model of one's own.
struct OwnModel : Bigram {
  using Bigram::Bigram;

  Variable forward(Tape& tape, const Ids& ids) override {
    check_argument(ids.dimension() == 2, "OwnModel: ids have ", ids.dimension(), " axes");
    check_runtime(training() || !fails, "OwnModel: cannot be evaluated");
    return Bigram::forward(tape, ids);
  }

  bool fails = false;  // in evaluation
};

// A run of it, of four steps whose learning rates are 0.1, 0.2, 0.3 and 0.4.
struct OwnRun {
  Random random{1};
  OwnModel model{random};
  SGD optimizer{model.parameters(), {.learning_rate = 0.1}};
  LearningRateSchedule schedule{optimizer, Schedule::lambda([](std::uint64_t step) {
                                  return static_cast<double>(step + 1);
                                })};
  DataLoader loader{
      TokenWindows(to_ids(std::vector{1, 2, 3, 4, 5, 6, 5, 4, 1}), {.context = 4, .stride = 4}),
      {.batch = 1}};
  TrainingRun run{{.model = model,
                   .optimizer = optimizer,
                   .loader = loader,
                   .random = random,
                   .schedule = &schedule,
                   .steps = 4}};
};

// Options of a report whose data goes to `data`, and to no file.
RunReportOptions data_to(std::string& data) {
  return {.data = "data",
          .write = [&data](const std::string&, const std::string& contents) { data = contents; }};
}

json described(TextRun& training, bool at_end) {
  RunReport report(training.run, {.about = R"({"program": "test"})",
                                  .tokenizer = &training.tokenizer(),
                                  .samples = &training.samples,
                                  .prompt = to_ids(std::vector{1, 2, 3})});
  training.run.train();
  training.run.remove(report);
  return json::parse(report.data(at_end));
}

TEST(RunReport, WritesAPage) {
  if (kReportBefore.empty()) GTEST_SKIP() << "the chart library is not here";
  const auto training = start(watched_run());
  TrainingRun& run = training->run;
  const TemporaryFolder folder;
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  // [watch]
  RunReport report(run, {.page = "run.html"});
  run.train();
  // [watch]
  std::filesystem::current_path(here);
  EXPECT_NE(read_file(folder / "run.html").find("</html>"), std::string::npos);
}

TEST(RunReport, HasWhatARunDid) {
  const auto training = start(watched_run());
  const json report = described(*training, false);
  const std::size_t steps = training->run.steps();
  EXPECT_EQ(report["format"], "rowgrad report 1");
  EXPECT_EQ(report["run"]["state"], "running");
  EXPECT_FALSE(report.contains("text"));
  EXPECT_EQ(report["vocabulary"].size(), training->tokenizer().size());
  EXPECT_EQ(report["curves"]["step"].size(), steps);
  EXPECT_EQ(report["curves"]["step"].back(), steps);
  for (const char* curve : {"loss", "learning_rate", "speed", "rows"})
    EXPECT_EQ(report["curves"][curve].size(), steps) << curve;
  EXPECT_GE(report["curves"]["rows"][0].get<double>(), 1);  // that had a gradient
  double sum = 0;
  for (std::size_t i = steps / 2; i < steps; ++i) sum += report["curves"]["loss"][i].get<double>();
  EXPECT_NEAR(sum / static_cast<double>(steps / 2), training->run.history()[1].training_loss, 0.05);
  for (std::size_t i = 0; i < report["norms"]["norm"].size(); ++i) {
    const double norm = report["norms"]["norm"][i];
    const bool clips = report["norms"]["step"][i] > 3;  // the first step is 1 here
    EXPECT_EQ(report["norms"]["clipped"][i], clips ? std::min(0.5, norm) : norm);
  }
  EXPECT_EQ(report["evaluations"].size(), 2U);

  ASSERT_EQ(report["tables"].size(), 2U);
  const json& frame = report["tables"][0]["frames"].back();
  std::size_t lookups = 0;
  for (const std::size_t count : frame["lookups"]) lookups += count;
  const std::size_t windows = (training->training_ids().size() - 1 - 16) / 8 + 1;  // stride 8
  EXPECT_EQ(lookups, 2 * windows * 16);                                            // in two epochs
  const json& reasons = report["tables"][0]["reasons"];
  ASSERT_EQ(reasons["rows"].size(), frame["rows"].size());
  for (std::size_t i = 0; i < reasons["rows"].size(); ++i) {
    const json& farthest = reasons["steps"][i].at(0);
    EXPECT_EQ(farthest["text"][farthest["place"].get<std::size_t>()], reasons["rows"][i]);
    EXPECT_GT(farthest["moved"], 0);
    EXPECT_LE(farthest["moved"], 1.001 * reasons["path"][i].get<double>());
  }
  EXPECT_GT(report["run"]["report_seconds"], 0);
  EXPECT_LT(report["run"]["report_seconds"], report["run"]["seconds"]);
  EXPECT_EQ(report["tables"][1]["kind"], "position");
  EXPECT_EQ(report["tables"][1]["frames"].back()["rows"].size(), 16U);
}

// The model would read this text for longer than its run takes.
TEST(RunReport, ReadsLittleOfALongTextAfterAShortRun) {
  OwnRun own;
  std::vector<std::int32_t> ids(5000);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i % 7);
  const auto tokens_read = [&](std::size_t batch, std::size_t steps) {
    DataLoader loader(TokenWindows(to_ids(ids), {.context = 4, .stride = 4}), {.batch = batch});
    TrainingRun run({.model = own.model,
                     .optimizer = own.optimizer,
                     .loader = loader,
                     .random = own.random,
                     .steps = steps});
    RunReport report(run, {});
    run.train();
    const json text = json::parse(report.data(true))["text"];
    EXPECT_EQ(text["left_out"]["training"], ids.size() - text["ids"].size());
    return text["ids"].size();
  };
  EXPECT_EQ(tokens_read(1, 4), 1000U);
  EXPECT_EQ(tokens_read(100, 60), 1449U);  // it was trained on 23,192
  EXPECT_EQ(tokens_read(100, 220), 5000U);
}

TEST(RunReport, IsForgottenByItsRun) {
  OwnRun own;
  { RunReport report(own.run, {}); }
  EXPECT_TRUE(own.run.train());
}

TEST(RunReport, IsWrittenWhileTheRunGoesOn) {
  OwnRun own;
  std::vector<std::string> states;
  RunReport report(own.run, {.data = "data", .write = [&](const std::string&, const auto& data) {
                               states.push_back(json::parse(data)["run"]["state"]);
                             }});
  own.run.train();
  ASSERT_GE(states.size(), 2U);  // the first step has one, and later ones if they take long
  EXPECT_EQ(states.front(), "running");
  EXPECT_EQ(states.back(), "finished");
}

TEST(RunReport, ShowsAModelOfOnesOwnAndDoesNotEndARunThatItCannotShow) {
  static_assert(!std::is_copy_constructible_v<RunReport>);
  for (const std::string fault : {"", "OwnModel: cannot be evaluated", "no space"}) {
    OwnRun own;
    own.model.fails = fault.starts_with("OwnModel");
    std::string data;
    RunReportOptions options = data_to(data);
    if (fault == "no space") options.write = [](auto...) { throw std::runtime_error("no space"); };
    RunReport report(own.run, options);
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(own.run.train());
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.empty(), fault.empty());
    EXPECT_HAS(said, fault.empty() ? "" : concat("The report is not complete: ", fault));
    EXPECT_EQ(report.fault(), fault);
    if (fault == "no space") continue;
    const json shown = json::parse(data);
    EXPECT_EQ(shown["run"]["state"], "finished");
    EXPECT_EQ(shown["run"].contains("fault"), !fault.empty());
    EXPECT_EQ(shown["run"].value("fault", ""), fault);
    EXPECT_EQ(shown["curves"]["learning_rate"], (json{0.1, 0.2, 0.3, 0.4}));
    EXPECT_EQ(shown["tables"][0]["idle"]["rows"], json::array());  // without momentum and decay
    EXPECT_EQ(shown.contains("text"), fault.empty());
    if (fault.empty()) {
      EXPECT_EQ(shown["text"]["ids"].size(), 9U);
    }
  }
}

// In a loop of one's own: b for before_update(), s for the optimizer's step, z for zero_grad(), and
// after_step() at the end of each step.
TEST(RunReport, SaysThatALoopTellsItOfGradientsTooLate) {
  const std::string late = "before_update() was not called before step ";
  const std::map<std::string, std::string> loops{
      {"bs bs bs", ""},    {"bsz bsz", ""},       {"bs zb bs", ""},     {"sb sb", late + "1"},
      {"szb", late + "1"}, {"bs sb", late + "2"}, {"s bs", late + "1"}, {"bs s", late + "2"}};
  for (const auto& [loop, expected] : loops) {
    Random random(1);
    OwnModel model(random);
    SGD optimizer(model.parameters());
    std::string data;
    RunReport report(model, optimizer, data_to(data));
    ::testing::internal::CaptureStderr();
    std::istringstream steps(loop);
    for (std::string calls; steps >> calls;) {
      optimizer.zero_grad();
      Tape tape(random);
      tape.backward(model.loss(tape, Ids{{1, 2}}, Ids{{2, 3}}));
      report.after_backward(tape);
      for (const char call : calls)
        call == 'b'   ? report.before_update()
        : call == 's' ? optimizer.step()
                      : optimizer.zero_grad();
      report.after_step(1);
    }
    report.at_end();
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.empty(), expected.empty()) << loop;
    EXPECT_EQ(json::parse(data)["run"].value("fault", "").substr(0, late.size() + 1), expected)
        << loop;
  }
}

TEST(RunReport, HasTheMeansOfTheStepsOfALongRun) {
  Random random(1);
  OwnModel model(random);
  SGD optimizer(model.parameters());
  RunReport report(model, optimizer, {});
  for (int step = 1; step <= 4002; ++step) {
    report.before_update();
    report.after_step(step % 8);
  }
  const json curves = json::parse(report.data())["curves"];
  EXPECT_EQ(curves["step"].size(), 2001U);
  for (const std::size_t i : {0, 1, 2000}) {
    EXPECT_EQ(curves["step"][i], 2 * i + 2);
    EXPECT_EQ(curves["loss"][i], (2 * i + 1) % 8 + 0.5);
  }
}

TEST(RunReport, EndsWithWhatTheModelMakesOfTheTextAndChangesNothing) {
  const auto training = start(gpt_with(2, 3)), alone = start(gpt_with(2, 3));
  const json report = described(*training, true);
  EXPECT_EQ(report["run"]["state"], "finished");
  EXPECT_FALSE(report["text"].contains("gates"));
  ASSERT_EQ(report["attention"]["weights"].size(), 3U);
  ASSERT_EQ(report["attention"]["weights"][0].size(), 2U);
  for (const json& query : report["attention"]["weights"][0][0]) {
    int sum = 0;
    for (const int weight : query) sum += weight;
    EXPECT_NEAR(sum, 1000, 2);
  }
  alone->run.train();
  EXPECT_TRUE(fingerprint(*training) == fingerprint(*alone));
}

TEST(RunReport, NamesTheRowsOfMemoriesAndHasTheirGates) {
  const auto training = start(gpt_with(2, 2,
                                       {.blocks = {1, 0},
                                        .ngrams = {.orders = {2}, .heads = 2, .rows = 400},
                                        .memory = {.head_width = 4}}));
  const json report = described(*training, true);
  const json& text = report["text"];
  const Ids first = training->training_ids().slice(0, 16).ids();
  const std::vector<Tensor> gates = dynamic_cast<GptModel&>(training->model()).memory_gates(first);
  ASSERT_EQ(text["gates"].size(), 2U);
  for (std::size_t memory = 0; memory < 2; ++memory) {
    EXPECT_EQ(text["gates"][memory]["block"], memory);
    const json& values = text["gates"][memory]["values"];
    ASSERT_EQ(values.size(), text["ids"].size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool is_last = i + 1 == text["training"] || i + 1 == values.size();
      EXPECT_EQ(values[i].is_null(), is_last) << i;
      if (i < first.size()) {
        EXPECT_NEAR(values[i].get<double>(), 1000 * gates[memory].data()[i], 0.51);
      }
    }
  }
  std::size_t tables = 0;
  for (const json& table : report["tables"]) {
    if (table["kind"] != "n-gram") continue;
    ++tables;
    std::set<std::size_t> touched = table["frames"].back()["rows"];
    ASSERT_EQ(table["labels"].size(), table["rows"]);
    EXPECT_LT(touched.size(), table["rows"]);
    for (std::size_t row = 0; row < table["labels"].size(); ++row)
      EXPECT_EQ(table["labels"][row] != "", touched.contains(row)) << row;
  }
  EXPECT_EQ(tables, 2U);
}

// A tokenizer may have fewer tokens than the model has rows, as GPT-2's padded to 50,304.
TEST(RunReport, ShowsTokensWhateverReadsThem) {
  const auto tokenizer = WordTokenizer::from_text("a dog and a cat");
  Random random(1);
  GptModel model({.vocabulary = 8, .context = 4, .width = 4, .heads = 1, .layers = 1}, random);
  const auto shown = [&](Layer& layer, const Tokenizer* names) {
    SGD sgd(layer.parameters(), {.learning_rate = 0.1});
    RowHistory rows(layer);
    RunReport report(layer, sgd, {.tokenizer = names, .rows = &rows});
    Tape tape;
    tape.backward(sum(model.token.forward(tape, Ids{1, 6})));
    rows.after_backward(tape);
    rows.before_update(1, sgd);
    report.before_update();
    sgd.step();
    rows.after_update(1);
    report.after_step(0);
    EXPECT_EQ(report.fault(), "");
    return json::parse(report.data());
  };
  const json vocabulary{"a", "and", "cat", "dog", "<|endoftext|>", "<|unk|>", "6", "7"};
  for (const Tokenizer* names :
       {static_cast<const Tokenizer*>(&tokenizer), static_cast<const Tokenizer*>(nullptr)}) {
    const json of_model = shown(model, names);
    EXPECT_EQ(of_model["vocabulary"].size(), 8U);
    EXPECT_EQ(of_model.value("words", false), names != nullptr);
    EXPECT_EQ(of_model["loss_unit"], "nats");
    if (names != nullptr) {
      EXPECT_EQ(of_model["vocabulary"], vocabulary);
    }
  }
  TextClassifier classifier(model, 2, random);
  EXPECT_EQ(shown(classifier, &tokenizer)["vocabulary"], vocabulary);
}

// Of a memory's table with many of them.
TEST(RunReport, ShowsTheNgramRowsThatMovedFarthest) {
  const auto training = start(gpt_with(2, 1,
                                       {.blocks = {0},
                                        .ngrams = {.orders = {2, 3}, .heads = 2, .rows = 3000},
                                        .memory = {.head_width = 4}}));
  RowHistory history(training->model());
  training->run.add(history);
  RunReport report(training->run, {.rows = &history});
  training->run.train();
  const TableHistory& all = history.tables().back();
  const json table = json::parse(report.data())["tables"].back();
  ASSERT_GT(all.ids().size(), 2500U);
  std::map<std::int32_t, double> moved;
  const std::vector<double> distances = all.moved();
  for (std::size_t i = 0; i < distances.size(); ++i) moved[all.ids()[i]] = distances[i];
  std::vector<double> farthest = distances;
  std::ranges::sort(farthest, std::greater<>());

  EXPECT_HAS(table["name"].get<std::string>(), "weight: the 2000 that moved farthest of the ");
  EXPECT_EQ(table["rows"], 2000);
  ASSERT_EQ(table["labels"].size(), 2000U);
  const json& last = table["frames"].back();
  ASSERT_EQ(last["rows"].size(), 2000U);
  EXPECT_LE(table["frames"][0]["rows"].size(), 2000U);
  for (std::size_t i = 0; i < 2000; ++i) {
    const std::int32_t id = table["ids"][i];
    EXPECT_EQ(last["rows"][i], i);
    EXPECT_NEAR(last["moved"][i].get<double>(), farthest[i], 5e-3 * farthest[i]);  // three digits
    EXPECT_NEAR(moved[id], farthest[i], 1e-3 * farthest[i]);
    EXPECT_TRUE(table["labels"][i].get<std::string>().starts_with(concat(id, ": ")));
    EXPECT_EQ(table["reasons"]["rows"][i], i);
  }
}

TEST(TextJson, HasTheLossOfEachTokenAndTheLikeliestOnes) {
  Random random(1);
  NextTokenModel model({.vocabulary = 11, .context = 4, .width = 6}, random);
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 15; ++i) ids.push_back(i * 7 % 11);
  const TokenSequence all = to_ids(ids), rest = all.slice(9, 6);
  const json result = json::parse(text_json(model, all, nullptr).dump());
  ASSERT_EQ(result["loss"].size(), 15U);
  EXPECT_TRUE(result["loss"][0].is_null());
  double sum = 0;
  for (std::size_t i = 1; i < 13; ++i) sum += result["loss"][i].get<double>();
  DataLoader loader(TokenWindows(all.slice(0, 13), {.context = 4, .stride = 4}), {.batch = 1});
  EXPECT_NEAR(sum / 12, evaluate(model, loader)->loss, 0.01);
  for (std::size_t i = 1; i < 15; ++i) {
    const std::vector<std::int32_t> likeliest = result["expected"][i];
    const std::vector<double> shares = result["probability"][i];
    ASSERT_EQ(likeliest.size(), 5U);
    EXPECT_TRUE(std::is_sorted(shares.rbegin(), shares.rend()));
    for (std::size_t place = 0; place < 5; ++place)
      if (likeliest[place] == ids[i]) {
        EXPECT_NEAR(shares[place] / 1000, std::exp(-result["loss"][i].get<double>()), 0.005);
      }
  }
  const json both = json::parse(text_json(model, all.slice(0, 9), &rest, {}, 10).dump());
  EXPECT_EQ(both["loss"].size(), 10U);
  EXPECT_EQ(both["training"], 5U);
  EXPECT_EQ(both["ids"][5], ids[9]);
  EXPECT_TRUE(both["loss"][5].is_null());
  EXPECT_EQ(both["left_out"], (json{{"training", 4}, {"validation", 1}}));
  int asked = 0;
  const json cut = json::parse(text_json(model, all, nullptr, [&] { return asked++ < 1; }).dump());
  EXPECT_LT(cut["loss"].size(), 15U);
}

TEST(EmbeddingsJson, FindsNeighboursAndPrincipalComponents) {
  // Two tight groups, far from each other in one direction and a little in a second one.
  Tensor rows = zeros({6, 4});
  for (std::size_t i = 0; i < 6; ++i) {
    rows(i, 1) = i < 3 ? real{-4} : real{4};
    rows(i, 2) = static_cast<real>(i % 3) - 1;
    rows(i, 3) = 1;  // the same for all: not a direction of variance
  }
  const Parameter table("token.weight", rows);
  const json result = json::parse(embeddings_json(table, {0, 1, 2, 3, 4, 5}).dump());
  EXPECT_EQ(result["neighbours"][0].size(), 5U);
  EXPECT_LT(result["neighbours"][0][0], 3);
  EXPECT_GE(result["neighbours"][4][0], 3);
  EXPECT_NEAR(result["variance"][0], 96.0 / 100, 0.01);
  EXPECT_NEAR(result["variance"][1], 4.0 / 100, 0.01);
  EXPECT_NEAR(std::abs(result["x"][0].get<double>()), 4, 0.01);
  EXPECT_LT(result["x"][0].get<double>() * result["x"][5].get<double>(), 0);
  const Parameter diverged("token.weight", full({2, 3}, kNaN));
  EXPECT_EQ(json::parse(embeddings_json(diverged, {0, 1}).dump())["cosines"], (json{{0}, {0}}));
}

TEST(ReportPage, HasTheDataPackedAndCannotBeLeftByItsTexts) {
  if (kReportBefore.empty()) GTEST_SKIP() << "built without the chart library";
  const TemporaryFolder folder;
  const std::string file = (folder / "packed").string();
  for (const std::string& text :
       {std::string(), std::string("x"), std::string("xx"), std::string("xxx"),
        std::string(100'000, 'x'), std::string("</script><b>"), std::string("<!--")}) {
    const std::string data = concat("{\"text\": \"", text, "\"}");
    const std::string page = report_page(data);
    const std::string packed =
        page.substr(kReportBefore.size(), page.size() - kReportBefore.size() - kReportAfter.size());
    EXPECT_TRUE(std::ranges::all_of(packed, [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '+' || c == '/' || c == '=';
    })) << packed;
    write_file(file, packed);
    ASSERT_EQ(std::system(concat("base64 -d ", file, " | gunzip > ", file, ".json").c_str()), 0);
    EXPECT_EQ(read_file(file + ".json"), data);
  }
}

TEST(ShownBytes, KeepsUtf8AndShowsOtherBytes) {
  EXPECT_EQ(shown_bytes("a\xC3\xA9\xff z\xC3"), "a\xC3\xA9<0xFF> z<0xC3>");
}

// Neither has a text: its targets are its own, or its examples are no tokens.
TEST(RunReport, ShowsARunWithoutAText) {
  struct Tables : Model {
    explicit Tables(Random& random)
        : user(*this, "user", 5, 2, random), film(*this, "film", 4, 2, random) {}
    Variable loss(Tape& tape, const Batch& batch) override {
      return mean(user.forward(tape, batch.ids[0]) * film.forward(tape, batch.ids[1]));
    }
    std::optional<RowNames> row_names(const Parameter& table) const override {
      return RowNames{.noun = &table == &user.weight ? "user" : "film"};
    }
    Part<Embedding> user, film;
  };
  Random random(1);
  GptModel gpt({.vocabulary = 9, .context = 4, .width = 8, .heads = 2, .layers = 1}, random);
  Tables tables(random);
  const std::vector<TrainingExample> answers{answer_example({1, 2}, {3, 4}, 5)};
  const TensorDataset ratings({.ids = {Ids{0, 1, 2, 3, 3}, Ids{0, 1, 2, 3, 0}}});
  const auto shown = [&](Model& model, const DataLoader& data) {
    SGD sgd(model.parameters(), {.learning_rate = 0.1});
    DataLoader loader = data, validation = data;
    TrainingRun run({.model = model,
                     .optimizer = sgd,
                     .loader = loader,
                     .random = random,
                     .validation = &validation,
                     .epochs = 3});
    RunReport report(run, {});
    run.train();
    EXPECT_EQ(report.fault(), "");
    const json all = json::parse(report.data(true));
    EXPECT_EQ(all["run"]["state"], "finished");
    EXPECT_EQ(all["curves"]["speed"].size(), run.steps());
    EXPECT_EQ(all["evaluations"].size(), 3U);
    for (const char* of_text : {"text", "baselines"}) EXPECT_FALSE(all.contains(of_text));
    return all;
  };
  const json of_gpt = shown(gpt, DataLoader(padded_windows(answers), {.batch = 1}));
  EXPECT_EQ(of_gpt["run"]["unit"], "tokens");
  EXPECT_TRUE(of_gpt.contains("embeddings"));
  const json of_tables = shown(tables, DataLoader(ratings, {.batch = 2}));
  EXPECT_EQ(of_tables["run"]["unit"], "examples");
  ASSERT_EQ(of_tables["tables"].size(), 2U);
  EXPECT_EQ(of_tables["tables"][0]["kind"], "user");
  EXPECT_EQ(of_tables["tables"][1]["kind"], "film");
  EXPECT_EQ(of_tables["tables"][0]["frames"].back()["lookups"], (json{3, 3, 3, 6}));
  for (const char* of_text : {"vocabulary", "embeddings", "attention"})
    EXPECT_FALSE(of_tables.contains(of_text)) << of_text;
}

}  // namespace
