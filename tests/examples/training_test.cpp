#include <csignal>

#include <gtest/gtest.h>

#include "tests/support/error_of.hpp"
#include "tests/support/temporary_folder.hpp"
#include <rowgrad/core/data/character_tokenizer.hpp>
#include <rowgrad/core/io/file.hpp>
#include <rowgrad/examples/support/builtin_story.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/report.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>
#include <rowgrad/examples/support/training.hpp>

namespace rowgrad {
namespace {

using testing::error_of;
using testing::TemporaryFolder;

// Long enough for a few dozen steps, short enough for a test.
std::string text() { return std::string(kBuiltinStory).substr(0, 2500); }

TrainOptions small() {
  TrainOptions options;
  options.context = 16;
  options.stride = 8;
  options.width = 8;
  options.look_back = 3;
  options.hidden = {16};
  options.epochs = 3;
  return options;
}

std::unique_ptr<Training> start(const TrainOptions& options) {
  return std::make_unique<Training>(options, make_tokenizer(options.tokenizer, text(), 300),
                                    text());
}

void run(Training& training, std::size_t steps) {
  while (training.steps() < steps &&
         training.run_epoch([&](double) { return training.steps() < steps; })) {
  }
}

// Everything a checkpoint holds, but for the times in its history.
std::string fingerprint(const Training& training, const TemporaryFolder& folder) {
  training.save(folder / "fingerprint");
  const SafetensorsFile file = read_safetensors(folder / "fingerprint");
  std::string all;
  for (const auto& [name, tensor] : file.tensors) {
    all += name;
    all.append(reinterpret_cast<const char*>(tensor.data()), tensor.size() * sizeof(real));
  }
  auto metadata = nlohmann::json::parse(file.metadata.at("run"));
  for (auto& record : metadata["history"]) record.erase("tokens_per_second");
  return all + metadata.dump();
}

TEST(Training, GivesTheSameBitsForTheSameSeed) {
  const TemporaryFolder folder;
  const auto first = start(small());
  const auto second = start(small());
  run(*first, 40);
  run(*second, 40);
  EXPECT_EQ(fingerprint(*first, folder), fingerprint(*second, folder));
  TrainOptions other = small();
  other.seed = 7;
  const auto third = start(other);
  run(*third, 40);
  EXPECT_NE(fingerprint(*first, folder), fingerprint(*third, folder));
}

TEST(Training, ResumedIsAsIfNeverStopped) {
  const TemporaryFolder folder;
  TrainOptions momentum = small();
  momentum.momentum = 0.9;
  momentum.weight_decay = 0.001;
  momentum.learning_rate = 0.02;
  TrainOptions sinusoidal = small();
  sinusoidal.positions = "sinusoidal";
  sinusoidal.tokenizer = "bpe";
  // Words: most rows of the table are owed updates at any time.
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
  TrainOptions adagrad = adamw;
  adagrad.optimizer = "adagrad";
  TrainOptions tied = adamw;
  tied.optimizer = "adam";
  tied.tie = true;
  for (const TrainOptions& options :
       {small(), momentum, sinusoidal, words, adamw, rmsprop, adagrad, tied}) {
    const auto whole = start(options);
    const auto epoch = static_cast<std::size_t>(whole->steps_per_epoch());
    // In the middle of an epoch, at the end of one, and one step into the next.
    for (const std::size_t stop : {epoch / 2, epoch, epoch + 1}) {
      const auto stopped = start(options);
      run(*stopped, stop);
      stopped->save(folder / "checkpoint");
      const auto resumed = Training::resume(folder / "checkpoint", text());
      EXPECT_EQ(resumed->steps(), stop);
      run(*resumed, 2 * epoch + 3);
      const auto reference = start(options);
      run(*reference, 2 * epoch + 3);
      EXPECT_EQ(fingerprint(*resumed, folder), fingerprint(*reference, folder)) << stop;
    }
  }
}

TEST(Training, FollowsItsScheduleAndGoesOnWithAnotherRate) {
  TrainOptions options = small();
  options.schedule = "cosine";
  options.warmup = 4;
  const auto training = start(options);
  EXPECT_DOUBLE_EQ(training->learning_rate(), 0.01 * 0.3);
  run(*training, 4);
  EXPECT_DOUBLE_EQ(training->learning_rate(), 0.3);
  const std::size_t total = options.epochs * training->steps_per_epoch();
  run(*training, 4 + (total - 4) / 2);
  EXPECT_NEAR(training->learning_rate(), 0.15, 0.02);
  const double before = training->learning_rate();
  options.learning_rate = 0.6;
  training->set_options(options);
  EXPECT_DOUBLE_EQ(training->learning_rate(), 2 * before);
  run(*training, total);
  EXPECT_LT(training->learning_rate(), 1e-9);
}

TEST(Training, ClipsTheGradients) {
  TrainOptions options = small();
  options.clip = 1e-3;
  options.learning_rate = 1;
  const auto clipped = start(options);
  const Tensor before = clipped->model.head.weight.value();
  run(*clipped, 1);
  // One step of rate 1 moves all parameters together by the gradients' norm.
  double squares = 0;
  for (std::size_t i = 0; i < before.size(); ++i)
    squares += std::pow(clipped->model.head.weight.value().data()[i] - before.data()[i], 2);
  EXPECT_LE(std::sqrt(squares), 1.001e-3);
  EXPECT_GT(squares, 0);
}

TEST(Training, RefusesACheckpointThatIsNotItsOwn) {
  const TemporaryFolder folder;
  const auto training = start(small());
  training->save(folder / "good");
  const std::string bytes = read_file(folder / "good");
  const auto message = [&](const std::string& contents, const std::string& of_text) {
    write_file(folder / "other", contents);
    return error_of<std::runtime_error>([&] { Training::resume(folder / "other", of_text); });
  };
  EXPECT_NE(message(bytes, text() + "!").find("another text"), std::string::npos);
  EXPECT_NE(message(bytes.substr(0, bytes.size() / 2), text()).find((folder / "other").string()),
            std::string::npos);
  EXPECT_NE(message("hello", text()).find((folder / "other").string()), std::string::npos);

  write_safetensors(folder / "foreign", training->model.state());
  EXPECT_NE(error_of<std::runtime_error>([&] {
              Training::resume(folder / "foreign", text());
            }).find("not a checkpoint of train_verdict"),
            std::string::npos);

  SafetensorsFile file = read_safetensors(folder / "good");
  file.tensors.at("model.head.bias") = zeros({3});
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : file.tensors) tensors.emplace_back(name, &tensor);
  write_safetensors(folder / "mismatch", tensors, file.metadata);
  EXPECT_NE(error_of<std::runtime_error>([&] {
              Training::resume(folder / "mismatch", text());
            }).find("'head.bias' has shape [3]"),
            std::string::npos);
}

// A checkpoint with another value for one of the things it counts, at a place in its progress.
std::string error_of_lie(const std::filesystem::path& path, const std::string& place,
                         const nlohmann::json& value) {
  SafetensorsFile file = read_safetensors(path);
  auto run = nlohmann::json::parse(file.metadata.at("run"));
  run[nlohmann::json::json_pointer(place)] = value;
  file.metadata["run"] = run.dump();
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : file.tensors) tensors.emplace_back(name, &tensor);
  const std::string lie = path.string() + ".lie";
  write_safetensors(lie, tensors, file.metadata);
  return error_of<std::runtime_error>([&] { Training::resume(lie, text()); });
}

