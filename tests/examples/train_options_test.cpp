#include <unistd.h>

#include "tests/support/options_given.hpp"
#include "tests/test.hpp"
#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/progress.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>
#include <rowgrad/examples/support/train_options.hpp>

namespace {

using Arguments = std::vector<std::string>;

CommandLine given_to(TrainOptions& options, Arguments arguments) {
  arguments.insert(arguments.begin(), "train");
  return given(option_table_of(options), arguments);
}

TrainOptions resumed(const Arguments& arguments, const TrainOptions& saved) {
  TrainOptions options;
  CommandLine line = given_to(options, arguments);
  take_saved(line, options, saved);
  return options;
}

TEST(ResumedOptions, AreTheSavedOnesButForEpochsAndLearningRate) {
  TrainOptions saved;
  saved.gpt.width = 7;
  saved.epochs = 2;
  EXPECT_EQ(resumed({}, saved).gpt.width, 7U);
  EXPECT_EQ(resumed({}, saved).epochs, 2U);
  EXPECT_EQ(resumed({"--epochs", "9", "--learning-rate", "0.5"}, saved).epochs, 9U);
  EXPECT_EQ(resumed({"--learning-rate", "0.5"}, saved).learning_rate, 0.5);
  EXPECT_EQ(resumed({"--width", "7"}, saved).gpt.width, 7U);
}

TEST(ResumedOptions, RefuseAnotherValueForWhatMakesTheNumbers) {
  const TrainOptions saved;
  EXPECT_INVALID("--width 7: the run to be resumed has 32", resumed({"--width", "7"}, saved));
  EXPECT_INVALID("--shuffle false: the run to be resumed has true",
                 resumed({"--no-shuffle"}, saved));
  EXPECT_THROW(resumed({"--look-back", "2"}, saved), std::invalid_argument);
  EXPECT_THROW(resumed({"--hidden", "3,4"}, saved), std::invalid_argument);
}

TEST(TrainOptions, TakeTheDefaultsOfTheOptimizer) {
  const auto completed = [](const Arguments& arguments) {
    TrainOptions options;
    complete(given_to(options, arguments), options);
    return options;
  };
  EXPECT_EQ(completed({}).learning_rate, 0.3);
  EXPECT_EQ(completed({"--optimizer", "adamw"}).learning_rate, 0.001);
  EXPECT_EQ(completed({"--optimizer", "adamw"}).weight_decay, 0.01);
  EXPECT_EQ(completed({"--optimizer", "adamw", "--weight-decay", "0"}).weight_decay, 0);
  EXPECT_EQ(completed({"--learning-rate", "2", "--optimizer", "adam"}).learning_rate, 2);
  EXPECT_EQ(completed({"--optimizer", "rmsprop"}).weight_decay, 0);
}

TEST(TrainOptions, AreTheSameFromTheirJson) {
  TrainOptions options;
  options.accumulate = 3;
  options.decays_vectors = false;
  EXPECT_EQ(to_json(train_options(to_json(options))), to_json(options));
  options.model = "gpt";
  options.gpt.heads = 3;
  options.gpt.gelu = Gelu::kErf;
  EXPECT_EQ(to_json(train_options(to_json(options))), to_json(options));
  const auto gpt = json::parse(to_json(options));
  EXPECT_EQ(gpt["model"], "gpt");
  EXPECT_EQ(gpt["heads"], 3);
  EXPECT_FALSE(gpt.contains("look_back"));
}

TEST(TrainOptions, DecayTheWeightsOfMatricesAlone) {
  TrainOptions options;
  options.optimizer = "adamw";
  options.weight_decay = 0.5;
  options.learning_rate = 0.1;
  options.decays_vectors = false;
  Parameter matrix("matrix", full({2, 2}, 1));
  Parameter bias("bias", full({2}, 1));
  const auto optimizer = options.make_optimizer({&bias, &matrix});
  for (Parameter* parameter : {&matrix, &bias}) parameter->add_gradient(zeros(parameter->shape()));
  optimizer->step();
  EXPECT_EQ(bias.value().data()[0], 1);
  EXPECT_NEAR(matrix.value().data()[0], 0.95, 1e-6);
}

TEST(TrainOptions, WarmUpAndDecayAsNanoGptDoes) {
  TrainOptions options;
  options.schedule = "cosine";
  options.warmup = 100;
  options.floor = 0.1;
  const Schedule schedule = options.make_schedule(2000);
  EXPECT_DOUBLE_EQ(schedule.factor(0), 1.0 / 101);
  EXPECT_DOUBLE_EQ(schedule.factor(41), 42.0 / 101);
  EXPECT_DOUBLE_EQ(schedule.factor(100), 1);
  const double share = (500.0 - 100) / 1900;
  EXPECT_NEAR(schedule.factor(500), 0.1 + 0.9 * (1 + std::cos(M_PI * share)) / 2, 1e-12);
  EXPECT_NEAR(schedule.factor(2000), 0.1, 1e-12);
}

TEST(TrainOptions, WarmUpAndDecayAsTheTextbooksAppendixDoes) {
  TrainOptions options;
  options.schedule = "cosine";
  options.warmup = 27;
  options.warmup_start = options.floor = 0.01;
  const Schedule schedule = options.make_schedule(135);
  for (int k = 0; k < 27; ++k)
    EXPECT_NEAR(1e-3 * schedule.factor(k), 1e-5 + k * (1e-3 - 1e-5) / 27, 1e-17) << k;
  for (int k = 27; k <= 135; ++k)
    EXPECT_NEAR(1e-3 * schedule.factor(k),
                1e-5 + (1e-3 - 1e-5) * (1 + std::cos(M_PI * (k - 27) / 108)) / 2, 1e-17)
        << k;
}

TEST(TrainOptions, AreRefusedFromAJsonThatTheCommandLineWouldRefuse) {
  const auto refusal = [](const std::string& key, const json& value) {
    auto all = json::parse(to_json(TrainOptions()));
    all[key] = value;
    return error_of<std::invalid_argument>([&] { train_options(all.dump()); });
  };
  EXPECT_EQ(refusal("batch", 0),
            "\"batch\": got \"0\", expected a whole number from 1 to 999999999999");
  EXPECT_EQ(refusal("hidden", {3, -1}),
            "\"hidden\": got \"-1\", expected a whole number from 0 to 999999999999");
  EXPECT_EQ(refusal("dropout", 1), "\"dropout\": got \"1\", expected a number from 0 to 0.99");
  EXPECT_EQ(refusal("weight_decay_for", "some"),
            "\"weight_decay_for\": got \"some\", expected one of {all,matrices}");
  EXPECT_EQ(refusal("heads", 3), "there is no option for \"heads\"");
}

TEST(TrainOptions, TieByALayerOfTheEmbeddingsWidth) {
  TrainOptions options;
  using Widths = std::vector<std::size_t>;
  const auto hidden = [&] { return options.next_token_options(9).hidden; };
  EXPECT_EQ(hidden(), Widths({256}));
  options.gpt.tie_weights = true;
  EXPECT_EQ(hidden(), Widths({256, 32}));
  options.hidden = {32};
  EXPECT_EQ(hidden(), Widths({32}));
  options.look_back = 1;
  options.hidden = {0};
  EXPECT_TRUE(hidden().empty());
}

TEST(TrainOptions, RefuseWhatDoesNotGoTogether) {
  TrainOptions options;
  Parameter weight("weight", zeros({1}));
  options.optimizer = "lion";
  EXPECT_THROW(options.make_optimizer({&weight}), std::invalid_argument);
  options.hidden = {0, 5};
  EXPECT_THROW(options.next_token_options(9), std::invalid_argument);
  options.schedule = "zigzag";
  EXPECT_THROW(options.make_schedule(10), std::invalid_argument);
}

TEST(TrainOptions, RefuseWhatHasNoEffect) {
  const auto check = [](const std::string& arguments) {
    TrainOptions options;
    options.model = "gpt";
    std::istringstream words(arguments);
    given_to(options, Arguments(std::istream_iterator<std::string>(words), {}));
  };
  for (const auto& [arguments, message] : std::vector<std::pair<std::string, std::string>>{
           {"--vocabulary 9", "--vocabulary is for --tokenizer bpe, not for \"char\""},
           {"--rotary-layout halves --positions t5",
            "--rotary-layout is for --positions rotary, not for \"t5\""},
           {"--rotary-base 9", "--rotary-base is for --positions rotary, not for \"learned\""},
           {"--t5-buckets 9 --positions rotary",
            "--t5-buckets is for --positions t5, not for \"rotary\""},
           {"--t5-max-distance 9", "--t5-max-distance is for --positions t5, not for \"learned\""},
           {"--shaw-max-distance 9 --positions t5",
            "--shaw-max-distance is for --positions shaw, not for \"t5\""},
           {"--epochs 9 --steps 7", "--epochs is for --steps 0, not for 7"},
           {"--momentum 0.9 --optimizer adamw",
            "--momentum is for --optimizer sgd and rmsprop, not for \"adamw\""},
           {"--beta2 0.9", "--beta2 is for --optimizer adam and adamw, not for \"sgd\""},
           {"--weight-decay-for matrices",
            "--weight-decay-for is for --weight-decay above 0, not for 0.0"},
           {"--warmup 9 --schedule one-cycle",
            "--warmup is for --schedule constant, warmup, cosine and step, not for \"one-cycle\""},
           {"--warmup-start 0.1", "--warmup-start is for --warmup above 0, not for 0"},
           {"--clip-from 9", "--clip-from is for --clip above 0, not for 0.0"},
           {"--floor 0.1", "--floor is for --schedule cosine, not for \"constant\""},
           {"--evaluate-batches 9",
            "--evaluate-batches is for --evaluate-every above 0, not for 0"}})
    EXPECT_EQ(error_of<std::invalid_argument>([&, &given = arguments] { check(given); }), message);
  EXPECT_NO_THROW(check(
      "--vocabulary 9 --tokenizer bpe --positions rotary --rotary-layout halves "
      "--rotary-base 9 --epochs 9 --momentum 0.9 --weight-decay 0.1 --weight-decay-for matrices "
      "--warmup 9 --warmup-start 0.1 --clip 1 --clip-from 9 --schedule cosine --floor 0.1 "
      "--evaluate-batches 9 --evaluate-every 9"));
  EXPECT_NO_THROW(check("--positions t5 --t5-buckets 9 --t5-max-distance 9 --steps 0 --epochs 1"));
}

TEST(CheckOutputs, RefusesBeforeTheWorkWhatWouldFailAfterIt) {
  const TemporaryFolder folder;
  const std::string file = folder / "a";
  write_file(file, "text");
  EXPECT_NO_THROW(check_outputs({file, folder / "b", ""}, {""}));
  EXPECT_THROW(check_outputs({folder / "missing" / "a"}, {}), std::runtime_error);
  EXPECT_THROW(check_outputs({folder.path()}, {}), std::runtime_error);
  EXPECT_THROW(check_outputs({file, folder / "." / "a"}, {}), std::runtime_error);
  EXPECT_THROW(check_outputs({file}, {file}), std::runtime_error);
  EXPECT_NO_THROW(check_outputs({folder / std::string(255, 'n')}, {}));
  EXPECT_NO_THROW(write_file(folder / std::string(255, 'n'), "text"));
  EXPECT_ERROR_WITH(std::runtime_error, "the name has more than 255 bytes",
                    check_outputs({folder / std::string(256, 'n')}, {}));
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  if (geteuid() != 0) {  // root may write anything
    EXPECT_ERROR_WITH(std::runtime_error, "is write-protected", check_outputs({file}, {}));
  }
  EXPECT_EQ(read_file(file), "text");
}

TEST(Readable, NumbersAndTokensAreForPeople) {
  EXPECT_EQ(readable_seconds(7.25), "7.2 s");
  EXPECT_EQ(readable_seconds(75), "1 min 15 s");
  EXPECT_EQ(readable_seconds(3 * 3600 + 125), "3 h 2 min");
  EXPECT_EQ(readable_count(53210), "53.2 k");
  EXPECT_EQ(readable_token("a\n\x01"), "'a\\n\\x01'");
}

}  // namespace
