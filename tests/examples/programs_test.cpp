// The programs themselves, run as a user runs them.

#include <cstdio>
#include <new>
#include <regex>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/shell.hpp"
#include "tests/test.hpp"
#include <rowgrad/examples/support/book_log.hpp>
#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/program.hpp>

namespace {

constexpr const char* kText =
    "a dog and a cat sat on the mat, and the cat and the dog looked at the man on the mat. ";

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(Programs, RefuseNumbersThatAreNone) {
  expect_refused("train --seed -1", "--seed: got \"-1\", expected a whole number from 0");
  expect_refused("train --seed 99999999999999999999999", "--seed: got \"9999");
  expect_refused("train --sample -1", "--sample: got \"-1");
  expect_refused("train --stop-after 1.5", "--stop-after: got \"1.5");
  expect_refused("train --shuffle=3", "--shuffle: got \"3\", expected one of {true,false}");
  expect_refused("train --tokenizer foo", "--tokenizer: got \"foo\", expected one of {");
  expect_refused("train --hidden 0,5", "a layer has width 0");
  expect_refused("train --hidden=-5", "--hidden: got \"-5");
  expect_refused("train --threads 1025", "--threads: got \"1025");
  expect_refused("inspect_rows --seed -1", "--seed: got \"-1");
  expect_refused("inspect_rows --vocabulary 300", "--vocabulary is for --tokenizer bpe");
  expect_refused("train --epochs 010", "--epochs: got \"010\", expected a whole number");
  expect_refused("tokenize --output a.bin", "--output requires FILE");
  expect_refused("tokenize --lower </dev/null", "--lower is for --tokenizer word");
  expect_refused("train --corpus none.bin", "cannot read none.bin");
  expect_refused("train --save ''", "--save: got an empty text, expected the name of a file");
}

TEST(Programs, SayThatThereIsTooLittleMemory) {
  expect_refused("inspect_rows --width 1000000000", " GB, but the machine has ");
  expect_refused("ulimit -v 2000000; exec train --threads 1000 --stop-after 1",
                 "not enough memory for 1000 threads");
  // Many small pieces, which the machine would grant until it has no more.
  for (const std::string options :
       {"train --model gpt --layers 1000000000", "train --model gpt --width 4000000",
        "train --width 1000000 --hidden 1000000"}) {
    expect_refused("ulimit -v 3000000; exec " + options, " GB, but the machine has ");
  }
  // A matrix of 0.7 of the memory, with what the optimizer keeps for each of its numbers.
  const double bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  const auto side = static_cast<std::uint64_t>(std::sqrt(0.7 * bytes / sizeof(real)));
  const std::string matrix = concat("ulimit -v 3000000; exec train --hidden ", side, ',', side);
  for (const std::string optimizer : {"sgd --momentum 0.9", "adagrad", "rmsprop", "adam", "adamw"})
    expect_refused(concat(matrix, " --optimizer ", optimizer), " GB, but the machine has ");
  expect_refused(matrix, "there is not enough memory");
}

TEST(Programs, EndWhereMemoryRunsOut) {
  std::set<int> statuses;
  for (const int threads : {1, 2, 8})
    for (int megabytes = 100; megabytes <= 500; megabytes += 40) {
      const std::string command = concat("ulimit -v ", megabytes, "000; OMP_NUM_THREADS=", threads,
                                         " timeout 20 train --stop-after 1 --sample 0");
      const Outcome outcome = shell(command);
      const bool refused = outcome.output.find("there is not enough memory") != std::string::npos;
      EXPECT_EQ(outcome.status, refused ? 1 : 0) << command << ": " << outcome.output;
      statuses.insert(outcome.status);
    }
  EXPECT_EQ(statuses, (std::set{0, 1}));
}

TEST(Programs, FailWhenTheirOutputIsLost) {
  for (const std::string command : {"inspect_rows", "tokenize --tokenizer char </dev/null",
                                    "train --stop-after 1 --sample 0", "train --help"})
    for (const std::string lost : {" >/dev/full", " >&-"})
      expect_refused(command + lost, "cannot write to standard output");
}

TEST(Programs, OfTheReadmesRun) {
  const std::string story = ROWGRAD_TEST_DATA "/../../examples/data/the-slow-clock.txt";
  for (const std::string command : {"first_step", "custom_layer", "own_model"}) {
    const Outcome run = shell(command == "own_model" ? command + " " + story : command);
    EXPECT_EQ(run.status, 0) << run.output;
  }
  expect_refused("own_model", "usage: own_model examples/data/the-slow-clock.txt");
}

// The table of tests/bench/README.md; what rowgrad's row differs by is rounding.
TEST(Programs, ShowHowFarOthersAreFromDenseAdam) {
  constexpr double kExpected[][3]{
      {11.4, 55.4, 0.2}, {23.2, 52.8, 1.1}, {38.6, 48.9, 3.6}, {62.9, 44.6, 10.7}};
  const Outcome run = shell("exact_rows");
  ASSERT_EQ(run.status, 0) << run.output;
  std::istringstream words(run.output.substr(run.output.find("HugeCTR\n") + 8));
  std::vector<double> shares;
  for (std::string word; words >> word;)
    if (std::isdigit(word[0]) != 0) shares.push_back(std::stod(word));
  ASSERT_EQ(shares.size(), 20U) << run.output;
  for (std::size_t line = 0; line < 4; ++line) {
    EXPECT_LT(shares[5 * line + 1], 1e-3);
    for (std::size_t other = 0; other < 3; ++other)
      EXPECT_NEAR(shares[5 * line + 2 + other], kExpected[line][other], 0.11) << run.output;
  }
}

class ProgramsAndFiles : public ::testing::Test {
 protected:
  ProgramsAndFiles() {
    write_file(folder_ / "corpus", repeated(kText, 40));
    std::filesystem::create_hard_link(folder_ / "corpus", folder_ / "hard");
    std::filesystem::create_symlink("corpus", folder_ / "soft");
    std::filesystem::create_symlink("new", folder_ / "dangling");
  }

