#include "tests/support/short_text.hpp"
#include "tests/test.hpp"
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/progress.hpp>
#include <rowgrad/examples/support/run_output.hpp>
#include <rowgrad/examples/support/text_run.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>

namespace {

TrainOptions small() {
  TrainOptions options;
  options.gpt.context = 16;
  options.stride = 8;
  options.gpt.width = 8;
  options.look_back = 3;
  options.hidden = {16};
  options.epochs = 3;
  return options;
}

std::unique_ptr<TextRun> start(const TrainOptions& options) {
  return std::make_unique<TextRun>(options, make_tokenizer(options.tokenizer, short_text(), 300),
                                   short_text());
}

// The records that were made in the course of epochs.
std::vector<TrainingRecord> evaluations_of(const TextRun& training) {
  std::vector<TrainingRecord> records = training.run.history();
  std::erase_if(records, [](const TrainingRecord& record) { return record.ends_epoch(); });
  return records;
}

// The state of a run, except for the times in its history.
std::string fingerprint(const TextRun& training) {
  return bits_of(without(training.run.state_dict(), "history.tokens_per_second"));
}

TEST(TextRun, GivesTheSameBitsForTheSameSeed) {
  const auto first = start(small());
  const auto second = start(small());
  first->run.train(40);
  second->run.train(40);
  EXPECT_TRUE(fingerprint(*first) == fingerprint(*second));
  TrainOptions other = small();
  other.seed = 7;
  const auto third = start(other);
  third->run.train(40);
  EXPECT_FALSE(fingerprint(*first) == fingerprint(*third));
}

TEST(TextRun, ResumedIsAsIfNeverStopped) {
  const TemporaryFolder folder;
  TrainOptions momentum = small();
  momentum.momentum = 0.9;
  momentum.weight_decay = 0.001;
  momentum.learning_rate = 0.02;
  TrainOptions sinusoidal = small();
  sinusoidal.gpt.positions = Positions::kSinusoidal;
  sinusoidal.tokenizer = "bpe";
  // With words, updates of most rows are postponed at any time.
  TrainOptions words = momentum;
  words.tokenizer = "word";
  words.schedule = "cosine";
  words.warmup = 5;
  words.clip = 0.5;
  TrainOptions adamw = words;
  adamw.optimizer = "adamw";
  adamw.momentum = 0;
  adamw.schedule = "one-cycle";
  adamw.warmup = 0;
  TrainOptions rmsprop = words;
  rmsprop.optimizer = "rmsprop";
  rmsprop.schedule = "step";
  rmsprop.warmup_start = 0.1;
  TrainOptions adagrad = adamw;
  adagrad.optimizer = "adagrad";
  TrainOptions tied = adamw;
  tied.optimizer = "adam";
  tied.gpt.tie_weights = true;
  TrainOptions gpt = adamw;
  gpt.gpt.width = 12;
  gpt.gpt.positions = Positions::kT5;
  gpt.accumulate = 3;
  gpt.decays_vectors = false;
  gpt.draws_as_pytorch = true;
  gpt.evaluation.every = 2;
  gpt.evaluation.batches = 2;
  gpt.clip_from = 3;
  gpt.model = "gpt";
  gpt.gpt.heads = 3;
  gpt.gpt.layers = 2;
  for (const TrainOptions& options :
       {small(), momentum, sinusoidal, words, adamw, rmsprop, adagrad, tied, gpt}) {
    const auto whole = start(options);
    const auto epoch = static_cast<std::size_t>(whole->run.steps_per_epoch());
    // In the middle of an epoch, at the end of one, and one step into the next.
    for (const std::size_t stop : {epoch / 2, epoch, epoch + 1}) {
      const auto stopped = start(options);
      stopped->run.train(stop);
      stopped->save(folder / "checkpoint");
      const auto resumed = TextRun::resume(folder / "checkpoint", short_text());
      EXPECT_EQ(resumed->run.steps(), stop);
      resumed->run.train(2 * epoch + 3);
      const auto reference = start(options);
      reference->run.train(2 * epoch + 3);
      EXPECT_TRUE(fingerprint(*resumed) == fingerprint(*reference)) << stop;
      EXPECT_EQ(resumed->run.history().size(), reference->run.history().size());
    }
  }
}

TEST(TextRun, SavesAGptThatAProgramOfOnesOwnLoads) {
  const TemporaryFolder folder;
  TrainOptions options = small();
  options.gpt.positions = Positions::kRotary;
  options.model = "gpt";
  options.gpt.heads = 2;
  options.gpt.layers = 1;
  options.gpt.memories.blocks = {0};
  options.gpt.memories.ngrams = {.orders = {2}, .rows = 50, .seed = 5};
  options.ngram_fold = true;
  const auto training = start(options);
  training->run.train(2);
  training->save(folder / "run");
  const SavedGpt saved = load_gpt(folder / "run");
  EXPECT_EQ(saved.tokenizer->to_json(), training->tokenizer().to_json());
  EXPECT_TRUE(bits_of(saved.model->state_dict()) == bits_of(training->model().state_dict()));
  const Ids prompt = training->first_words();
  Random one(1), other(1);
  EXPECT_EQ(generate(*saved.model, prompt, {.count = 9}, one),
            generate(training->model(), prompt, {.count = 9}, other));
}

TEST(TextRun, FollowsItsScheduleAndGoesOnWithAnotherRate) {
  TrainOptions options = small();
  options.schedule = "cosine";
  options.warmup = 4;
  const auto training = start(options);
  EXPECT_DOUBLE_EQ(training->run.parts().optimizer.learning_rate(), 0.3 / 5);
  training->run.train(4);
  EXPECT_DOUBLE_EQ(training->run.parts().optimizer.learning_rate(), 0.3);
  const std::size_t total = options.epochs * training->run.steps_per_epoch();
  training->run.train(4 + (total - 4) / 2);
  EXPECT_NEAR(training->run.parts().optimizer.learning_rate(), 0.15, 0.02);
  const double before = training->run.parts().optimizer.learning_rate();
  options.learning_rate = 0.6;
  training->set_options(options);
  EXPECT_DOUBLE_EQ(training->run.parts().optimizer.learning_rate(), 2 * before);
  training->run.train(total);
  EXPECT_LT(training->run.parts().optimizer.learning_rate(), 1e-9);
}

TEST(TextRun, EvaluatesTheSameWindowsWithoutAnEffectOnTheRun) {
  TrainOptions options = small();
  const auto plain = start(options);
  options.evaluation.every = 3;
  options.evaluation.batches = 2;
  const auto evaluated = start(options);
  plain->run.train(20);
  evaluated->run.train(20);
  Checkpoint state = evaluated->run.state_dict();
  const Checkpoint without_evaluations = plain->run.state_dict();
  for (const std::string& name : without_evaluations.names())
    if (name.starts_with("history.")) state = with(state, name, without_evaluations.at(name));
  EXPECT_TRUE(bits_of(without(state, "history.tokens_per_second")) == fingerprint(*plain));
  const std::vector<TrainingRecord> losses = evaluations_of(*evaluated);
  ASSERT_EQ(losses.size(), 7U);  // after steps 1, 4, … 19
  EXPECT_EQ(losses[1].steps, 4U);
  EXPECT_LT(*losses[6].validation_loss, *losses[0].validation_loss);
  std::vector<TrainingRecord> epochs = evaluated->run.history();
  std::erase_if(epochs, [](const TrainingRecord& record) { return !record.ends_epoch(); });
  ASSERT_EQ(epochs.size(), plain->run.history().size());
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    EXPECT_EQ(epochs[i].training_loss, plain->run.history()[i].training_loss);
    EXPECT_EQ(epochs[i].validation_loss, plain->run.history()[i].validation_loss);
  }
  options.learning_rate = 0;
  const auto still = start(options);
  still->run.train(20);
  EXPECT_EQ(evaluations_of(*still)[0].training_loss, evaluations_of(*still)[6].training_loss);
}

