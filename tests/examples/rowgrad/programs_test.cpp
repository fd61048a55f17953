// Tests the values that programs write, and their exit statuses. commands.txt tests their output.

#include <new>

#include "tests/support/process.hpp"
#include "tests/support/shell.hpp"
#include "tests/test.hpp"
#include <rowgrad/examples/rowgrad/session/program.hpp>

namespace {

class Programs : public ::testing::Test {
 protected:
  std::string output_of(const std::string& command) const {
    const Outcome outcome = folder_.shell(command);
    EXPECT_EQ(outcome.status, 0) << command << ":\n" << outcome.output;
    return outcome.output;
  }

  // Returns the JSON that a command writes with --json.
  json written(const std::string& command) const {
    output_of(command + " --json out");
    return json::parse(read_file(folder_ / "out"));
  }

  const CommandFolder folder_;
};

TEST_F(Programs, ExitIfMemoryRunsOut) {
  std::set<int> statuses;
  for (const int threads : {0, 1, 2, 8})  // 0: one per CPU
    for (int megabytes = 100; megabytes <= 500; megabytes += 40) {
      const std::string command =
          concat("ulimit -v ", megabytes, "000; OMP_NUM_THREADS=", threads,
                 " timeout 20 rowgrad train --stop-after 1 --sample-tokens 0");
      const Outcome outcome = shell(command);
      const bool refused = outcome.output.find("not enough memory") != std::string::npos;
      EXPECT_EQ(outcome.status, refused ? 1 : 0) << command << ": " << outcome.output;
      statuses.insert(outcome.status);
    }
  EXPECT_EQ(statuses, (std::set{0, 1}));
}

TEST_F(Programs, CountNgramsThatShareRows) {
  const json report = written(
      "rowgrad rows --corpus corpus --tokenizer char --context 8 --width 4 --ngrams 1,2 "
      "--ngram-rows 11 --ngram-heads 2 --ngram-width 2 --steps 3");
  const json& table = report["memories.0"];
  ASSERT_EQ(table["heads"].size(), 4U);
  EXPECT_EQ(table["uncounted"], 0);
  std::size_t first = 0;
  for (const json& head : table["heads"]) {
    const std::size_t rows = head["rows"];
    std::size_t touched = 0, sharing = 0, shared = 0, most = 0, lookups = 0;
    for (const json& row : table["gradients"]) {
      if (row["row"] < first || row["row"] >= first + rows) continue;
      const std::size_t ngrams = row["n-gram"].size();
      touched += 1;
      sharing += ngrams > 1 ? ngrams : 0;
      shared += ngrams > 1 ? 1 : 0;
      most = std::max(most, ngrams);
      std::size_t sum = 0;
      for (const json& ngram : row["n-gram"]) sum += ngram["looked_up"].get<std::size_t>();
      EXPECT_EQ(row["looked_up"], sum);
      lookups += sum;
    }
    EXPECT_EQ(head["rows_with_gradient"], touched);
    EXPECT_EQ(head["ngrams_sharing"], sharing);
    EXPECT_EQ(head["rows_shared"], shared);
    EXPECT_EQ(head["most_in_a_row"], most);
    EXPECT_GT(shared, 0U);
    EXPECT_EQ(lookups, 3U * 8 * 8);  // steps · windows · tokens
    first += rows;
  }
  EXPECT_EQ(table["heads"][0]["ngrams"], table["heads"][1]["ngrams"]);
  EXPECT_EQ(first, table["rows"]);
  ASSERT_EQ(report["gates"].size(), 1U);
  for (const json& gate : report["gates"][0]["values"]) {
    EXPECT_GT(gate, 0);
    EXPECT_LT(gate, 1);
  }
}

TEST_F(Programs, CompareRejectsADamagedHistory) {
  StateDict damaged;
  damaged.put("history.steps", std::vector<double>{1, 2});
  damaged.put("history.epoch", std::vector<double>{1, 2});
  damaged.put("history.training_loss", std::vector<double>{0.5});
  write_safetensors(folder_ / "damaged", damaged);
  EXPECT_HAS(folder_
                 .shell("rowgrad train --stop-after 1 --sample-tokens 0 --save a && rowgrad "
                        "compare a damaged")
                 .output,
             "damaged: the history has 2 steps, but training_loss has length 1");
}

TEST_F(Programs, GenerateWithoutTheCorpus) {
  const std::string gpt = "--model gpt --heads 1 --layers 1 ";
  const std::string memory = gpt + "--ngrams 2 --ngram-rows 20 --ngram-layers 0 ";
  struct Case {
    std::string options;
    bool loads;  // true if load_gpt() can read the checkpoint
  };
  for (const Case& each : std::vector<Case>{{"--hidden 4 ", false},
                                            {"--window 1 --tie-weights ", false},
                                            {gpt, true},
                                            {memory + "--ngram-fold --positions rotary ", true},
                                            {memory + "--ngram-file table ", false}}) {
    const json run = written(concat("rowgrad train ", each.options,
                                    "--corpus corpus --context 4 --width 4 --batch 4 ",
                                    "--stop-after 2 --prompt 'cat' --sample-tokens 9 --save ck"));
    const std::string sample = run["sample"].get<std::string>() + '\n';
    const std::string prompt = " --prompt 'cat' --sample-tokens 9";
    EXPECT_EQ(output_of("mv corpus away; rowgrad generate ck" + prompt + "; mv away corpus"),
              sample);
    if (!each.loads) continue;
    const SavedGpt saved = load_gpt(folder_ / "ck");  // as in a user's program
    save_gpt(folder_ / "gpt", *saved.model, *saved.tokenizer);
    EXPECT_EQ(output_of("rowgrad generate gpt" + prompt), sample);
  }
}

class ProgramsWithTexts : public PublishedData {};

TEST_F(ProgramsWithTexts, ReadGpt2sVocabulary) {
  const std::string command =
      concat("ROWGRAD_DATA=", file("").string(), " rowgrad rows --tokenizer gpt2");
  EXPECT_HAS(shell(command).output, "29 of 50257 rows got a gradient");
}

constexpr std::array<std::pair<int, const char*>, 3> kSignals{
    {{SIGINT, "Ctrl-C"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}}};

TEST(RunProgram, SecondHeldSignalEndsTheProgram) {
  const Handlers kept;
  for (const auto& [number, name] : kSignals) {
    const int signal = number;
    const auto held = [&](int signals) {
      const HeldInterrupts interrupts;
      for (int i = 0; i < signals; ++i) std::raise(signal);
      return interrupted() ? 0 : 1;
    };
    EXPECT_EXIT(run_program("some", [&] { return held(2); }),
                ::testing::ExitedWithCode(128 + signal), concat("^some: stopped by ", name, "\n$"));
    EXPECT_EQ(run_program("some", [&] { return held(1); }), 128 + signal);
    EXPECT_EQ(run_program("some", [&] { return held(0); }), 1);
    EXPECT_FALSE(interrupted());
  }
}

TEST(RunProgram, NohupDisablesSighup) {
  const Handlers kept;
  std::signal(SIGHUP, SIG_IGN);
  EXPECT_EQ(run_program("some", [] { return std::raise(SIGHUP); }), 0);
}

// Calls the handler as operator new does. It may be called where no exception is allowed, such as
// in a destructor of JSON.
TEST(RunProgram, ExitsIfMemoryRunsOut) {
  EXPECT_EXIT(run_program("some",
                          [] {
                            std::get_new_handler()();
                            return 0;
                          }),
              ::testing::ExitedWithCode(1), "^some: not enough memory; try smaller sizes");
}

}  // namespace