  // In the folder, with the shortest possible training.
  std::string in_folder(const std::string& command) const {
    return concat("cd ", folder_.path().string(), "; train='train --context 4 --width 4 ",
                  "--hidden 4 --batch 4 --stop-after 2 --sample 0 --corpus corpus'; ", command);
  }

  TemporaryFolder folder_;
};

TEST_F(ProgramsAndFiles, ShowWhichDistancesGetGradients) {
  const auto shown = [&](const std::string& options) {
    return shell(in_folder("inspect_rows --corpus corpus --width 4 --batch 2 " + options)).output;
  };
  for (const std::string line :
       {"\nt5 table: 31 of 32 rows got a gradient (96.9 %), 1 were never touched: 31\n",
        "  99 to 112\n", "\nRows without a gradient that changed: 0\n"})
    EXPECT_HAS(shown("--positions t5 --context 112"), line) << line;
  EXPECT_HAS(shown("--positions t5 --context 114"), "t5 table: 32 of 32");
  for (const std::string table : {"keys", "values"})
    EXPECT_HAS(shown("--positions shaw"), concat("\nshaw_", table,
                                                 " table: 4 of 33 rows got a "
                                                 "gradient (12.1 %), 29 were never touched: "
                                                 "0 to 12, 17 to 32\n"));
}

TEST_F(ProgramsAndFiles, ShowWhichNgramsShareRows) {
  const std::string run = "inspect_rows --corpus corpus --tokenizer char --context 8 --width 4 ";
  const Outcome outcome =
      shell(in_folder(run + "--ngrams 1,2 --ngram-rows 11 --ngram-heads 2 --ngram-width 2 --steps "
                            "3 --json json --csv csv"));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_HAS(outcome.output, "\nmemories.0 table: ");
  EXPECT_HAS(outcome.output, "\nGate in front of block 0: ");
  const std::string why =
      "train --model gpt --corpus corpus --context 8 --width 4 --heads 1 --layers 1 "
      "--sample 0 --steps 4 --ngrams 2 --ngram-rows 2 --ngram-heads 1 "
      "--ngram-layers 0 --save memory >/dev/null && inspect_rows --corpus "
      "corpus --run memory --table memories.0.table.weight --why 0";
  EXPECT_HAS(shell(in_folder(why)).output, "and windows that looked it up:\n");
  EXPECT_HAS(outcome.output, "\nRows without a gradient that changed: 0\n");
  EXPECT_TRUE(read_file(folder_ / "csv").starts_with("table,row,kind,label,looked_up,"));
  const json report = json::parse(read_file(folder_ / "json"));
  const json& table = report["memories.0"];
  ASSERT_EQ(table["heads"].size(), 4U);
  EXPECT_EQ(table["not_told_apart"], 0);
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
    EXPECT_EQ(lookups, 3U * 8 * 8);  // of all steps, windows and tokens
    first += rows;
  }
  EXPECT_EQ(table["heads"][0]["ngrams"], table["heads"][1]["ngrams"]);
  EXPECT_EQ(first, table["rows"]);
  ASSERT_EQ(report["gates"].size(), 1U);
  for (const json& gate : report["gates"][0]["values"]) {
    EXPECT_GT(gate, 0);
    EXPECT_LT(gate, 1);
  }
  for (const auto& [options, message] : std::map<std::string, std::string>{
           {"--ngrams 9", "--ngrams 9 is longer than --context 8"},
           {"--ngrams 2 --ngram-layers 1",
            "--ngram-layers 1: expected some of the 1 of --layers, counted from 0, each once"},
           {"--ngram-rows 5", "--ngram-rows is for --ngrams, which is not given"},
           {"--layers 2", "--layers is for --ngrams, which is not given"},
           {"--ngrams 2 --ngram-rows 999999999",
            "--ngram-rows 999999999 for each of 1 times 4 heads are more rows than ids, "}})
    expect_refused(in_folder(run + options), message);
}

TEST_F(ProgramsAndFiles, NameTheColumnsOfATableOfRows) {
  const auto csv = [&](const std::string& positions) {
    const Outcome outcome = shell(in_folder(
        "inspect_rows --corpus corpus --width 4 --rows 0 --csv csv --positions " + positions));
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return read_file(folder_ / "csv");
  };
  const std::string learned = csv("learned");
  EXPECT_TRUE(
      learned.starts_with("table,row,kind,label,looked_up,steps,gradient_norm,norm,moved,learned\n"
                          "token,0,token,\"','\","))
      << learned;
  EXPECT_HAS(learned, "\nposition,3,position,\"3\",1,1,");
  const std::string t5 = csv("t5 --context 20");
  EXPECT_HAS(t5, "\nt5,16,distance,\"16 to 18\",3,1,");
}

TEST_F(ProgramsAndFiles, ListTheRowsThatNeverLearned) {
  for (const bool tied : {false, true}) {
    const Outcome outcome =
        shell(in_folder(concat("$train --row-list rows.tsv", tied ? " --tie" : "")));
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    std::istringstream list(read_file(folder_ / "rows.tsv"));
    std::string line;
    std::getline(list, line);
    EXPECT_EQ(line, "id\ttoken\tlookups\tsteps\tgradient_norm\tnorm\tmoved\tlearned");
    std::size_t rows = 0, never = 0;
    for (; std::getline(list, line); ++rows)
      if (line.ends_with("\tno")) ++never;
    EXPECT_HAS(outcome.output, concat("Rows in    rows.tsv: of ", rows, " tokens, ", never,
                                      " were never looked up"));
    EXPECT_GT(never, 0U);
    EXPECT_LT(never, rows);
  }
}

