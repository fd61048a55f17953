#include "tests/support/options.hpp"
#include "tests/test.hpp"
#include <rowgrad/examples/rowgrad/options/train_settings.hpp>

namespace {

// Parses settings of `rowgrad train`. The options file "file" contains `text`, and the saved run
// "run" has the options `saved`.
struct Train {
  std::string text = "{}";
  TrainOptions saved = {};
  std::string changes = {};

  TrainSettings settings(const std::string& arguments, bool reads_files = true) {
    const TrainFiles files{.options_text = [&](const std::string&) { return text; },
                           .saved_run = [&](const std::string&) { return saved; }};
    TrainSettings settings;
    std::istringstream words(arguments);
    parsed_line(
        option_table_of(settings), {std::istream_iterator<std::string>(words), {}},
        [&](Settings& each, bool) { complete(each, reads_files ? &files : nullptr, changes); });
    return settings;
  }
  TrainOptions options(const std::string& arguments) { return settings(arguments).train; }
};

TEST(TrainSettings, DefaultsDependOnTheOptimizer) {
  for (const auto& [arguments, learning_rate, weight_decay, ngram_rate] :
       std::vector<std::tuple<std::string, double, double, double>>{
           {"", 0.3, 0, 5},
           {"--optimizer adamw", 0.001, 0.01, 5},
           {"--optimizer adamw --weight-decay 0", 0.001, 0, 5},
           {"--learning-rate 2 --optimizer adam", 2, 0, 5},
           {"--optimizer rmsprop", 0.001, 0, 1},
           {"--model gpt", 0.001, 0.1, 5},
           {"--model gpt --optimizer adamw", 0.001, 0.1, 5},
           {"--model gpt --ngrams 2 --optimizer adagrad", 0.02, 0, 1},
           {"--model gpt --ngrams 2 --optimizer adagrad --ngram-rate 3", 0.02, 0, 3}}) {
    const TrainOptions options = Train().options(arguments);
    EXPECT_EQ(options.learning_rate, learning_rate) << arguments;
    EXPECT_EQ(options.weight_decay, weight_decay) << arguments;
    EXPECT_EQ(options.ngram_rate, ngram_rate) << arguments;
  }
}

TEST(TrainSettings, DefaultsDependOnTheSchedule) {
  const TrainOptions gpt = Train().options("--model gpt");
  EXPECT_EQ(gpt.steps, 2000U);
  EXPECT_EQ(gpt.warmup, 100U);
  EXPECT_EQ(gpt.min_lr_ratio, 0.1);
  EXPECT_EQ(Train().options("--model gpt --steps 50").warmup, 5U);
  EXPECT_EQ(Train().options("--model gpt --schedule constant").min_lr_ratio, 0);
  const TrainOptions epochs = Train().options("--model gpt --epochs 3");
  EXPECT_EQ(epochs.steps, 0U);
  EXPECT_EQ(epochs.warmup, 0U);
}

TEST(TrainSettings, CommandLineOverridesFileAndFileOverridesPresets) {
  Train train{.text = R"({"model": "gpt", "width": 64, "heads": 2, "save": "s", "save_every": 5})"};
  const TrainSettings settings = train.settings("--options file --heads 8");
  EXPECT_EQ(settings.train.gpt.width, 64U);
  EXPECT_EQ(settings.train.gpt.heads, 8U);
  EXPECT_EQ(settings.train.gpt.context, 64U);  // the default of a GPT
  EXPECT_EQ(settings.sample_every, 500U);
  EXPECT_EQ(settings.save_every, 5U);
  train.text = R"({"options": {"epochs": 15, "steps": 9, "warmup": 1}})";
  EXPECT_EQ(train.options("--options file --steps 7").steps, 7U);
  EXPECT_EQ(train.options("--options file").warmup, 1U);
  EXPECT_EQ(train.options("--options file --epochs 4").steps, 0U);
  EXPECT_EQ(train.options("--options file --epochs 4").warmup, 0U);
  train.text = R"({"steps": 9, "warmup": 1})";
  EXPECT_EQ(train.options("--options file --epochs 4").steps, 0U);
  EXPECT_EQ(train.options("--options file --epochs 4").warmup, 1U);
}

TEST(TrainSettings, FileOptionsThatTheCommandLineDisablesAreDropped) {
  Train train{.text = R"({"gpt2": "e", "tokenizer": "word", "past_context": "slide"})"};
  const TrainSettings settings = train.settings("--options file --model next-token");
  EXPECT_EQ(settings.gpt2, "");
  EXPECT_EQ(settings.train.tokenizer, "word");
  EXPECT_EQ(settings.train.gpt.context, 32U);
  EXPECT_EQ(settings.sample.past_context, PastContext::kRecompute);
  train.text = R"({"momentum": 0.9, "learning_rate": 2})";
  EXPECT_EQ(train.options("--options file --optimizer adam").momentum, 0);
  EXPECT_EQ(train.options("--options file --optimizer adam").learning_rate, 2);
  train.text = R"({"warmup": 5, "warmup_start": 0.5})";
  EXPECT_EQ(train.options("--options file --schedule one-cycle").warmup, 0U);
  EXPECT_EQ(train.options("--options file --schedule one-cycle").warmup_start, 0);
}

TEST(TrainSettings, RatesForAnotherOptimizerAreDropped) {
  for (const std::string options :
       {R"({"optimizer": "adamw", "learning_rate": 0.1, "weight_decay": 0.2, "beta2": 0.5,
            "weight_decay_for": "matrices"})",
        R"({"options": {"optimizer": "rmsprop", "learning_rate": 0.1, "momentum": 0.9}})"}) {
    Train train{.text = options};
    const TrainOptions sgd = train.options("--options file --optimizer sgd");
    EXPECT_EQ(sgd.learning_rate, 0.3);
    EXPECT_EQ(sgd.weight_decay, 0);
    EXPECT_EQ(sgd.momentum, 0);
    EXPECT_EQ(sgd.beta2, 0.999);
    EXPECT_EQ(train.options("--options file --optimizer adam --beta2 0.7").learning_rate, 0.001);
  }
}

