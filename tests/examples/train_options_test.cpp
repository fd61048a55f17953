#include "tests/support/options_given.hpp"
#include "tests/test.hpp"
#include <rowgrad/examples/support/progress.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>
#include <rowgrad/examples/support/train_options.hpp>

namespace {

TEST(CommandLine, CanBeRepeatedInAShell) {
  std::string prompt;
  std::vector<std::uint64_t> hidden{256};
  std::uint64_t steps = 7;
  bool tie = true, bias = false;
  const CommandLine line = given(
      {{"--prompt", &prompt, ""},
       {"--hidden", &hidden, "", whole_number(0)},
       {"--steps", &steps, "", whole_number(0)},
       {"--bias", &bias, ""},
       {"--tie", &tie, ""}},
      {"my programs/train", "--prompt", "it's \"so\" $x", "--hidden", "3,4", "--bias", "--no-tie"});
  EXPECT_EQ(line.repeated(),
            "'my programs/train' --prompt 'it'\\''s \"so\" $x' --hidden 3 4 --bias --no-tie");
  const std::map<std::string, std::string> texts = texts_of(line.options());
  EXPECT_EQ(texts.at("--hidden"), "3 4");
  EXPECT_EQ(texts.at("--steps"), "7");
  EXPECT_FALSE(texts.contains("--help"));
  EXPECT_TRUE(line.was_given("--tie"));
  EXPECT_FALSE(line.was_given("--steps"));
}

TEST(CommandLine, TakesPresetsWhereNothingElseIsGiven) {
  TrainOptions options;
  CommandLine line = given(option_table_of(options), {"train", "--width", "7"});
  line.set_if_not_given(R"({"width": 8, "hidden": [9], "tie": true, "dropout": 0.25})");
  EXPECT_EQ(options.gpt.width, 7U);
  EXPECT_EQ(options.hidden, std::vector<std::uint64_t>{9});
  EXPECT_TRUE(options.gpt.tie_weights);
  EXPECT_EQ(options.gpt.dropout, 0.25);
  EXPECT_INVALID("there is no option for \"head\"", line.set_if_not_given(R"({"head": 8})"));
  EXPECT_INVALID("\"tie\": got \"3\", expected true or false",
                 line.set_if_not_given(R"({"tie": 3})"));
}

// As `train` is given them.
CommandLine given_to(TrainOptions& options, const std::string& arguments) {
  std::istringstream words("train " + arguments);
  return given(option_table_of(options),
               std::vector<std::string>(std::istream_iterator<std::string>(words), {}));
}

TEST(TrainOptions, TakeTheDefaultsOfTheOptimizer) {
  for (const auto& [arguments, learning_rate, weight_decay] :
       std::vector<std::tuple<std::string, double, double>>{
           {"", 0.3, 0},
           {"--optimizer adamw", 0.001, 0.01},
           {"--optimizer adamw --weight-decay 0", 0.001, 0},
           {"--learning-rate 2 --optimizer adam", 2, 0},
           {"--optimizer rmsprop", 0.001, 0}}) {
    TrainOptions options;
    complete(given_to(options, arguments), options);
    EXPECT_EQ(options.learning_rate, learning_rate) << arguments;
    EXPECT_EQ(options.weight_decay, weight_decay) << arguments;
  }
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

TEST(TrainOptions, WarmUpAndDecayAsTheTextbooksAppendixDoes) {
  TrainOptions options;
  options.schedule = "cosine";
  options.warmup = 27;
  EXPECT_DOUBLE_EQ(options.make_schedule(135).factor(0), 1.0 / 28);
  options.warmup_start = options.floor = 0.01;
  const Schedule schedule = options.make_schedule(135);
  for (int k = 0; k <= 135; ++k) {
    const double decayed = (1 + std::cos(M_PI * (k - 27) / 108)) / 2;
    const double share = k < 27 ? k / 27.0 : decayed;
    EXPECT_NEAR(1e-3 * schedule.factor(k), 1e-5 + (1e-3 - 1e-5) * share, 1e-17) << k;
  }
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

TEST(TrainOptions, RefuseWhatHasNoEffect) {
  const auto check = [](const std::string& arguments) {
    TrainOptions options;
    options.model = "gpt";
    given_to(options, arguments);
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

TEST(Readable, NumbersAndTokensAreForPeople) {
  EXPECT_EQ(readable_seconds(7.25), "7.2 s");
  EXPECT_EQ(readable_seconds(75), "1 min 15 s");
  EXPECT_EQ(readable_seconds(3 * 3600 + 125), "3 h 2 min");
  EXPECT_EQ(readable_count(53210), "53.2 k");
  EXPECT_EQ(readable_token("a\n\x01"), "'a\\n\\x01'");
}

}  // namespace