TEST_F(ProgramsAndFiles, TwoRunsAreComparedByLossesParametersAndRows) {
  const std::string gpt =
      "train --model gpt --corpus corpus --layers 1 --heads 1 --width 4 --context 4 --batch 4 "
      "--sample 0 "
      "--steps 6 --evaluate-every 2 ";
  const auto compared = [&](const std::string& commands) {
    return shell(in_folder(commands + ">/dev/null && compare_runs --most 100 a b")).output;
  };
  const std::string equal = compared(gpt + "--save a >/dev/null && " + gpt + "--save b");
  EXPECT_NE(equal.find("Losses are equal up to step 5\nThe runs are equal.\n"), equal.npos)
      << equal;
  const std::string differ = compared(gpt + "--learning-rate 0.01 --warmup 3 --save b");
  EXPECT_NE(differ.find("Losses differ first after step "), differ.npos) << differ;
  EXPECT_NE(differ.find("model.token.weight: first in row 0 "), differ.npos) << differ;
  EXPECT_NE(differ.find("\nThe runs differ.\n"), differ.npos) << differ;
  EXPECT_EQ(shell(in_folder("compare_runs a a >/dev/null")).status, 0);
  EXPECT_EQ(shell(in_folder("compare_runs a b >/dev/null")).status, 1);
  EXPECT_EQ(shell(in_folder("compare_runs a none")).status, 2);
  expect_refused(in_folder("compare_runs a corpus"), "corpus");
  Checkpoint damaged;
  damaged.put("history.steps", std::vector<double>{1, 2});
  damaged.put("history.epoch", std::vector<double>{1, 2});
  damaged.put("history.training_loss", std::vector<double>{0.5});
  write_safetensors(folder_ / "damaged", damaged);
  expect_refused(in_folder("compare_runs a damaged"),
                 "damaged: the history has 2 steps, but 1 of training_loss");
}

TEST_F(ProgramsAndFiles, ARowIsToldWhyItMovedByTrainingAgain) {
  const std::string run =
      "train --corpus corpus --context 4 --width 4 --hidden 4 --batch 4 --sample 0 "
      "--momentum 0.9 --learning-rate 0.1 ";
  ASSERT_EQ(shell(in_folder(run + "--stop-after 12 --save late >/dev/null")).status, 0);
  ASSERT_EQ(shell(in_folder(run + "--stop-after 5 --save early >/dev/null")).status, 0);
  const auto why = [&](const std::string& options) {
    return shell(in_folder("inspect_rows --corpus corpus --run late --why " + options)).output;
  };
  for (const std::string options : {"3", "3 --from early", "2 --table position.weight"}) {
    const std::string told = why(options);
    EXPECT_NE(told.find("it ends at the same values, bit for bit"), told.npos) << told;
    EXPECT_NE(told.find("  looked up  gradient norm"), told.npos) << told;
  }
  EXPECT_HAS(why("3"), "in steps 1 to 12\n");
  EXPECT_HAS(why("3 --from early"), "in steps 6 to 12\n");
  expect_refused(in_folder("inspect_rows --corpus corpus --run late --why 3 --steps 2"),
                 " excludes --");
  expect_refused(in_folder("inspect_rows --corpus corpus --run late --why 999"), "row 999");
  expect_refused(in_folder("inspect_rows --corpus corpus --run late --why 1 --table other"),
                 "no table \"other\"");
  expect_refused(in_folder("inspect_rows --corpus corpus --run early --why 1 --from late"),
                 "--from: is at step 12, and --run at step 5");
  // Another rate from step 5 on, which a run from the start does not know.
  EXPECT_HAS(shell(in_folder("train --corpus corpus --resume early --learning-rate 0.2 "
                             "--epochs 20 --stop-after 8 --sample 0 --save changed"))
                 .output,
             "Going on from early, step 5, as if never stopped but for --epochs 20 instead of 15, "
             "--learning-rate 0.2 instead of 0.1\n");
  const std::string changed = "inspect_rows --corpus corpus --run changed --why 3";
  expect_refused(in_folder(changed), "ends at other values of row ");
  EXPECT_HAS(shell(in_folder(changed + " --from early")).output, "bit for bit");
  // A run that was to end at step 5, and went on to step 8.
  ASSERT_EQ(shell(in_folder(run + "--steps 5 --save short >/dev/null")).status, 0);
  ASSERT_EQ(shell(in_folder("train --corpus corpus --resume short --steps 8 --sample 0 "
                            "--save long >/dev/null"))
                .status,
            0);
  EXPECT_HAS(
      shell(in_folder("inspect_rows --corpus corpus --run long --why 3 --from short")).output,
      "in steps 6 to 8\n");
}

TEST_F(ProgramsAndFiles, ARunIsListedByTrainingAgain) {
  const std::string run =
      "train --corpus corpus --context 4 --width 4 --hidden 4 --batch 4 --sample 0 --stop-after ";
  for (const std::string stop : {"12 --save late", "5 --save early"})
    ASSERT_EQ(shell(in_folder(run + stop)).status, 0);
  const std::string list = "inspect_rows --corpus corpus --run late ";
  const std::string shown = shell(in_folder(list + "--json json --csv csv --rows 3")).output;
  EXPECT_HAS(
      shown,
      "\nSteps      1 to 12 of late; trained again, it ends at the same values, bit for bit\n");
  EXPECT_HAS(shown, "\ntoken table: ");
  EXPECT_HAS(shown, "\nJSON in    json\nRows in    csv\n");
  EXPECT_HAS(shown, "\nposition table: 4 of 4 rows got a gradient");
  std::size_t lookups = 0;
  const json told = json::parse(read_file(folder_ / "json"));
  for (const json& row : told["token"]["gradients"]) lookups += row["looked_up"].get<std::size_t>();
  EXPECT_EQ(lookups, 12U * 4 * 4);  // of all steps, windows and tokens
  EXPECT_HAS(read_file(folder_ / "csv"), "\nposition,3,position,\"3\",12,12,");
  EXPECT_HAS(shell(in_folder(list + "--from early")).output, "\nSteps      6 to 12 of late;");
  expect_refused(in_folder(list + "--context 4"), " excludes --");
  expect_refused(in_folder(list + "--why 1 --rows 3"), " excludes --");
  expect_refused(in_folder(list + "--json late"), "is written here and also read");
}