TEST(Training, RefusesACheckpointWhoseCountsDoNotAgree) {
  const TemporaryFolder folder;
  const auto training = start(small());
  const std::size_t epoch = training->steps_per_epoch();
  run(*training, epoch + 2);
  training->save(folder / "good");
  for (const auto& [place, value] :
       std::vector<std::pair<std::string, nlohmann::json>>{{"/steps", epoch + 3},
                                                           {"/steps", -1},
                                                           {"/steps", epoch + 2.5},
                                                           {"/epoch_tokens", 1},
                                                           {"/epoch_tokens", "many"},
                                                           {"/loader/epoch", 2},
                                                           {"/loader/epoch", 1LL << 62},
                                                           {"/loader/batch", 3},
                                                           {"/schedule/step_count", 1LL << 40},
                                                           {"/history/0/epoch", 7},
                                                           {"/history/0/steps", 7},
                                                           {"/history", nlohmann::json::array()}}) {
    const std::string message = error_of_lie(folder / "good", place, value);
    EXPECT_NE(message.find("good.lie: cannot be resumed: its "), std::string::npos)
        << place << ' ' << value << ": " << message;
  }
}

TEST(Training, RefusesACheckpointWithDeepOrLongTextsInAFewWords) {
  const TemporaryFolder folder;
  start(small())->save(folder / "good");
  const auto message = [&](const auto& change) {
    SafetensorsFile file = read_safetensors(folder / "good");
    change(file);
    std::vector<NamedTensor> tensors;
    for (const auto& [name, tensor] : file.tensors) tensors.emplace_back(name, &tensor);
    write_safetensors(folder / "odd", tensors, file.metadata);
    const std::string text_of_error =
        error_of<std::runtime_error>([&] { Training::resume(folder / "odd", text()); });
    EXPECT_LT(text_of_error.size(), folder.path().string().size() + 200);
    return text_of_error.substr(folder.path().string().size());
  };
  const std::string deep(100'000, '[');
  const std::string longest(100'000, 'x');
  EXPECT_EQ(message([&](SafetensorsFile& file) { file.metadata["run"] = deep; }),
            "/odd: cannot be resumed: its run: values are nested too deep");
  EXPECT_EQ(message([&](SafetensorsFile& file) { file.metadata["options"] = deep; }),
            "/odd: cannot be resumed: its options: values are nested too deep");
  EXPECT_EQ(
      message([&](SafetensorsFile& file) { file.metadata["tokenizer"] = "{\"x\": " + deep + "}"; }),
      "/odd: cannot be resumed: tokenizer_from_json: values are nested too deep");
  EXPECT_EQ(message([&](SafetensorsFile& file) { file.metadata["run"] = "{\"steps\": 1e999}"; }),
            "/odd: cannot be resumed: its run, byte 14: a number too large");
  EXPECT_EQ(message([&](SafetensorsFile& file) { file.metadata["run"] = "{\"loader\": []}"; }),
            "/odd: cannot be resumed: its metadata is not that of a run");
  for (const char* key : {"optimizer", "schedule", "positions"})
    message([&](SafetensorsFile& file) {
      auto options = nlohmann::json::parse(file.metadata.at("options"));
      options[key] = longest;
      file.metadata["options"] = options.dump();
    });
  for (const std::string prefix : {"model.", "optimizer."})
    message([&](SafetensorsFile& file) { file.tensors[prefix + longest] = zeros({1}); });
}

TEST(Training, RefusesACheckpointThatClaimsMoreThanItHolds) {
  const TemporaryFolder folder;
  TrainOptions options = small();
  options.momentum = 0.9;
  options.tokenizer = "word";
  const auto training = start(options);
  run(*training, 9);
  training->save(folder / "good");
  const auto message = [&](const auto& change) {
    SafetensorsFile file = read_safetensors(folder / "good");
    change(file);
    std::vector<NamedTensor> tensors;
    for (const auto& [name, tensor] : file.tensors) tensors.emplace_back(name, &tensor);
    write_safetensors(folder / "lie", tensors, file.metadata);
    return error_of<std::runtime_error>([&] { Training::resume(folder / "lie", text()); });
  };
  // Rows would be replayed that often, or models be made that large.
  EXPECT_NE(message([](SafetensorsFile& file) {
              file.tensors.at("optimizer.late.history.token.weight")(0, 0) = 16777215;
            }).find("more steps than the parameter's 9"),
            std::string::npos);
  EXPECT_NE(message([](SafetensorsFile& file) {
              file.tensors.at("optimizer.late.history.token.weight")(0, 0) = 16777215;
              file.tensors.at("optimizer.step.token.weight") = Tensor{0, 16777215};
            }).find("'step.token.weight' is not the 9 steps of the run"),
            std::string::npos);
  EXPECT_NE(message([](SafetensorsFile& file) {
              std::erase_if(file.tensors, [](const auto& tensor) {
                return tensor.first.starts_with("optimizer.") &&
                       tensor.first.ends_with(".head.bias");
              });
            }).find("'step.head.bias' is not the 9 steps of the run"),
            std::string::npos);
  for (const auto& [key, value] : std::vector<std::pair<std::string, nlohmann::json>>{
           {"width", 1LL << 50}, {"hidden", {1LL << 40, 1LL << 40}}, {"context", 100000}})
    EXPECT_NE(message([&key = key, &value = value](SafetensorsFile& file) {
                auto changed = nlohmann::json::parse(file.metadata.at("options"));
                changed[key] = value;
                file.metadata["options"] = changed.dump();
              }).find("its options say"),
              std::string::npos)
        << key;
}

TEST(Training, InterruptedInItsValidationGoesOnWithIt) {
  const TemporaryFolder folder;
  const auto reference = start(small());
  const std::size_t epoch = reference->steps_per_epoch();
  run(*reference, 2 * epoch);
  const auto stopped = start(small());
  run_program("test", [&] {
    const HeldInterrupts held;
    const bool whole = stopped->run_epoch([&](double) {
      if (stopped->steps() == epoch) std::raise(SIGINT);
      return true;
    });
    EXPECT_FALSE(whole);
    EXPECT_TRUE(stopped->history().empty());
    stopped->save(folder / "checkpoint");
    return 0;
  });
  const auto resumed = Training::resume(folder / "checkpoint", text());
  resumed->run_epoch([](double) { return true; });
  EXPECT_EQ(resumed->steps(), epoch);
  ASSERT_EQ(resumed->history().size(), 1U);
  EXPECT_EQ(resumed->history()[0].validation_loss, reference->history()[0].validation_loss);
  run(*resumed, 2 * epoch);
  EXPECT_EQ(fingerprint(*resumed, folder), fingerprint(*reference, folder));
}

TEST(Training, LearnsBelowTheUnigramLoss) {
  TrainOptions options = small();
  options.dropout = 0;
  options.epochs = 12;
  options.learning_rate = 0.5;
  const auto training = start(options);
  for (std::size_t epoch = 0; epoch < options.epochs; ++epoch)
    training->run_epoch([](double) { return true; });
  const EpochRecord& last = training->history().back();
  const double unigram = unigram_loss(training->training_ids(), *training->validation_ids(),
                                      training->tokenizer().size());
  EXPECT_LT(*last.validation_loss, unigram - 0.1);
  EXPECT_LT(last.training_loss, training->history().front().training_loss);
}

TEST(Training, RefusesAValidationPartWithoutAWindow) {
  TrainOptions options = small();
  options.validation = 0.001;
  EXPECT_NE(error_of<std::invalid_argument>([&] { start(options); }).find("--validation 0.001"),
            std::string::npos);
}

TEST(UnigramLoss, IsTheCrossEntropyOfSmoothedCounts) {
  // Counts 2 + 1, 1 + 1, 0 + 1 of 3 + 3.
  const double expected = -(std::log(3.0 / 6) + std::log(1.0 / 6)) / 2;
  EXPECT_NEAR(unigram_loss(Ids{0, 0, 1}, Ids{0, 2}, 3), expected, 1e-12);
}

TEST(MetricsCsv, HasALineAnEpoch) {
  const auto training = start(small());
  training->run_epoch([](double) { return true; });
  const std::string csv = metrics_csv(*training);
  EXPECT_TRUE(csv.starts_with("epoch,steps,training_loss,validation_loss,tokens_per_second\n1,"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 2);
}

}  // namespace
}  // namespace rowgrad