TEST(TextRun, KnowsTheTokensOfTheStepsThatAreLeft) {
  TrainOptions options = small();
  options.accumulate = 3;
  for (const bool drop_last : {false, true}) {
    options.draws_as_pytorch = drop_last;
    const auto training = start(options);
    const std::size_t all = training->run.units_left();
    const std::size_t epoch = training->run.steps_per_epoch();
    std::size_t before = 0;  // in the epochs before
    for (std::size_t step = 1; step <= 3 * epoch; ++step) {
      struct : RunObserver {
        void before_update(const TrainingRun& run) override {
          tokens = static_cast<std::size_t>(run.state_dict().number("epoch_tokens"));
        }
        std::size_t tokens = 0;
      } last;
      TrainingRun& run = training->run;
      run.observe(last);
      run.train(step);
      run.forget(last);
      EXPECT_EQ(all - run.units_left(), before + last.tokens);
      EXPECT_EQ(start(options)->run.units_left(step), before + last.tokens);
      if (step % epoch == 0) before += last.tokens;
    }
    EXPECT_EQ(training->run.units_left(), 0U);
    EXPECT_EQ(training->run.units_left(1), 0U);
  }
}

// Stops when it was asked that often.
struct StopsAfter : RunObserver {
  explicit StopsAfter(int times) : left(times) {}
  bool goes_on(const TrainingRun&) override { return --left > 0; }
  int left;
};