TEST_F(ProgramsAndFiles, ARowIsNamedByItsToken) {
  const std::string gpt =
      "train --model gpt --corpus corpus --context 8 --width 4 --heads 1 --layers 1 --sample 0 "
      "--stop-after 30 --save run >/dev/null";
  ASSERT_EQ(shell(in_folder(gpt)).status, 0);
  const auto why = [&](const std::string& row) {
    return shell(in_folder("inspect_rows --corpus corpus --run run --why-steps 4 --why " + row))
        .output;
  };
  const std::string told = why("k");
  EXPECT_HAS(told, " of token.weight, \"k\"; trained again, it ends at the same values");
  // Its table is that of the head, so all 30 steps give it a gradient.
  EXPECT_HAS(told, "Gradients  in 30 steps");
  EXPECT_HAS(told, "loo[k]ed");
  EXPECT_EQ(told.find("          0     "), told.npos) << told;  // "looked up"
  EXPECT_EQ(why("\"'k'\""), told);                              // as it is printed
  EXPECT_EQ(why(told.substr(11, told.find(" of ") - 11)), told);
  expect_refused(in_folder("inspect_rows --corpus corpus --run run --why zebra"),
                 "--why \"zebra\": no token of token.weight is that; rows have the numbers 0 to ");
}

TEST_F(ProgramsAndFiles, ARunWithATableInAFileIsTrainedAgainWithoutTouchingIt) {
  const std::string train =
      "train --model gpt --corpus corpus --context 8 --width 4 --heads 1 --layers 1 --sample 0 "
      "--steps 9 ";
  ASSERT_EQ(shell(in_folder(train + "--ngrams 2 --ngram-rows 5 --ngram-heads 1 --ngram-width 2 "
                                    "--ngram-layers 0 --ngram-file table --stop-after 4 --save run "
                                    ">/dev/null && train --model gpt --corpus corpus --resume run "
                                    "--sample 0 --save later >/dev/null"))
                .status,
            0);
  const std::string again =
      "mkdir -p tmp; cat table* >before; export TMPDIR=$PWD/tmp; inspect_rows "
      "--corpus corpus --run run ";
  const std::string untouched = "&& cat table* | cmp - before && [ -z \"$(ls tmp)\" ]";
  for (const std::string what : {"", "--why a ", "--why 2 --table memories.0.table.weight "}) {
    const Outcome told = shell(in_folder(again + what + untouched));
    EXPECT_EQ(told.status, 0) << told.output;
    EXPECT_HAS(told.output, "trained again, it ends at the same values, bit for bit");
  }
  expect_refused(in_folder(again + "--from later"), "--from: run has tables in files");
  for (const std::string file : {"table", "$(ls table.undo-* | head -n 1)"})
    expect_refused(in_folder(again + "--csv " + file), "is written here and also read");
}

TEST(Programs, HelpWithTheOptionsThatMatter) {
  const std::string help = shell("train --help").output, all = shell("train --help-all").output;
  const std::string of_gpt = shell("train --model gpt --help").output;
  EXPECT_HAS(help, "--width N                   numbers in an embedding (default: 32)\n");
  EXPECT_HAS(of_gpt, "--width N                   numbers in an embedding (default: 128)\n");
  for (const std::string option : {"--momentum", "--report-data", "--ngrams"}) {
    EXPECT_EQ(help.find(option), help.npos) << option;
    EXPECT_HAS(all, "\n  " + option) << option;
  }
  EXPECT_HAS(all, "\nMemories of n-grams, of a GPT:\n");
  EXPECT_HAS(all, "windows in a new order each epoch (default: on)\n");
  EXPECT_EQ(all.find("\n  --clip-from"), all.npos);
  EXPECT_HAS(all, " --clip-from");
  expect_refused("train --clip-from -1", "--clip-from: got \"-1\"");
}

std::string without_speeds(const std::string& json) {
  return std::regex_replace(json, std::regex(".*tokens_per_second.*\n"), "");
}

TEST_F(ProgramsAndFiles, TakeOptionsFromAFile) {
  const auto json_of = [&](const std::string& options) {
    const Outcome outcome = shell(in_folder(
        "train --corpus corpus --stop-after 2 --sample 0 --json out --options file " + options));
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return json::parse(without_speeds(read_file(folder_ / "out")));
  };
  write_file(folder_ / "file", R"({"model": "gpt", "heads": 2, "layers": 1, "width": 8,
                                   "context": 8, "clip_from": 1, "t5_buckets": 8})");
  const json run = json_of("--layers 2");
  const json expected = json::parse(R"({"model": "gpt", "heads": 2, "layers": 2, "clip_from": 1,
                                        "optimizer": "adamw", "weight_decay": 0.1})");
  for (const auto& [key, value] : expected.items()) EXPECT_EQ(run["options"][key], value) << key;
  write_file(folder_ / "file", run["options"].dump());
  EXPECT_EQ(json_of(""), run);
  const json by_epochs = json_of("--epochs 1")["options"];
  EXPECT_EQ(by_epochs["epochs"], 1);
  EXPECT_EQ(by_epochs["steps"], 0);
  expect_refused(in_folder("train --options file --model next-token"),
                 "--model \"next-token\" is given, but the options are of \"gpt\"");
  expect_refused(in_folder("train --options file --optimizer adam"),
                 "--optimizer \"adam\" is given, but the options are of \"adamw\"");
  write_file(folder_ / "file", run.dump());
  EXPECT_EQ(json_of(""), run);
  for (const auto& [options, message] : std::map<std::string, std::string>{
           {R"({"batch": 0})", "\"batch\": got \"0\", expected a whole number from 1"},
           {R"({"gelu": "cube"})", "file: \"gelu\": got \"cube\", expected one of {tanh,erf}"},
           {R"({"model": "foo"})", "\"model\": got \"foo\", expected one of {next-token,gpt}"},
           {R"({"optimizer": "foo"})", "\"optimizer\": got \"foo\", expected one of {"},
           {R"({"width": "8"})", "\"width\": got the text \"8\", expected a whole number"},
           {R"({"foo": 1})", "there is no option for \"foo\""},
           {"[]", "file: expected an object"}}) {
    write_file(folder_ / "file", options);
    expect_refused(in_folder("train --options file"), message);
  }
}

