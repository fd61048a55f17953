#include "tests/support/models.hpp"
#include "tests/support/short_text.hpp"
#include "tests/test.hpp"

namespace {

// A training run and its checkpoint.
class RunningText : public Running {
 public:
  explicit RunningText(const TrainOptions& options) : training_(start(options)) {}

  std::string step() override {
    training_->run().step();
    return bits();
  }
  StateDict save() override {
    training_->save(path_);
    return read_safetensors(path_);
  }
  void load(const StateDict& state) override {
    write_safetensors(path_, state);
    try {
      training_ = resume_from(path_, short_text());
    } catch (const std::runtime_error& error) {
      throw std::invalid_argument(error.what());
    }
  }
  std::string bits() override { return fingerprint(*training_); }

 private:
  const TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "run";
  std::unique_ptr<Session> training_;
};

// Resumes in the middle of an epoch, at its end, and one step into the next epoch.
TEST(Session, IsResumable) {
  TrainOptions sinusoidal = small_run();
  sinusoidal.gpt.positions = Positions::kSinusoidal;
  sinusoidal.tokenizer = "bpe";
  // With the word tokenizer, most rows have deferred steps after every step.
  TrainOptions words = small_run();
  words.tokenizer = "word";
  words.momentum = 0.9;
  words.weight_decay = 0.001;
  words.learning_rate = 0.02;
  words.schedule = "cosine";
  words.warmup = 5;
  words.clip = 0.5;
  TrainOptions gpt = words;
  gpt.model = "gpt";
  gpt.gpt.width = 12;
  gpt.gpt.heads = 3;
  gpt.gpt.layers = 2;
  gpt.gpt.positions = Positions::kT5;
  gpt.gpt.tie_weights = true;
  gpt.optimizer = "adamw";
  gpt.momentum = 0;
  gpt.schedule = "one-cycle";
  gpt.warmup = 0;
  gpt.clip_from = 3;
  gpt.accumulate = 3;
  gpt.decays_vectors = false;
  gpt.draws_as_pytorch = true;
  gpt.evaluation.every = 2;
  gpt.evaluation.batches = 2;
  TrainOptions pairs = words;
  pairs.model = "cbow";
  pairs.subsample = 0.01;
  pairs.lines = true;
  pairs.learning_rate = 0.05;
  pairs.schedule = "linear";
  pairs.evaluation = gpt.evaluation;
  for (const TrainOptions& options : {sinusoidal, words, gpt, pairs}) {
    const std::size_t epoch = start(options)->run().steps_per_epoch();
    const auto make = [&](bool other) {
      TrainOptions chosen = options;
      chosen.seed += other ? 1 : 0;
      return std::make_unique<RunningText>(chosen);
    };
    EXPECT_FALSE(make(true)->bits() == make(false)->bits());
    expect_to_go_on({.name = options.model,
                     .make = make,
                     .steps = 2 * epoch + 3,
                     .stops = {epoch / 2, epoch, epoch + 1}});
  }
  std::vector<std::string> taken = kTakenByRuns;
  taken.emplace_back("no optimizer.*.momentum");  // as if the run had no momentum
  expect_to_refuse_damage({.name = "a run",
                           .make = [&](bool) { return std::make_unique<RunningText>(words); },
                           .steps = 60,
                           .taken = taken});
}

TEST(Session, SplitsTextBetweenCharacters) {
  using Parts = std::pair<std::string, std::string>;
  EXPECT_EQ(split_text("abcdefghij", 0.1), Parts("abcdefghi", "j"));
  EXPECT_EQ(split_text("abcdefghij", 0.25), Parts("abcdefg", "hij"));
  EXPECT_EQ(split_text("aéàb", 0.5), Parts("aé", "àb"));
  EXPECT_EQ(split_text("ab", 0), Parts("ab", ""));
  EXPECT_EQ(split_text("\x80\x80", 0.5), Parts("\x80\x80", ""));  // only continuation bytes
}

// Changed checkpoints of a run. refusal() returns why a checkpoint is rejected, without the path.
class ChangedRuns : public ::testing::Test {
 protected:
  explicit ChangedRuns(TrainOptions options = small_run()) {
    options.momentum = 0.9;
    options.tokenizer = "word";
    const auto training = start(options);
    epoch_ = static_cast<std::int64_t>(training->run().steps_per_epoch());
    training->run().train(training->run().steps_per_epoch() + 2);
    training->save(path_);
    good_ = read_safetensors(path_);
  }

  std::string refusal(const StateDict& changed) const {
    write_safetensors(path_, changed);
    const std::string message =
        error_of<std::runtime_error>([&] { resume_from(path_, short_text()); });
    EXPECT_TRUE(message.starts_with(path_.string() + ": ")) << message;
    const std::string reason = message.substr(std::min(message.size(), path_.string().size() + 2));
    EXPECT_LT(reason.size(), 200U) << reason;
    return reason;
  }
  StateDict with_option(const std::string& key, const json& value) const {
    auto options = json::parse(good_.string("options"));
    options[key] = value;
    return with(good_, "options", options.dump());
  }