TEST(TrainSettings, JsonOfARunRestoresItsOptions) {
  TrainOptions run{.model = "gpt"};
  run.gpt.width = 48;
  run.epochs = 1;
  run.steps = 200;  // as if the run had been resumed with --steps
  run.slices = 2;
  Train train{.text = concat("{\"options\": ", to_json(run), '}')};
  EXPECT_EQ(to_json(train.options("--options file")), to_json(run));
  EXPECT_EQ(train.options("--options file --gpt2 folder").gpt.width, 48U);
  TrainSettings settings;
  const auto complete_with = [&](Settings& each, bool) {
    const TrainFiles files{.options_text = [&](const std::string&) { return train.text; },
                           .saved_run = {}};
    complete(each, &files, train.changes);
  };
  const CommandLine line =
      parsed_line(option_table_of(settings), {"--options", "file"}, complete_with);
  EXPECT_FALSE(line.was_given("--slices"));  // the number of ranks determines it
  EXPECT_TRUE(line.was_given("--width"));
}

TEST(TrainSettings, FilesAreCheckedLikeTheCommandLine) {
  const auto refused = [](const std::string& text, const std::string& arguments = "") {
    Train train{.text = text};
    train.settings("--options file " + arguments);
  };
  EXPECT_ERROR_WITH(std::invalid_argument, "file: \"save_every\" requires --save",
                    refused(R"({"save_every": 5})"));
  EXPECT_ERROR_WITH(std::invalid_argument, "file: \"gpt2\" cannot be used with --resume",
                    refused(R"({"gpt2": "weights", "resume": "run"})"));
  EXPECT_ERROR_WITH(std::invalid_argument,
                    "file: \"heads\" requires --model gpt, got \"next-token\"",
                    refused(R"({"heads": 2})"));
  EXPECT_ERROR_WITH(std::invalid_argument, "file: \"prompt\" requires --sample-tokens above 0",
                    refused(R"({"prompt": "a", "sample_tokens": 0})"));
  EXPECT_ERROR_WITH(std::invalid_argument, "file: \"width\": got \"0\"",
                    refused(R"({"width": 0})"));
  EXPECT_ERROR_WITH(std::invalid_argument,
                    "--model: got \"next-token\", expected \"gpt\", the model in file",
                    refused(R"({"model": "gpt"})", "--model next-token"));
  for (const char* epochs : {"3", "15"})
    EXPECT_ERROR_WITH(std::invalid_argument, "file: \"epochs\" requires --steps 0, got 10",
                      refused(concat("{\"epochs\": ", epochs, ", \"steps\": 10}")));
  refused(R"({"prompt": "a"})", "--sample-tokens 0");
}

TEST(TrainSettings, ResumedRunKeepsItsOptions) {
  Train train;
  train.saved.gpt.width = 48;
  train.saved.steps = 9;
  train.saved.warmup = 2;
  EXPECT_EQ(train.options("--resume run").gpt.width, 48U);
  EXPECT_EQ(train.changes, "");
  EXPECT_EQ(train.options("--resume run --width 48 --steps 20").steps, 20U);
  EXPECT_EQ(train.changes, "--steps 20 instead of 9");
  EXPECT_EQ(train.options("--resume run --epochs 3").steps, 0U);
  EXPECT_EQ(train.changes, "--epochs 3 instead of 15, --steps 0 instead of 9");
  EXPECT_ERROR_WITH(std::invalid_argument,
                    "--width 32: cannot change in a resumed run, which has 48",
                    train.options("--resume run --width 32"));
  train.text = R"({"width": 32})";
  EXPECT_ERROR_WITH(std::invalid_argument,
                    "file: \"width\" 32: cannot change in a resumed run, which has 48",
                    train.options("--resume run --options file"));
  EXPECT_ERROR_WITH(std::invalid_argument,
                    "--heads 2: cannot change in a resumed run, which has no such option",
                    train.options("--resume run --heads 2"));
}

TEST(TrainSettings, HelpReadsNoFiles) {
  Train train{.text = "not JSON"};
  EXPECT_EQ(train.settings("--options file --resume run --model gpt", false).train.gpt.width, 128U);
}

TEST(TrainSettings, TextbookFilesAreComplete) {
  for (const auto& [name, rate] : {std::pair("chapter5", 4e-4), std::pair("appendix_d", 1e-3)}) {
    Train train{
        .text = read_file(concat(ROWGRAD_TEST_DATA "/../../examples/textbook/", name, ".json"))};
    const TrainSettings settings = train.settings("--options file");
    EXPECT_EQ(settings.train.gpt.layers, 12U);
    EXPECT_EQ(settings.train.learning_rate, rate);
    EXPECT_EQ(settings.sample_every, 0U);
    train.settings("--options file --sample-tokens 0 --model gpt");
  }
}

}  // namespace