TEST_F(ProgramsAndFiles, ARunKnowsItsText) {
  ASSERT_EQ(shell(in_folder("$train --save ck >/dev/null")).status, 0);
  const std::string elsewhere = concat("cd /; run=", folder_.path().string(), "/ck; ");
  EXPECT_HAS(shell(elsewhere + "train --resume $run --stop-after 3 --sample 0").output,
             concat("Text       ", (folder_ / "corpus").string(), ", "));
  EXPECT_HAS(shell(elsewhere + "inspect_rows --run $run --why 3").output, "bit for bit");
  expect_refused(in_folder("mv corpus away; train --resume ck"),
                 concat("cannot read ", (folder_ / "corpus").string(),
                        ", the text of the run ck; --corpus FILE says where it is now"));
  EXPECT_EQ(shell(in_folder("mv away corpus")).status, 0);
  write_file(folder_ / "other", "another text");
  const std::string refused =
      concat("another text: its checksum is ", checksum(repeated(kText, 40)), ", that of other is ",
             checksum("another text"), "\n");
  expect_refused(in_folder("train --resume ck --corpus other"), refused);
}

TEST_F(ProgramsAndFiles, ASavedModelWritesWithoutItsText) {
  const std::string memory =
      "--model gpt --heads 1 --layers 1 --ngrams 2 --ngram-rows 20 --ngram-layers 0 ";
  for (const std::string& model : std::vector<std::string>{
           "--hidden 4 ", "--look-back 1 --tie ", "--model gpt --heads 1 --layers 1 ", memory,
           memory + "--ngram-file table "}) {
    const std::string run =
        concat("train ", model, "--corpus corpus --context 4 --width 4 --batch 4 ",
               "--stop-after 2 --prompt 'a dog' --sample 9 --save ck --json out");
    ASSERT_EQ(shell(in_folder(run)).status, 0) << model;
    const Outcome text =
        shell(in_folder("mv corpus away; generate ck --prompt 'a dog' --sample 9; mv away corpus"));
    EXPECT_EQ(text.output,
              json::parse(read_file(folder_ / "out"))["sample"].get<std::string>() + '\n');
  }
  const auto sampled = [&](const std::string& options) {
    return shell(in_folder("generate ck --sample 20 " + options)).output;
  };
  EXPECT_EQ(sampled("--seed 7"), sampled("--seed 7"));
  EXPECT_NE(sampled("--seed 7"), sampled("--seed 8"));
  expect_refused(in_folder("generate ck --temperature 0 --top-k 3"),
                 "--top-k is for --temperature above 0, not for 0.0");
  expect_refused(in_folder("generate ck --prompt é"), "has no id in the vocabulary");
  expect_refused(in_folder("generate corpus"), "corpus");
  expect_refused("generate", "FILE is required");
}

TEST_F(ProgramsAndFiles, AModelThatWritesLeavesItsTableToLaterCheckpoints) {
  const std::string run =
      "train --model gpt --heads 1 --layers 1 --ngrams 2 --ngram-rows 20 --ngram-layers 0 "
      "--corpus corpus --context 4 --width 4 --batch 4 --sample 0 --ngram-file tab --steps 6 ";
  const Outcome outcome = shell(in_folder(
      run +
      "--stop-after 2 --save a && mkdir b && cd b && train --resume ../a --sample 0 --save b"));
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  expect_refused(in_folder("generate a"), "a: cannot be loaded: memories.0.table.weight is in ");
  EXPECT_EQ(shell(in_folder("generate b/b --sample 5")).status, 0);
  EXPECT_EQ(shell(in_folder("train --resume b/b --steps 8 --sample 0")).status, 0);
  EXPECT_EQ(shell(in_folder("mkdir c && mv tab* b/b c && generate c/b && mv c/b b && mv c/tab* ."))
                .status,
            0);
  EXPECT_EQ(shell(in_folder("mv tab away")).status, 0);
  expect_refused(in_folder("generate b/b"),
                 concat("generate: b/b: cannot be loaded: ", (folder_ / "tab").string(),
                        " is missing, which the run trained"));
}

TEST_F(ProgramsAndFiles, AResumedRunSaysWhereItsBitsBecomeOthers) {
  // Smaller layers are computed without OpenBLAS.
  const std::string run = "train --corpus corpus --epochs 4 --sample 0 --hidden 3000,1000 ";
  ASSERT_EQ(shell(in_folder(run + "--stop-after 1 --save ck")).status, 0);
  const std::string resumed = "train --corpus corpus --resume ck --stop-after 2 --sample 0";
  const std::string notice = "last bits may be others than those of a run that never stopped";
  const std::string output = shell(in_folder(resumed)).output;
  EXPECT_HAS(output, "\nGoing on from ck, step 1\n");
  EXPECT_EQ(output.find(notice), std::string::npos);
  const Outcome elsewhere = shell(
      concat("cd ", folder_.path().string(), "; export OPENBLAS_CORETYPE=Sandybridge; ", resumed));
  EXPECT_EQ(elsewhere.status, 0) << elsewhere.output;
  if (elsewhere.output.find("kernel Sandybridge") == std::string::npos)
    GTEST_SKIP() << "OpenBLAS has no kernel Sandybridge";
  EXPECT_HAS(elsewhere.output, notice);
}

TEST_F(ProgramsAndFiles, NameTheFileOfAByteThatIsNotUtf8) {
  write_file(folder_ / "bytes", "a\xFF");
  ASSERT_EQ(
      shell(in_folder("tokenize --tokenizer char --corpus corpus --save saved </dev/null")).status,
      0);
  for (const std::string command :
       {"tokenize --tokenizer char </dev/null", "train", "train --tokenizer saved",
        "train --model gpt --tokenizer char", "inspect_rows"})
    expect_refused(in_folder(command + " --corpus bytes"),
                   "bytes: the byte \"\\xff\" at byte 1 of the text is not part of valid UTF-8");
}

