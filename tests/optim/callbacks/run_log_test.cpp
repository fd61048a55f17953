#include <sys/resource.h>

#include "tests/support/models.hpp"
#include "tests/support/process.hpp"
#include "tests/support/thread_ranks.hpp"
#include "tests/test.hpp"
#include <rowgrad/core/base/columns.hpp>

namespace {

using Path = std::filesystem::path;

// A run of 14 steps of a Bigram, two per epoch, with momentum and evaluations.
struct Logged {
  explicit Logged(const Path& path, std::size_t steps = 14, TrainingRanks* ranks = nullptr)
      : run({.model = model,
             .optimizer = optimizer,
             .loader = loader,
             .random = random,
             .slices = 2,
             .ranks = ranks,
             .steps = steps,
             .evaluation = {.every = 4, .accuracy = true, .training = &evaluated}}),
        log(run, path, {.about = R"({"program": "test"})"}) {}

  StateDict state() {
    StateDict all;
    all.put("run", run.state_dict());
    all.put("log", log.state_dict());
    return all;
  }
  void load(const StateDict& state) {
    run.load_state_dict(state.part("run"));
    log.load_state_dict(state.part("log"));
  }

  Random random{1};
  Bigram model{random};
  SGD optimizer{model.parameters(), {.learning_rate = 0.1, .momentum = 0.9}};
  DataLoader loader{windows(26), {.batch = 3, .shuffle = true, .seed = 5}};
  DataLoader evaluated{windows(26), {.batch = 3}};
  TrainingRun run;
  RunLog log;
};

// Returns the records of a log. All lines must be complete.
std::vector<json> records_of(const Path& path) {
  std::istringstream text(read_file(path));
  std::vector<json> records;
  for (std::string line; std::getline(text, line);) {
    EXPECT_TRUE(is_whole_line(line)) << line;
    records.push_back(json::parse(line));
  }
  return records;
}

// Returns the contents of a log that do not depend on time: the points of curves and norms,
// joined, and all other records.
json content_of(const Path& path) {
  json content{{"records", json::array()}};
  for (json record : records_of(path)) {
    for (const char* own : {"seconds", "log_seconds", "speed", "sum", "id"}) record.erase(own);
    if (record["event"] != "curves" && record["event"] != "norms") {
      content["records"].push_back(record);
      continue;
    }
    for (const auto& [name, numbers] : record.items())
      if (numbers.is_array())
        for (const json& number : numbers)
          content[record["event"].get<std::string>()][name].push_back(number);
  }
  return content;
}

TEST(RunLog, RecordsARun) {
  const TemporaryFolder folder;
  const Path path = folder / "run.log";
  Logged logged(path);
  EXPECT_TRUE(logged.run.train(5) == false);
  logged.log.add("note", {{"text", "half way"}});
  EXPECT_TRUE(logged.run.train());
  EXPECT_EQ(logged.log.first_error(), "");
  const std::vector<json> records = records_of(path);
  EXPECT_EQ(records[0]["event"], "run");
  EXPECT_EQ(records[0]["format"], "rowgrad log 1");
  EXPECT_EQ(records[0]["about"], json({{"program", "test"}}));
  EXPECT_EQ(records[0]["parameters"].size(), 3U);
  EXPECT_EQ(records[0]["tokens"], Bigram::kVocabulary);
  EXPECT_EQ(records.back()["event"], "end");
  EXPECT_EQ(records.back()["finished"], true);
  const json content = content_of(path);
  EXPECT_EQ(content["curves"]["steps"].size(), 14U);
  EXPECT_EQ(content["norms"]["steps"].size(), 14U);
  std::map<std::string, int> count;
  for (const json& record : records) ++count[record["event"]];
  EXPECT_EQ(count["table"], 1);
  EXPECT_EQ(count["rows"], 14 + 1);  // after each step of this short run, and at the end
  EXPECT_EQ(count["evaluation"], 7 + 4);
  EXPECT_EQ(count["note"], 1);
  const json& evaluation =
      *std::ranges::find(records, "evaluation", [](const json& record) { return record["event"]; });
  EXPECT_EQ(evaluation["training_accuracy"], logged.run.history()[0].training_accuracy.value());
  const json& rows = *std::find_if(records.rbegin(), records.rend(),
                                   [](const json& record) { return record["event"] == "rows"; });
  EXPECT_EQ(rows["table"], "token.weight");
  const std::vector<std::uint64_t> lookups = unpack_counts(rows["lookups"].get<std::string>());
  EXPECT_EQ(std::accumulate(lookups.begin(), lookups.end(), 0U), 14U / 2 * 5 * 5);
  const std::vector<double> moved = unpack_numbers(rows["moved"].get<std::string>());
  const TableHistory& history = logged.log.rows().tables()[0];
  EXPECT_EQ(moved.size(), history.ids().size());
  EXPECT_NEAR(std::ranges::max(moved), std::ranges::max(history.moved()), 0.01);
  ASSERT_EQ(rows["reasons"].size(), moved.size());
  const json& reason = rows["reasons"][0];  // the row that moved farthest comes first
  EXPECT_EQ(reason.size(), 2 + TableHistory::kMaxSteps);
  EXPECT_EQ(reason[2][5][reason[2][4].get<std::size_t>()], reason[0]);  // the text contains the row
}

TEST(RunLog, ReplacesOnlyLogs) {
  const TemporaryFolder folder;
  const Path path = folder / "run.log";
  for (const std::string text :
       {"mine\n", "\nmine\n", "\n", "mine", R"({"event":"run","step":1})"}) {
    write_file(path, text);
    EXPECT_ERROR_WITH(std::runtime_error, "not the log of a run", Logged logged(path));
    EXPECT_EQ(read_file(path), text);
  }
  write_file(path, "");
  { Logged(path, 3).run.train(); }
  const std::string before = read_file(path);
  write_file(path, before.substr(0, before.find("first_step")));  // killed in the first record
  { Logged(path, 3).run.train(); }
  EXPECT_EQ(records_of(path)[0]["event"], "run");
  write_file(path, before);
  {
    Logged logged(path, 2);
    EXPECT_EQ(read_file(path), before);  // unchanged before the first record
    EXPECT_ERROR_WITH(std::runtime_error, "is already open", Logged again(path));
    logged.run.train();
  }
  EXPECT_EQ(records_of(path).back()["step"], 2);
  EXPECT_ERROR_WITH(std::runtime_error, "cannot write", Logged logged(folder / "none" / "run.log"));
  EXPECT_ERROR_WITH(std::runtime_error, "RunLogOptions::about", Random random(1);
                    Bigram model(random); SGD sgd(model.parameters());
                    RunLog log(model, sgd, folder / "other", {.about = "no JSON"}));
}

// Each process is killed some steps after its checkpoint, while it writes a record.
TEST(RunLog, IsCompleteAfterARunWasKilledThreeTimes) {
  const TemporaryFolder folder;
  const Path whole = folder / "whole.log", path = folder / "run.log", left = folder / "left.log";
  { Logged(whole).run.train(); }
  StateDict state;
  for (const std::size_t stop : {3, 4, 9}) {
    Logged logged(path);
    if (!state.empty()) logged.load(state);
    EXPECT_EQ(logged.log.continues(), !state.empty());
    while (logged.run.steps() < stop) logged.run.step();
    state = logged.state();
    for (int more = 0; more < 3; ++more) logged.run.step();
    logged.log.state_dict();
    std::filesystem::copy_file(path, left, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(left, std::filesystem::file_size(left) - stop);
    std::filesystem::remove(path);
    ::testing::internal::CaptureStderr();  // the log reports that its file was removed
    logged.run.step();
    ::testing::internal::GetCapturedStderr();
    std::filesystem::rename(left, path);
  }
  {
    Logged logged(path);
    logged.load(state);
    logged.run.train();
  }
  EXPECT_EQ(content_of(path), content_of(whole));
  // Without the file, a new log starts and writes all rows.
  Logged logged(folder / "new.log");
  logged.load(state);
  EXPECT_FALSE(logged.log.continues());
  logged.run.train();
  const json content = content_of(folder / "new.log"), before = content_of(whole);
  EXPECT_EQ(content["curves"]["steps"].front(), 10);
  EXPECT_EQ(content["records"].back(), before["records"].back());
  EXPECT_EQ(content["records"][content["records"].size() - 2],
            before["records"][before["records"].size() - 2]);
}

TEST(RunLog, ContinuesOnlyIfTheFileHasAllRecordsOfTheCheckpoint) {
  const TemporaryFolder folder;
  const Path whole = folder / "whole.log", path = folder / "run.log";
  { Logged(whole).run.train(); }
  StateDict early, late;
  {
    Logged logged(path);
    logged.run.train(3);
    early = logged.state();
    while (logged.run.steps() < 7) logged.run.step();
    late = logged.state();
    for (int more = 0; more < 3; ++more) logged.run.step();
  }
  const std::string log = read_file(path);
  EXPECT_EQ(records_of(path).back()["step"], 10);
  const auto resume = [&](const StateDict& state, const std::string& file) {
    write_file(path, file);
    Logged logged(path);
    logged.load(state);
    logged.load(state);  // loading twice is allowed
    const bool continues = logged.log.continues();
    EXPECT_EQ(read_file(path), file);
    logged.run.train();
    return continues;
  };
  const std::uint64_t bytes = late.count("log.bytes");
  ASSERT_LT(bytes, std::min(log.size(), read_file(whole).size()));
  for (const std::uint64_t left : {log.size(), bytes + 9, bytes}) {
    EXPECT_TRUE(resume(late, log.substr(0, left)));
    EXPECT_TRUE(read_file(path).starts_with(log.substr(0, bytes)));
    EXPECT_EQ(content_of(path)["curves"], content_of(whole)["curves"]);
    EXPECT_EQ(content_of(path)["norms"], content_of(whole)["norms"]);
  }
  EXPECT_TRUE(resume(early, log));
  EXPECT_EQ(content_of(path)["curves"], content_of(whole)["curves"]);
  // A shorter log, and the log of another run.
  for (const std::string& other : {log.substr(0, bytes - 1), read_file(whole)}) {
    EXPECT_FALSE(resume(late, other));
    EXPECT_EQ(content_of(path)["curves"]["steps"].front(), 8);
  }
}

TEST(RunLog, IsWrittenByTheFirstRank) {
  const TemporaryFolder folder;
  { Logged(folder / "alone.log", 6).run.train(); }
  run_ranks(2, [&](ProcessGroup& group) {
    ParallelTraining ranks(group);
    Logged logged(folder / "run.log", 6, &ranks);
    logged.log.add("note", {{"rank", group.rank()}});
    logged.state();
    logged.run.train();
    EXPECT_EQ(logged.log.first_error(), "");
  });
  const std::vector<json> records = records_of(folder / "run.log");
  EXPECT_EQ(std::ranges::count(records, "note", [](const json& one) { return one["event"]; }), 1);
  EXPECT_EQ(content_of(folder / "run.log")["curves"], content_of(folder / "alone.log")["curves"]);
}

TEST(RunLog, RecordsTheEndOfAFailedRun) {
  const TemporaryFolder folder;
  {
    Logged logged(folder / "run.log");
    while (logged.run.steps() < 13) logged.run.step();
    Parameter& table = *logged.model.parameters()[0];
    table.assign(full(table.shape(), kNaN));
    EXPECT_THROW(logged.run.train(), std::runtime_error);
  }
  EXPECT_EQ(records_of(folder / "run.log").back()["event"], "end");
  EXPECT_EQ(records_of(folder / "run.log").back()["finished"], false);
  {
    Logged logged(folder / "run.log");
    while (logged.run.step()) continue;
  }
  EXPECT_EQ(records_of(folder / "run.log").back()["finished"], true);
}

TEST(RunLog, RejectsInvalidRecords) {
  const TemporaryFolder folder;
  Logged logged(folder / "run.log");
  EXPECT_INVALID("RunLog::add: the data of \"note\" are not a JSON object, expected one",
                 logged.log.add("note", Json()));
  EXPECT_INVALID("RunLog::add: the data of \"note\" are not a JSON object, expected one",
                 logged.log.add("note", Json::array()));
  EXPECT_INVALID("RunLog::add: the event \"rows\" is reserved for the log, expected another event",
                 logged.log.add("rows", {{"text", "x"}}));
  EXPECT_INVALID(
      "RunLog::add: the data of \"note\" have the member \"sum\", which is reserved for the log",
      logged.log.add("note", {{"sum", 1}}));
  EXPECT_EQ(read_file(folder / "run.log"), "");
}

TEST(RunLog, RejectsInvalidStates) {
  const TemporaryFolder folder;
  Logged logged(folder / "run.log");
  logged.run.step();
  StateDict state = logged.log.state_dict();
  EXPECT_THROW(logged.log.load_state_dict(state), std::logic_error);  // after the first step
  Logged other(folder / "other.log");
  EXPECT_THROW(other.log.load_state_dict(StateDict()), std::invalid_argument);
  EXPECT_INVALID(
      "RunLog: the state is from step 1, but the run is at step 0; load the state of the run "
      "first",
      other.log.load_state_dict(state));
  state.erase("summed");
  state.put("summed", 9);
  EXPECT_INVALID("RunLog: the state has 9 steps since the last point, expected fewer than 1",
                 other.log.load_state_dict(state));
}

TEST(RunLog, ErrorsDoNotEndTheRun) {
  const TemporaryFolder folder;
  const Path path = folder / "run.log";
  const auto faults = [&](const auto& damage, const auto& repair) {
    Logged logged(path);
    logged.run.step();
    damage();
    ::testing::internal::CaptureStderr();
    logged.run.train(7);
    repair();
    EXPECT_TRUE(logged.run.train());
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_HAS(said, "The log of the run is incomplete: " + logged.log.first_error() + '\n');
    EXPECT_EQ(std::ranges::count(said, '\n'), 2);  // a single message
    return logged.log.first_error();
  };
  EXPECT_HAS(faults([&] { std::filesystem::remove(path); }, [] {}), "run.log: was removed");
  // The file cannot grow for a while. Afterwards, the log notes the error.
  std::optional<ResourceLimit> limit;
  EXPECT_HAS(faults([&] { limit.emplace(RLIMIT_FSIZE, std::filesystem::file_size(path) + 10); },
                    [&] { limit.reset(); }),
             "cannot write");
  const std::vector<json> records = records_of(path);
  EXPECT_EQ(std::ranges::count(records, "fault", [](const json& one) { return one["event"]; }), 1);
  EXPECT_EQ(records.back()["finished"], true);
  EXPECT_EQ(content_of(path)["curves"]["steps"].size(), 14U);  // points are written later
}

// Calls in a loop without a TrainingRun: b is before_update(), s the optimizer's step, z
// zero_grad(). after_step() ends each step.
TEST(RunLog, ReportsALateBeforeUpdate) {
  const std::string late = "RunLog: before_update() was not called before step ";
  const std::map<std::string, std::string> loops{
      {"bs bs bs", ""},    {"bsz bsz", ""},       {"bs zb bs", ""},     {"sb sb", late + "1"},
      {"szb", late + "1"}, {"bs sb", late + "2"}, {"s bs", late + "1"}, {"bs s", late + "2"}};
  const TemporaryFolder folder;
  for (const auto& [loop, expected] : loops) {
    Random random(1);
    Bigram model(random);
    SGD optimizer(model.parameters());
    RunLog log(model, optimizer, folder / "run.log");
    ::testing::internal::CaptureStderr();
    std::istringstream steps(loop);
    for (std::string calls; steps >> calls;) {
      optimizer.zero_grad();
      Tape tape(random);
      tape.backward(model.loss(tape, Ids{{1, 2}}, Ids{{2, 3}}));
      log.after_backward(tape);
      for (const char call : calls)
        call == 'b' ? log.before_update() : call == 's' ? optimizer.step() : optimizer.zero_grad();
      log.after_step(1);
    }
    log.at_end();
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.empty(), expected.empty()) << loop;
    EXPECT_EQ(log.first_error().substr(0, late.size() + 1), expected) << loop;
  }
}

TEST(RunLog, AveragesTheStepsOfALongRun) {
  const TemporaryFolder folder;
  Random random(1);
  Bigram model(random);
  SGD optimizer(model.parameters());
  RunLog log(model, optimizer, folder / "run.log");
  for (int step = 1; step <= 2048 + 2 * 2048 + 6; ++step) {
    log.before_update();
    log.after_step(step % 8);
  }
  log.state_dict();
  log.before_update();
  EXPECT_THROW(log.state_dict(), std::logic_error);  // called during a step
  const json curves = content_of(folder / "run.log")["curves"];
  EXPECT_EQ(content_of(folder / "run.log")["norms"]["steps"].size(), 1U + 399 + 108);
  ASSERT_EQ(curves["steps"].size(), 2048U + 2048 + 1);
  EXPECT_EQ(curves["steps"][2048], 2050);
  EXPECT_EQ(curves["loss"][2048], 1.5);  // mean of steps 2049 and 2050
  EXPECT_EQ(curves["steps"].back(), 6148);
  EXPECT_EQ(curves["loss"].back(), 2.5);
}

// During a run, a record has all new rows of a large table, but not all changed rows.
TEST(RunLog, WritesNewRowsAndSomeOthersOfALargeTable) {
  const TemporaryFolder folder;
  struct LargeTable : Layer {
    explicit LargeTable(Random& random) : rows(*this, "rows", 5000, 2, random) {}
    Submodule<Embedding> rows;
  };
  Random random(1);
  LargeTable model(random);
  SGD optimizer(model.parameters(), {.learning_rate = 1});
  RunLog log(model, optimizer, folder / "run.log");
  Ids all = Ids::from_shape({3000});
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i + 7);
  for (const Ids& ids : {all, Ids{4000, 9}, all}) {
    optimizer.zero_grad();
    Tape tape;
    const Variable rows = model.rows.forward(tape, ids);
    tape.backward(sum(rows * rows));
    log.after_backward(tape);
    log.before_update();
    optimizer.step();
    log.after_step(1);
  }
  log.at_end();
  std::vector<std::vector<std::uint64_t>> written;
  for (const json& record : records_of(folder / "run.log"))
    if (record["event"] == "rows") {
      std::vector<std::uint64_t> ids = unpack_counts(record["rows"].get<std::string>());
      std::partial_sum(ids.begin(), ids.end(), ids.begin());
      written.push_back(ids);
      EXPECT_LE(record["reasons"].size(), written.size() < 4 ? 100U : 2000U);
    }
  ASSERT_EQ(written.size(), 4U);
  EXPECT_EQ(written[0].size(), 3000U);  // all rows are new
  EXPECT_EQ(written[1], (std::vector<std::uint64_t>{9, 4000}));
  EXPECT_EQ(written[2].size(), 2000U);
  EXPECT_EQ(written[3].size(), 3001U);
}

}  // namespace