TEST(TextRun, InterruptedInALossGoesOnWithIt) {
  TrainOptions options = small();
  options.draws_as_pytorch = true;
  options.evaluation.every = 4;
  const auto whole = start(options);
  const auto stopped = start(options);
  whole->run.train(12);
  const TemporaryFolder folder;
  stopped->run.train(8);
  StopsAfter second_batch(4);  // the beginning, the step, and two batches
  stopped->run.observe(second_batch);
  EXPECT_FALSE(stopped->run.train());
  ASSERT_EQ(stopped->run.steps(), 9U);
  EXPECT_EQ(second_batch.left, 0);
  EXPECT_EQ(evaluations_of(*stopped).back().steps, 5U);
  stopped->save(folder / "checkpoint");
  const auto resumed = TextRun::resume(folder / "checkpoint", short_text());
  resumed->run.train(10);
  EXPECT_EQ(evaluations_of(*resumed).back().steps, 9U);
  EXPECT_EQ(evaluations_of(*resumed).size(), 3U);  // it is known now
  resumed->run.train(12);
  EXPECT_TRUE(fingerprint(*resumed) == fingerprint(*whole));
}

TEST(TextRun, SplitsTheTextBetweenCharacters) {
  using Parts = std::pair<std::string, std::string>;
  EXPECT_EQ(split_text("abcdefghij", 0.1), Parts("abcdefghi", "j"));
  EXPECT_EQ(split_text("abcdefghij", 0.25), Parts("abcdefg", "hij"));
  EXPECT_EQ(split_text("aéàb", 0.5), Parts("aé", "àb"));
  EXPECT_EQ(split_text("ab", 0), Parts("ab", ""));
  EXPECT_EQ(split_text("\x80\x80", 0.5), Parts("\x80\x80", ""));  // no character begins
}

TEST(TextRun, ClipsTheGradients) {
  TrainOptions options = small();
  options.clip = 1e-3;
  options.learning_rate = 1;
  const auto clipped = start(options);
  const Parameter& weight = dynamic_cast<NextTokenModel&>(clipped->model()).head.weight;
  const Tensor before = weight.value();
  clipped->run.train(1);
  // A step with learning rate 1 moves all parameters together by the norm of their gradients.
  double squares = 0;
  for (std::size_t i = 0; i < before.size(); ++i)
    squares += std::pow(weight.value().data()[i] - before.data()[i], 2);
  EXPECT_LE(std::sqrt(squares), 1.001e-3);
  EXPECT_GT(squares, 0);
}