TEST_F(ProgramsAndFiles, NoOutputIsAnInputOrAnotherOutput) {
  ASSERT_EQ(shell(in_folder("$train --save ck")).status, 0);
  write_file(folder_ / "the-verdict.txt", "text");
  write_file(folder_ / "encoder.json", "{}");
  const std::string checkpoint = read_file(folder_ / "ck");
  for (const std::string command :
       {"$train --resume ck --json ck", "$train --resume ck --metrics ./ck",
        "$train --save a --metrics a", "$train --save new --json dangling", "$train --save corpus",
        "$train --save soft", "$train --json hard", "$train --save out >out",
        "$train --json /dev/stdout >out", "$train --options encoder.json --save encoder.json",
        "ROWGRAD_DATA=$PWD $train --save the-verdict.txt",
        "ROWGRAD_DATA=$PWD train --metrics encoder.json",
        "HOME=$PWD; export HOME; mkdir -p .cache/rowgrad; $train --save .cache/rowgrad/vocab.bpe",
        "tokenize --tokenizer char --corpus corpus --save soft </dev/null",
        "tokenize --tokenizer char --corpus ck --save corpus <corpus",
        "ln hard hard.bin; tokenize --tokenizer char --save a --output hard.bin corpus",
        "inspect_rows --corpus corpus --csv hard", "inspect_rows --corpus corpus --json a --csv a"})
    expect_refused(in_folder(command), "is written here and also read");
  EXPECT_EQ(read_file(folder_ / "ck"), checkpoint);
  EXPECT_EQ(read_file(folder_ / "corpus"), repeated(kText, 40));
  EXPECT_EQ(read_file(folder_ / "the-verdict.txt"), "text");
  EXPECT_EQ(read_file(folder_ / "encoder.json"), "{}");
}

TEST_F(ProgramsAndFiles, ARunReplacesNoFileButThatOfARun) {
  write_file(folder_ / "notes", "mine");
  expect_refused(in_folder("$train --save notes"), "--save: notes is there already and is no run");
  EXPECT_EQ(read_file(folder_ / "notes"), "mine");
  EXPECT_HAS(shell(in_folder("$train --save ck && $train --save ck")).output,
             "\nReplaces ck, a run at step 2\n");
  expect_refused(in_folder("$train --prompt dog"),
                 "--prompt is for --sample above 0 and --report, not for 0");
}

TEST_F(ProgramsAndFiles, ARunMayGoOnInItsCheckpointAndDevicesMayBeShared) {
  for (const std::string command : {"$train --save ck", "$train --resume ck --save ck",
                                    "$train --save /dev/null --metrics /dev/null --json /dev/null",
                                    "$train --json /dev/stdout --metrics /dev/stdout | cat",
                                    "ln -s loop loop; HOME=$PWD/loop $train --save ck"}) {
    const Outcome outcome = shell(in_folder(command));
    EXPECT_EQ(outcome.status, 0) << command << ":\n" << outcome.output;
  }
}

TEST_F(ProgramsAndFiles, AGptGoesOnAsIfNeverStoppedAndItsWeightsGoHome) {
  const auto json_of = [&](const std::string& command, const std::string& json) {
    const Outcome outcome = shell(concat(
        "cd ", folder_.path().string(),
        "; gpt='train --model gpt --context 8 --width 8 --heads 2 --layers 1 --batch 4 --stride 4 "
        "--bias "
        "--qkv-bias --dropout 0.1 --warmup 2 --evaluate-every 3 --evaluate-batches 2 --sample 5 "
        "--sample-every 4'; mkdir -p home; ",
        command, " --corpus corpus --json ", json));
    EXPECT_EQ(outcome.status, 0) << command << ":\n" << outcome.output;
    return json::parse(read_file(folder_ / json));
  };
  const auto whole = json_of("$gpt --steps 12 --gpt2-export home/model.safetensors", "whole");
  ASSERT_EQ(whole["evaluations"].size(), 4U);  // after steps 1, 4, 7 and 10
  json_of("$gpt --steps 12 --stop-after 5 --save ck", "part");
  const auto resumed = json_of("train --model gpt --resume ck --sample 5", "resumed");
  for (const char* key : {"evaluations", "validation_loss", "sample"})
    EXPECT_EQ(resumed[key], whole[key]) << key;

  const auto at_home =
      json_of("train --model gpt --gpt2 home --tokenizer char --context 8 --epochs 0 --sample 0",
              "at_home");
  EXPECT_NEAR(at_home["validation_loss"].get<double>(), whole["validation_loss"].get<double>(),
              1e-5);
  const auto shorter = json_of(
      "train --model gpt --gpt2 home --tokenizer char --context 4 --stop-after 2", "shorter");
  EXPECT_EQ(shorter["options"]["width"], 8);
}

TEST_F(ProgramsAndFiles, AResumedRunHasTheJsonOfOneThatNeverStopped) {
  const std::string start =
      concat("cd ", folder_.path().string(), "; train --model gpt --corpus corpus ");
  const std::string run =
      "--context 8 --width 8 --heads 2 --layers 1 --batch 4 --stride 8 --accumulate 7 --warmup 2 "
      "--steps 40 --evaluate-every 3 --evaluate-batches 2 ";
  const std::string samples = "--sample 5 --sample-every 4 --sample-epochs ";
  const auto go = [&](const std::string& options) {
    const Outcome outcome = shell(start + samples + options);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
  };
  go(run + "--json whole");
  const std::string whole = without_speeds(read_file(folder_ / "whole"));
  const auto json = json::parse(read_file(folder_ / "whole"));
  ASSERT_GE(json["history"].size(), 2U);
  ASSERT_GT(json["samples"].size(), 10U);  // those of each fourth step, and some after epochs
  const std::size_t epoch = json["history"][0]["steps"];
  for (const std::size_t stop : {std::size_t{4}, std::size_t{6}, epoch, epoch + 1}) {
    go(run + concat("--save ck --save-every 3 --stop-after ", stop));
    go("--resume ck --json resumed");
    EXPECT_EQ(without_speeds(read_file(folder_ / "resumed")), whole) << stop;
  }
}

