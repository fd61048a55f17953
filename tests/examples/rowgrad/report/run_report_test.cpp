#include "tests/support/models.hpp"
#include "tests/support/process.hpp"
#include "tests/support/short_text.hpp"
#include "tests/test.hpp"
#include <rowgrad/core/base/json_lines.hpp>
#include <rowgrad/examples/rowgrad/report/report_data.hpp>
#include <rowgrad/examples/rowgrad/report/report_page.hpp>
#include <rowgrad/examples/rowgrad/report/run_analysis.hpp>

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

json data_of(const std::filesystem::path& log) {
  return json::parse(report_data(read_log(log)).dump());
}

// Trains a run and returns the data of its page.
json described(Session& training) {
  const TemporaryFolder folder;
  RunLog log(training.run(), folder / "run.log",
             {.about = R"({"program": "test"})", .tokenizer = &training.tokenizer()});
  training.run().train();
  EXPECT_EQ(log.first_error(), "");
  return data_of(folder / "run.log");
}

TEST(RunReport, WritesThePageOfALog) {
  if (kReportBefore.empty()) GTEST_SKIP() << "built without the chart library";
  const auto training = start(watched_run());
  TrainingRun& run = training->run();
  const TemporaryFolder folder;
  const CurrentFolder current(folder.path());
  // [watch]
  RunLog log(run, "run.log");
  run.train();
  // [watch]
  write_report(folder / "run.log", folder / "run.html", folder / "run.json");
  EXPECT_NE(read_file(folder / "run.html").find("</html>"), std::string::npos);
  EXPECT_EQ(json::parse(read_file(folder / "run.json")), data_of(folder / "run.log"));
}