TEST(TextRun, RefusesACheckpointThatIsNotItsOwn) {
  const TemporaryFolder folder;
  const auto training = start(small());
  training->save(folder / "good");
  const std::string bytes = read_file(folder / "good");
  const auto message = [&](const std::string& contents, const std::string& of_text) {
    write_file(folder / "other", contents);
    return error_of<std::runtime_error>([&] { TextRun::resume(folder / "other", of_text); });
  };
  EXPECT_HAS(message(bytes, short_text() + "!"), "another text");
  EXPECT_HAS(message(bytes.substr(0, bytes.size() / 2), short_text()), (folder / "other").string());
  EXPECT_HAS(message("hello", short_text()), (folder / "other").string());

  write_safetensors(folder / "foreign", training->model().state_dict());
  EXPECT_ERROR_WITH(std::runtime_error, "not a checkpoint of a training run",
                    TextRun::resume(folder / "foreign", short_text()));
  Checkpoint older = read_safetensors(folder / "good");
  older.erase("format");
  older.put("format", "rowgrad training 6");
  write_safetensors(folder / "older", older);
  EXPECT_ERROR_WITH(std::runtime_error, "the format is 'rowgrad training 6', expected",
                    TextRun::resume(folder / "older", short_text()));

  write_safetensors(folder / "mismatch",
                    with(read_safetensors(folder / "good"), "model.head.bias", zeros({3})));
  EXPECT_ERROR_WITH(std::runtime_error, "\"model.head.bias\" has shape [3]",
                    TextRun::resume(folder / "mismatch", short_text()));
}

// The message for a checkpoint with another value under a name, after the path.
std::string refusal(const TemporaryFolder& folder, const Checkpoint& changed) {
  write_safetensors(folder / "changed", changed);
  const std::string message =
      error_of<std::runtime_error>([&] { TextRun::resume(folder / "changed", short_text()); });
  const std::string beginning = (folder / "changed").string() + ": cannot be resumed: ";
  EXPECT_TRUE(message.starts_with(beginning)) << message;
  return message.substr(std::min(message.size(), beginning.size()));
}

TEST(TextRun, RefusesACheckpointWhoseCountsDoNotAgree) {
  const TemporaryFolder folder;
  const auto training = start(small());
  const auto epoch = static_cast<std::int64_t>(training->run.steps_per_epoch());
  training->run.train(training->run.steps_per_epoch() + 2);
  training->save(folder / "good");
  const Checkpoint good = read_safetensors(folder / "good");
  const std::vector<std::pair<std::string, Checkpoint::Value>> lies{
      {"steps", Checkpoint::Integers{{}, {epoch + 3}}},
      {"steps", Checkpoint::Integers{{}, {-1}}},
      {"steps", Checkpoint::Integers{{2}, {1, 2}}},
      {"steps", Checkpoint::Doubles{{}, {2.5}}},
      {"epoch_tokens", Checkpoint::Integers{{}, {0}}},
      {"epoch_tokens", "many"},
      {"epoch_loss_sum", "many"},
      {"loader.epoch", Checkpoint::Integers{{}, {2}}},
      {"loader.epoch", Checkpoint::Integers{{}, {std::int64_t{1} << 62}}},
      {"loader.batch", Checkpoint::Integers{{}, {3}}},
      {"schedule.step", Checkpoint::Integers{{}, {std::int64_t{1} << 40}}},
      {"history.steps", Checkpoint::Doubles{{1}, {7}}},
      {"history.steps", Checkpoint::Doubles{{0}, {}}},
      {"history.steps", Checkpoint::Doubles{{1}, {static_cast<double>(epoch) + 0.5}}},
      {"history.epoch", Checkpoint::Doubles{{1}, {0}}},
      {"history.epoch", Checkpoint::Doubles{{1}, {2}}},
      {"history.epoch", Checkpoint::Doubles{{1}, {-1}}},
      {"history.training_loss", Checkpoint::Doubles{{2}, {1, 2}}},
      {"random.next", Checkpoint::Integers{{}, {1000}}},
      {"optimizer.head.bias.step", Checkpoint::Integers{{}, {epoch + 3}}}};
  for (const auto& [name, value] : lies) refusal(folder, with(good, name, value));
  const Checkpoint::Doubles late{{1}, {static_cast<double>(epoch) + 3}};
  EXPECT_EQ(refusal(folder, with(good, "history.steps", late)),
            concat("TrainingRun: the history has a record of step ", epoch + 3, ", the run ",
                   epoch + 2, " steps"));
  for (const std::string& name : good.names())
    if (!name.starts_with("optimizer.") && name != "format") refusal(folder, without(good, name));
}