TEST_F(ProgramsAndFiles, RefuseWhatHasNoEffect) {
  const std::string start = concat("cd ", folder_.path().string(), "; ");
  const std::string gpt = start + "train --model gpt --corpus corpus ";
  expect_refused(gpt + "--t5-buckets 8 --positions rotary",
                 "--t5-buckets is for --positions t5, not for \"rotary\"");
  expect_refused(gpt + "--sample 0 --top-k 3", "--top-k is for --sample above 0, not for 0");
  expect_refused(gpt + "--temperature 0 --top-k 3",
                 "--top-k is for --temperature above 0, not for 0.0");
  expect_refused(gpt + "--beta2 0.9 --optimizer sgd",
                 "--beta2 is for --optimizer adam and adamw, not for \"sgd\"");
  ASSERT_EQ(shell(in_folder("$train --optimizer adam --save ck")).status, 0);
  const std::string resumed = start + "train --corpus corpus --resume ck ";
  expect_refused(resumed + "--momentum 0",
                 "--momentum is for --optimizer sgd and rmsprop, not for \"adam\"");
  expect_refused(resumed + "--epochs 9 --steps 9", "--epochs is for --steps 0, not for 9");
}

TEST_F(ProgramsAndFiles, AGptGoesHomeWithItsConfiguration) {
  const std::string start =
      concat("cd ", folder_.path().string(),
             "; mkdir -p home; train --model gpt --corpus corpus --context 8 ");
  const std::string export_to = " --gpt2-export home/";
  const std::string gpt = start +
                          "--width 8 --heads 2 --bias --qkv-bias --gelu erf --norm-epsilon "
                          "0.01 --stop-after 2 --sample 0 --json made --layers ";
  const std::string out = gpt + "1" + export_to + "model.safetensors";
  const auto json_of = [&](const std::string& command, const std::string& json) {
    const Outcome outcome = shell(command);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return json::parse(read_file(folder_ / json));
  };
  const auto made = json_of(out, "made");
  const std::string config = read_file(folder_ / "home" / "config.json");
  EXPECT_EQ(json::parse(config)["n_positions"], 8);
  const auto at_home = json_of(
      start + "--gpt2 home --tokenizer char --epochs 0 --sample 0 --json at_home", "at_home");
  EXPECT_EQ(at_home["options"]["gelu"], "erf");
  EXPECT_EQ(at_home["options"]["norm_epsilon"], 0.01);
  EXPECT_NEAR(at_home["validation_loss"].get<double>(), made["validation_loss"].get<double>(),
              1e-6);

  json_of(out, "made");  // the same once more
  expect_refused(gpt + "2" + export_to + "model.safetensors",
                 "home/config.json: is there already, for another model");
  expect_refused(gpt + "1" + export_to + "config.json", "is written here and also read");
  expect_refused(start + "--gpt2 home --tokenizer char" + export_to + "new",
                 "home/config.json: is written here and also read");
  EXPECT_EQ(read_file(folder_ / "home" / "config.json"), config);
  json_of(gpt + "1 --gpt2-export /dev/null", "made");
  EXPECT_FALSE(std::filesystem::exists("/dev/config.json"));
}

TEST_F(ProgramsAndFiles, AGptTakesEverySchedulePositionAndLength) {
  const std::string start = concat("cd ", folder_.path().string(),
                                   "; train --model gpt --corpus corpus --context 8 --width 8 ",
                                   "--heads 2 --layers 1 --batch 4 --stop-after 2 --sample 2 ");
  for (const char* options :
       {"--schedule constant", "--schedule warmup", "--schedule cosine", "--schedule step",
        "--schedule one-cycle", "--steps 5", "--epochs 1", "--epochs 0", "--no-tie --optimizer sgd",
        "--positions none", "--positions rotary --rotary-layout interleaved", "--positions alibi",
        "--positions t5", "--positions shaw", "--positions sinusoidal", "--validation 0"}) {
    const Outcome outcome = shell(start + options);
    EXPECT_EQ(outcome.status, 0) << options << ":\n" << outcome.output;
  }
}

TEST_F(ProgramsAndFiles, AResumedRunMayBeCountedInEpochsInstead) {
  const std::string small = "--context 8 --width 8 --heads 2 --layers 1 --stride 8 --warmup 2";
  const Outcome outcome =
      shell(concat("cd ", folder_.path().string(), "; train --model gpt --corpus corpus ", small,
                   " --stop-after 2 --sample 0 --save ck && train --model gpt --corpus corpus "
                   "--resume ck --epochs 1 ",
                   "--sample 0 --json out"));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(json::parse(read_file(folder_ / "out"))["history"].size(), 1U);
}

TEST_F(ProgramsAndFiles, TheTextbooksRunsHaveTheirOptions) {
  const auto options_of = [&](const std::string& book) {
    const Outcome outcome = shell(concat(
        "cd ", folder_.path().string(), "; train --model gpt --corpus corpus ", book,
        " --tokenizer char --context 8 --width 8 --heads 2 --layers 1 --stop-after 1 --sample 0 ",
        "--json out"));
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_HAS(
        outcome.output,
        "   the book's" + std::string(book == "--book 5" ? "  9.781  9.933" : " 10.934 10.939"));
    return json::parse(read_file(folder_ / "out"))["options"];
  };
  auto expected = json::parse(R"({
      "batch": 2, "shuffle": true, "draw_as_pytorch": true, "dropout": 0.1, "tie": false,
      "epochs": 10, "steps": 0, "accumulate": 1, "optimizer": "adamw", "learning_rate": 4e-4,
      "beta2": 0.999, "weight_decay": 0.1, "weight_decay_for": "all", "schedule": "constant", "warmup": 0,
      "floor": 0.0, "clip": 0.0, "seed": 123, "validation": 0.1, "evaluate_every": 5,
      "evaluate_batches": 5, "positions": "learned", "bias": true, "qkv_bias": false,
      "gelu": "tanh", "initialization": "pytorch"})");
  const json chapter_5 = options_of("--book 5");
  for (const auto& [key, value] : expected.items()) EXPECT_EQ(chapter_5[key], value) << key;
  expected.update(json::parse(R"({
      "epochs": 15, "learning_rate": 1e-3, "schedule": "cosine", "warmup": 27,
      "warmup_start": 0.01, "floor": 0.01, "clip": 1.0, "clip_from": 28, "evaluate_batches": 1})"));
  // Only its own steps are compared.
  EXPECT_EQ(book_log("5").size(), 18U);
  EXPECT_EQ(beside(book_log("5"), 6), "   the book's  8.111  8.339");
  EXPECT_EQ(beside(book_log("5"), 4), "");
  EXPECT_EQ(beside(book_log("d", 5), 31), "");
  const json appendix_d = options_of("--book d --clip-from 28");
  for (const auto& [key, value] : expected.items()) EXPECT_EQ(appendix_d[key], value) << key;
  EXPECT_EQ(options_of("--book d")["clip_from"], 27);
  expect_refused("train --resume run --book d", "--resume excludes --book");
}