  const TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "run";
  std::int64_t epoch_ = 0;
  StateDict good_;
};

TEST_F(ChangedRuns, AreRejectedWithShortMessages) {
  const std::string deep(100'000, '['), longest(100'000, 'x');
  const std::int64_t million = 1 << 24, steps = epoch_ + 2;
  // If this step count were accepted, millions of deferred steps would be applied to a row.
  const StateDict replayed =
      with(good_, "optimizer.token.weight.lazy.steps", std::vector<std::int64_t>{million});
  using Rows = std::vector<std::pair<StateDict, std::string>>;
  for (const auto& [changed, reason] :
       Rows{{with(good_, "options", deep),
             "its options: values are nested more than 64 levels deep"},
            {with(good_, "options", "{\"width\": 1e999}"),
             "its options, byte 14: the number is too large for double precision"},
            {with(good_, "options", "{\"width\": []}"), "\"tokenizer\" is missing"},
            {with_option("width", json::array()), "\"width\": got \"[]\", expected a whole number"},
            {with_option("heads", 3), "unknown option \"heads\""},
            {with(good_, "samples", "[{\"steps\": 3}]"), R"(a sample has no "steps" or no "text")"},
            {with(good_, "tokenizer", "{\"x\": " + deep + "}"),
             "tokenizer_from_json: values are nested more than 64 levels deep"},
            {replayed, concat("SGD::load_state_dict: 'token.weight.lazy.steps' has ", million,
                              ", expected a number from 1 to ", steps)},
            {with(replayed, "optimizer.token.weight.step", million),
             concat("TrainingRun: the optimizer's 'token.weight.step' is ", million,
                    ", but the run has made ", steps, " steps")},
            {without(good_, "optimizer.head.bias.step"),
             "StateDict: \"optimizer.head.bias.step\" is missing"}})
    EXPECT_EQ(refusal(changed), "cannot be resumed: " + reason);
  for (const auto& [changed, words] :
       Rows{{without(good_, "format"), "not a checkpoint of a training run"},
            {with(good_, "format", "rowgrad training 6"),
             "got the format 'rowgrad training 6', expected"},
            {with_option("optimizer", longest), "\"optimizer\": got "},
            {with_option("schedule", longest), "\"schedule\": got "},
            {with_option("positions", longest), "\"positions\": got "},
            {with(good_, "model." + longest, zeros({1})), ""},
            {with(good_, "optimizer." + longest, zeros({1})), ""},
            {with(good_, "model.head.bias", zeros({3})), "\"model.head.bias\" has shape [3]"},
            {with_option("width", 1LL << 36), ": its options describe a model of at least "},
            {with_option("hidden", {1LL << 36, 1LL << 36}),
             ": its options describe a model of at least "},
            {with_option("context", 100'000), ": its options describe a model of at least "}})
    EXPECT_HAS(refusal(changed), words);
  EXPECT_FALSE(has(refusal(with_option("context", 1 << 30)), "e+"));  // the message has all digits
}

// load_model() also rejects huge models before it allocates memory for them.
TEST_F(ChangedRuns, WithHugeModelsCannotBeLoaded) {
  write_safetensors(path_, good_);
  EXPECT_NO_THROW(load_model(path_));
  for (const auto& changed : {with_option("width", 1LL << 36), with_option("context", 100'000)}) {
    write_safetensors(path_, changed);
    EXPECT_HAS(error_of<std::runtime_error>([&] { load_model(path_); }),
               ": its options describe a model of at least ");
  }
}

TEST_F(ChangedRuns, AreRejectedIfTheirCountsDisagree) {
  const auto epoch = static_cast<double>(epoch_);
  const std::vector<std::pair<std::string, StateDict::Value>> lies{
      {"steps", StateDict::Integers{{}, {epoch_ + 3}}},
      {"epoch_tokens", StateDict::Integers{{}, {0}}},
      {"progress.epoch", StateDict::Integers{{}, {2}}},
      {"progress.batch", StateDict::Integers{{}, {3}}},
      {"schedule.step", StateDict::Integers{{}, {std::int64_t{1} << 40}}},
      {"history.steps", StateDict::Doubles{{1}, {epoch + 1}}},
      {"history.steps", StateDict::Doubles{{0}, {}}},
      {"history.steps", StateDict::Doubles{{1}, {epoch + 0.5}}},
      {"history.epoch", StateDict::Doubles{{1}, {0}}},
      {"history.epoch", StateDict::Doubles{{1}, {2}}},
      {"random.next", StateDict::Integers{{}, {1000}}},
      {"optimizer.head.bias.step", StateDict::Integers{{}, {epoch_ + 3}}}};
  for (const auto& [name, value] : lies)
    EXPECT_TRUE(refusal(with(good_, name, value)).starts_with("cannot be resumed: ")) << name;
  EXPECT_EQ(refusal(with(good_, "history.steps", StateDict::Doubles{{1}, {epoch + 3}})),
            concat("cannot be resumed: TrainingRun: a step of the history is ", epoch_ + 3,
                   ", but the run has made ", epoch_ + 2, " steps"));
}

}  // namespace