TEST(TextRun, ThatRefusesAStateGoesOnAsIfItHadNot) {
  TrainOptions options = small();
  options.momentum = 0.9;
  const auto other = start(options);
  other->run.train(11);
  const Checkpoint state = other->run.state_dict();
  const auto training = start(options);
  training->run.train(7);
  const std::string before = fingerprint(*training);
  for (const char* name : {"history.steps", "random.next", "model.head.bias"})
    EXPECT_THROW(training->run.load_state_dict(without(state, name)), std::invalid_argument);
  EXPECT_THROW(training->run.load_state_dict(with(state, "optimizer.head.bias.momentum", "text")),
               std::invalid_argument);
  EXPECT_TRUE(fingerprint(*training) == before);
  const auto reference = start(options);
  reference->run.train(9);
  training->run.train(9);
  EXPECT_TRUE(fingerprint(*training) == fingerprint(*reference));
  training->run.load_state_dict(state);
  EXPECT_TRUE(fingerprint(*training) == fingerprint(*other));
}

TEST(TextRun, RefusesACheckpointWithDeepOrLongTextsInAFewWords) {
  const TemporaryFolder folder;
  start(small())->save(folder / "good");
  const Checkpoint good = read_safetensors(folder / "good");
  const auto message = [&](const std::string& name, const std::string& value) {
    const std::string reason = refusal(folder, with(good, name, value));
    EXPECT_LT(reason.size(), 200U);
    return reason;
  };
  const std::string deep(100'000, '[');
  const std::string longest(100'000, 'x');
  EXPECT_EQ(message("options", deep), "its options: values are nested too deep");
  EXPECT_EQ(message("options", "{\"width\": 1e999}"), "its options, byte 14: a number too large");
  EXPECT_EQ(message("options", "{\"width\": []}"), "\"model\" is missing");
  auto wrong = json::parse(good.text("options"));
  wrong["width"] = json::array();
  EXPECT_EQ(message("options", wrong.dump()), "\"width\": got \"[]\", expected a whole number");
  EXPECT_EQ(message("samples", "[{\"steps\": 3}]"), "a sample lacks its steps or its text");
  EXPECT_EQ(message("tokenizer", "{\"x\": " + deep + "}"),
            "tokenizer_from_json: values are nested too deep");
  for (const char* key : {"optimizer", "schedule", "positions"}) {
    auto options = json::parse(good.text("options"));
    options[key] = longest;
    message("options", options.dump());
  }
  for (const std::string prefix : {"model.", "optimizer."}) {
    Checkpoint more = good;
    more.put(prefix + longest, zeros({1}));
    EXPECT_LT(refusal(folder, more).size(), 200U);
  }
}

TEST(TextRun, RefusesACheckpointThatClaimsMoreThanItHolds) {
  const TemporaryFolder folder;
  TrainOptions options = small();
  options.momentum = 0.9;
  options.tokenizer = "word";
  const auto training = start(options);
  training->run.train(9);
  training->save(folder / "good");
  const Checkpoint good = read_safetensors(folder / "good");
  // Otherwise, rows would be replayed that often, or models made that large.
  const Checkpoint replayed =
      with(good, "optimizer.token.weight.lazy.steps", std::vector<std::int64_t>{1 << 24});
  EXPECT_EQ(refusal(folder, replayed),
            "SGD::load_state_dict: 'token.weight.lazy.steps' has 16777216, expected a number from "
            "1 to 9");
  EXPECT_EQ(refusal(folder, with(replayed, "optimizer.token.weight.step", 1 << 24)),
            "TrainingRun: the optimizer's 'token.weight.step' is 16777216, more than the 9 steps "
            "of the run");
  EXPECT_EQ(refusal(folder, without(good, "optimizer.head.bias.step")),
            "Checkpoint: \"optimizer.head.bias.step\" is missing");
  for (const auto& [key, value] : std::vector<std::pair<std::string, json>>{
           {"width", 1LL << 36}, {"hidden", {1LL << 36, 1LL << 36}}, {"context", 100000}}) {
    auto changed = json::parse(good.text("options"));
    changed[key] = value;
    EXPECT_TRUE(refusal(folder, with(good, "options", changed.dump()))
                    .starts_with("its options say that the model has "))
        << key;
  }
}

TEST(TextRun, InterruptedInItsValidationGoesOnWithIt) {
  const TemporaryFolder folder;
  const auto reference = start(small());
  const std::size_t epoch = reference->run.steps_per_epoch();
  reference->run.train(2 * epoch);
  const auto stopped = start(small());
  run_program("test", [&] {
    const HeldInterrupts held;
    struct : StopsOnInterrupts {
      void before_update(const TrainingRun& run) override {
        if (run.steps() + 1 == run.steps_per_epoch()) std::raise(SIGINT);
      }
    } interrupts;
    stopped->run.observe(interrupts);
    EXPECT_FALSE(stopped->run.run_epoch());
    EXPECT_EQ(stopped->run.steps(), epoch);
    EXPECT_TRUE(stopped->run.history().empty());
    stopped->save(folder / "checkpoint");
    return 0;
  });
  const auto resumed = TextRun::resume(folder / "checkpoint", short_text());
  resumed->run.run_epoch();
  EXPECT_EQ(resumed->run.steps(), epoch);
  ASSERT_EQ(resumed->run.history().size(), 1U);
  EXPECT_EQ(resumed->run.history()[0].validation_loss, reference->run.history()[0].validation_loss);
  resumed->run.train(2 * epoch);
  EXPECT_TRUE(fingerprint(*resumed) == fingerprint(*reference));
}

TEST(TextRun, LearnsBelowTheUnigramLoss) {
  TrainOptions options = small();
  options.gpt.dropout = 0;
  options.epochs = 12;
  options.learning_rate = 0.5;
  const auto training = start(options);
  for (std::size_t epoch = 0; epoch < options.epochs; ++epoch) training->run.run_epoch();
  const TrainingRecord& last = training->run.history().back();
  const double unigram = unigram_loss(training->training_ids(), *training->validation_ids(),
                                      training->tokenizer().size());
  EXPECT_LT(*last.validation_loss, unigram - 0.1);
  EXPECT_LT(last.training_loss, training->run.history().front().training_loss);
}

TEST(TextRun, RefusesAValidationPartWithoutAWindow) {
  TrainOptions options = small();
  options.validation = 0.001;
  EXPECT_ERROR_WITH(std::invalid_argument, "--validation 0.001", start(options));
}

TEST(MetricsCsv, HasALineAnEpoch) {
  const auto training = start(small());
  training->run.run_epoch();
  const std::string csv = metrics_csv(training->run);
  EXPECT_TRUE(csv.starts_with("epoch,steps,training_loss,validation_loss,tokens_per_second\n1,"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 2);
}

}  // namespace