TEST_F(ProgramsAndFiles, AGptIsRefusedBeforeItIsTrained) {
  const std::string start =
      concat("cd ", folder_.path().string(), "; train --model gpt --corpus corpus ");
  expect_refused(start + "--gpt2-export out", "--gpt2-export: the model has query, key and value");
  expect_refused(start + "--gpt2 . --width 8", "--width follows from the weights of --gpt2");
  expect_refused(start + "--gpt2 .", "; examples/texts.sh --gpt2 . ");
  expect_refused(start + "--width 10", "width 10 is not a multiple of 4 heads");
  expect_refused(start + "--positions polar", "--positions");
  write_file(folder_ / "model.safetensors", "weights");
  expect_refused(start + "--gpt2 . --json model.safetensors", "is written here and also read");
  std::filesystem::remove(folder_ / "model.safetensors");
  expect_refused(start + "--warmup 2000", "--warmup 2000 is not shorter than the run of 2000");
  expect_refused("cd /; train --gpt2-export out", "--gpt2-export");
}

TEST_F(ProgramsAndFiles, MakeWordTokenizersOfTheMostFrequentWords) {
  const Outcome ids = shell(
      in_folder("tokenize --tokenizer word --corpus corpus --min-count 41 --max-tokens 5 --lower "
                "--save words.json </dev/null && echo THE cat | tokenize --tokenizer words.json"));
  EXPECT_EQ(ids.output, "\n2 4\n");  // a, and, the, <|endoftext|>, <|unk|>
}

TEST_F(ProgramsAndFiles, SaveToAPipeOnceSomebodyReadsIt) {
  const Outcome read =
      shell(in_folder("mkfifo pipe; cat pipe >copy & $train --save pipe && wait && "
                      "$train --resume copy"));
  EXPECT_EQ(read.status, 0) << read.output;
}

// Writes more than a pipe holds, so the program has begun to read once all but the rest is written;
// it cannot end, because the pipe stays open.
Outcome signalled_while_reading(int signal, const TemporaryFolder& folder) {
  std::array<int, 2> ends;
  if (pipe(ends.data()) != 0) throw std::runtime_error("there is no pipe");
  const std::string errors = folder / "errors";
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    close(ends[1]);
    if (std::freopen(errors.c_str(), "w", stderr) != nullptr)
      execl(ROWGRAD_PROGRAMS "/train", "train", "--corpus", "/dev/stdin", nullptr);
    _exit(127);
  }
  close(ends[0]);
  const std::string text(1 << 20, 'x');
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t written = write(ends[1], text.data() + at, text.size() - at);
    if (written <= 0) break;
    at += static_cast<std::size_t>(written);
  }
  kill(child, signal);
  int status = 0;
  waitpid(child, &status, 0);
  close(ends[1]);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status), read_file(errors)};
}

constexpr std::array<std::pair<int, const char*>, 3> kSignals{
    {{SIGINT, "Ctrl-C"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}}};

TEST(Programs, AreEndedBySignalsWhileTheyRead) {
  const TemporaryFolder folder;
  for (const auto& [signal, name] : kSignals) {
    const Outcome outcome = signalled_while_reading(signal, folder);
    EXPECT_EQ(outcome.status, 128 + signal);
    EXPECT_EQ(outcome.output, concat("train: stopped by ", name, '\n'));
  }
}

TEST(RunProgram, EndsAtTheFirstSignalOrWhileTheyAreHeldAtTheSecond) {
  for (const auto& [number, name] : kSignals) {
    const int signal = number;
    const auto stopped = ::testing::ExitedWithCode(128 + signal);
    EXPECT_EXIT(run_program("some", [&] { return std::raise(signal); }), stopped,
                concat("^some: stopped by ", name, "\n$"));
    const auto held = [&](int signals) {
      const HeldInterrupts interrupts;
      for (int i = 0; i < signals; ++i) std::raise(signal);
      return interrupted() ? 0 : 1;
    };
    EXPECT_EXIT(run_program("some", [&] { return held(2); }), stopped, concat("stopped by ", name));
    EXPECT_EQ(run_program("some", [&] { return held(1); }), 128 + signal);
    EXPECT_EQ(run_program("some", [&] { return held(0); }), 1);
    EXPECT_FALSE(interrupted());
  }
}

TEST(RunProgram, GoesOnAfterItsTerminalIfNohupSaysSo) {
  std::signal(SIGHUP, SIG_IGN);
  EXPECT_EQ(run_program("some", [] { return std::raise(SIGHUP); }), 0);
  std::signal(SIGHUP, SIG_DFL);
}

// As operator new calls it, also where no exception may be thrown: in a destructor of JSON.
TEST(RunProgram, EndsWhereMemoryRunsOut) {
  EXPECT_EXIT(run_program("some",
                          [] {
                            std::get_new_handler()();
                            return 0;
                          }),
              ::testing::ExitedWithCode(1), "^some: there is not enough memory for what was asked");
}

}  // namespace