TEST(RunReport, ShowsARun) {
  const auto training = start(watched_run());
  const json report = described(*training);
  const std::size_t steps = training->run().steps();
  EXPECT_EQ(report["format"], "rowgrad report 2");
  EXPECT_EQ(report["run"]["state"], "finished");
  EXPECT_FALSE(report.contains("text"));
  EXPECT_EQ(report["vocabulary"].size(), training->tokenizer().size());
  EXPECT_EQ(report["curves"]["step"].size(), steps);
  EXPECT_EQ(report["curves"]["step"].back(), steps);
  for (const char* curve : {"loss", "learning_rate", "speed", "rows"})
    EXPECT_EQ(report["curves"][curve].size(), steps) << curve;
  EXPECT_GE(report["curves"]["rows"][0].get<double>(), 1);  // rows with a gradient
  double sum = 0;
  for (std::size_t i = steps / 2; i < steps; ++i) sum += report["curves"]["loss"][i].get<double>();
  EXPECT_NEAR(sum / static_cast<double>(steps / 2), training->run().history()[1].training_loss,
              0.05);
  for (std::size_t i = 0; i < report["norms"]["norm"].size(); ++i) {
    const double norm = report["norms"]["norm"][i];
    const bool clips = report["norms"]["step"][i] > 3;  // steps count from 1 here
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

TEST(RunReport, RejectsOtherFilesAndDamagedLines) {
  const auto training = start(watched_run());
  const TemporaryFolder folder;
  const std::string path = folder / "run.log";
  {
    RunLog log(training->run(), path);
    training->run().train();
  }
  const std::string whole = read_file(path);
  const std::size_t first = whole.find('\n') + 1, last = whole.rfind('\n', whole.size() - 2) + 1;
  const auto data = [&](const std::string& text) {
    write_file(path, text);
    return data_of(path);
  };
  EXPECT_EQ(data(whole)["run"]["state"], "finished");
  EXPECT_EQ(data(whole.substr(0, last))["run"]["state"], "running");
  for (const std::size_t missing : {1, 9})
    EXPECT_EQ(data(whole.substr(0, whole.size() - missing)), data(whole.substr(0, last)));
  EXPECT_EQ(data(whole.substr(0, first))["curves"]["step"], json::array());
  std::string damaged = whole;
  damaged[first + 40] ^= 1;
  EXPECT_ERROR(std::runtime_error, path + ", line 2: damaged (wrong checksum)", data(damaged));
  for (const std::string& wrong :
       {std::string(), std::string("mine\n"), whole.substr(0, first - 2)})
    EXPECT_ERROR(std::runtime_error,
                 path + ": not the log of a run, expected a file that RunLog wrote", data(wrong));
  write_file(path, whole);
  JsonLines(path).append(R"({"event":"evaluation","step":1,"loss":2})");
  EXPECT_ERROR(std::runtime_error,
               concat(path, ", line ", std::ranges::count(whole, '\n') + 1,
                      ": the record has no member \"training_loss\""),
               data_of(path));
  EXPECT_ERROR_WITH(std::system_error, "Is a directory", data_of(folder.path()));
  EXPECT_ERROR(std::runtime_error, "cannot read nothing: the file does not exist",
               data_of("nothing"));
}

TEST(RunReport, SpacesCurvesEqually) {
  const TemporaryFolder folder;
  Random random(1);
  Bigram model(random);
  SGD optimizer(model.parameters());
  RunLog log(model, optimizer, folder / "run.log");
  for (int step = 1; step <= 3000; ++step) {
    log.before_update();
    log.after_step(step % 8);
  }
  log.at_end();
  const json curves = data_of(folder / "run.log")["curves"];
  ASSERT_EQ(curves["step"].size(), 1500U);
  for (const std::size_t i : {0, 1, 1400, 1498}) {
    EXPECT_EQ(curves["step"][i], 2 * i + 2);
    EXPECT_EQ(curves["loss"][i], (2 * i + 1) % 8 + 0.5);
  }
}

TEST(AttentionJson, HasTheWeightsOfEachHeadAndDoesNotChangeTheRun) {
  const auto training = start(gpt_with(2, 3)), alone = start(gpt_with(2, 3));
  training->run().train(2);
  const json attention =
      json::parse(attention_json(dynamic_cast<GptModel&>(training->model()), Ids{1, 2, 3}).dump());
  ASSERT_EQ(attention["weights"].size(), 3U);
  ASSERT_EQ(attention["weights"][0].size(), 2U);
  for (const json& query : attention["weights"][0][0]) {
    int sum = 0;
    for (const int weight : query) sum += weight;
    EXPECT_NEAR(sum, 1000, 2);
  }
  training->run().train();
  alone->run().train();
  EXPECT_TRUE(fingerprint(*training) == fingerprint(*alone));
}

TEST(RunReport, ShowsLabelsAndGatesOfMemories) {
  const auto training = start(gpt_with(2, 2,
                                       {.blocks = {1, 0},
                                        .ngrams = {.orders = {2}, .heads = 2, .rows = 400},
                                        .memory = {.head_width = 4}}));
  const json report = described(*training);
  const json text = json::parse(
      text_json(dynamic_cast<LanguageModel&>(training->model()), training->training_ids(), nullptr)
          .dump());
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

// A tokenizer may have fewer tokens than the model has rows, for example GPT-2 with 50,304 rows.
TEST(RunReport, ShowsTokensOfAnyModel) {
  const auto tokenizer = WordTokenizer::from_text("a dog and a cat");
  Random random(1);
  GptModel model({.vocabulary = 8, .context = 4, .width = 4, .heads = 1, .layers = 1}, random);
  const auto shown = [&](Layer& layer, const Tokenizer* names) {
    SGD sgd(layer.parameters(), {.learning_rate = 0.1});
    RowHistory rows(layer);
    const TemporaryFolder folder;
    RunLog report(layer, sgd, folder / "run.log", {.tokenizer = names, .rows = &rows});
    Tape tape;
    tape.backward(sum(model.token.forward(tape, Ids{1, 6})));
    rows.after_backward(tape);
    rows.before_update(1, sgd);
    report.before_update();
    sgd.step();
    rows.after_update(1);
    report.after_step(0);
    EXPECT_EQ(report.first_error(), "");
    return data_of(folder / "run.log");
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

TEST(RunReport, ShowsTheNgramRowsThatMovedFarthest) {
  const auto training = start(gpt_with(2, 1,
                                       {.blocks = {0},
                                        .ngrams = {.orders = {2, 3}, .heads = 2, .rows = 3000},
                                        .memory = {.head_width = 4}}));
  RowHistory history(training->model());
  training->run().add(history);
  const TemporaryFolder folder;
  RunLog log(training->run(), folder / "run.log", {.rows = &history});
  training->run().train();
  const TableHistory& all = history.tables().back();
  const json table = data_of(folder / "run.log")["tables"].back();
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
    const double here = farthest[last["rows"][i].get<std::size_t>()];
    EXPECT_NEAR(last["moved"][i].get<double>(), here, 5e-3 * here);  // rounded to three digits
    EXPECT_NEAR(moved[id], farthest[i], 1e-2 * farthest[i]);
    EXPECT_TRUE(table["labels"][i].get<std::string>().starts_with(concat(id, ": ")));
    EXPECT_EQ(table["reasons"]["rows"][i], i);
  }
}

TEST(TextJson, HasTheLossAndTheLikeliestTokensAtEachPosition) {
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
  // Two tight groups, far apart in one direction and spread a little in a second one.
  Tensor rows = zeros({6, 4});
  for (std::size_t i = 0; i < 6; ++i) {
    rows(i, 1) = i < 3 ? real{-4} : real{4};
    rows(i, 2) = static_cast<real>(i % 3) - 1;
    rows(i, 3) = 1;  // constant: has no variance
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

TEST(ReportPage, PacksItsDataSafely) {
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

// Padded answers and ratings are not a continuous text.
TEST(RunReport, ShowsARunWithoutText) {
  struct Tables : Model {
    explicit Tables(Random& random)
        : user(*this, "user", 5, 2, random), film(*this, "film", 4, 2, random) {}
    Variable loss(Tape& tape, const Batch& batch) override {
      return mean(user.forward(tape, batch.ids[0]) * film.forward(tape, batch.ids[1]));
    }
    std::optional<RowNames> row_names(const Parameter& table) const override {
      return RowNames{.noun = &table == &user.weight ? "user" : "film"};
    }
    Submodule<Embedding> user, film;
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
    const TemporaryFolder folder;
    RunLog log(run, folder / "run.log");
    run.train();
    EXPECT_EQ(log.first_error(), "");
    const json all = data_of(folder / "run.log");
    EXPECT_EQ(all["run"]["state"], "finished");
    EXPECT_EQ(all["curves"]["speed"].size(), run.steps());
    EXPECT_EQ(all["evaluations"].size(), 3U);
    for (const char* of_text : {"text", "baselines"}) EXPECT_FALSE(all.contains(of_text));
    return all;
  };
  const json of_gpt = shown(gpt, DataLoader(padded_windows(answers), {.batch = 1}));
  EXPECT_EQ(of_gpt["run"]["unit"], "tokens");
  const json of_tables = shown(tables, DataLoader(ratings, {.batch = 2}));
  EXPECT_EQ(of_tables["run"]["unit"], "examples");
  ASSERT_EQ(of_tables["tables"].size(), 2U);
  EXPECT_EQ(of_tables["tables"][0]["kind"], "user");
  EXPECT_FALSE(of_tables["tables"][0].contains("tokens"));
  EXPECT_EQ(of_gpt["tables"][0]["kind"], "token");
  EXPECT_EQ(of_gpt["tables"][0]["tokens"], true);
  EXPECT_EQ(of_tables["tables"][1]["kind"], "film");
  EXPECT_EQ(of_tables["tables"][0]["frames"].back()["lookups"], (json{3, 3, 3, 6}));
  for (const char* of_text : {"vocabulary", "embeddings", "attention"})
    EXPECT_FALSE(of_tables.contains(of_text)) << of_text;
}

}  // namespace
