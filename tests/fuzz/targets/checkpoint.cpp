// Checkpoints through Training::resume. An input is a number of changes to a checkpoint of a small
// run: to its texts, numbers, names and shapes. What is resumed can be trained, saved and resumed.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fuzzer/FuzzedDataProvider.h>
#include <unistd.h>
#include <vector>

#include "tests/fuzz/fuzzing.hpp"
#include <rowgrad/core/io/file.hpp>
#include <rowgrad/core/io/safetensors.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>
#include <rowgrad/examples/support/training.hpp>

namespace rowgrad::fuzzing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kText =
    "Whether it was the clock or the wall that was slow, nobody could say: the clock said nothing.";

// In memory, where there is such a folder.
std::string path(const char* name) {
  const fs::path memory = "/dev/shm";
  const fs::path folder = fs::is_directory(memory) ? memory : fs::temp_directory_path();
  return folder / concat("rowgrad-fuzz-", ::getpid(), '-', name);
}

// Trains up to that step of the run, or to its end. Returns the last loss.
double train(Training& training, std::size_t last) {
  double loss = 0;
  bool goes_on = true;
  while (goes_on && training.steps_left() > 0)
    goes_on = training.run_epoch([&](double value) {
      loss = value;
      return training.steps() < last;
    });
  return loss;
}

SafetensorsFile checkpoint(const TrainOptions& options, std::size_t steps) {
  Training training(options, make_tokenizer(options.tokenizer, kText, 300), kText);
  train(training, steps);
  training.save(path("start"));
  SafetensorsFile file = read_safetensors(path("start"));
  fs::remove(path("start"));
  return file;
}

std::vector<SafetensorsFile> checkpoints() {
  TrainOptions options;
  options.context = 4;
  options.stride = 4;
  options.batch = 2;
  options.width = 3;
  options.look_back = 2;
  options.hidden = {4};
  options.epochs = 3;
  std::vector<SafetensorsFile> all = {checkpoint(options, 5)};
  options.momentum = 0.9;
  options.schedule = "warmup";
  all.push_back(checkpoint(options, 13));
  options.momentum = 0;
  options.optimizer = "adamw";
  options.learning_rate = 0.01;
  options.tie = true;
  options.validation = 0.2;
  all.push_back(checkpoint(options, 12));
  options.optimizer = "rmsprop";
  options.tie = false;
  options.tokenizer = "word";
  options.context = 2;
  options.stride = 2;
  options.weight_decay = 0.1;
  options.validation = 0;
  all.push_back(checkpoint(options, 3));
  return all;
}

template <class Map>
auto one_of(Map& map, FuzzedDataProvider& input) {
  return std::next(map.begin(), input.ConsumeIntegralInRange<int>(0, int(map.size()) - 1));
}

void change_text(std::string& text, FuzzedDataProvider& input) {
  // Near an end: in the middle of a long text are the thousands of digits of a generator.
  const auto near =
      input.ConsumeIntegralInRange<std::size_t>(0, std::min<std::size_t>(text.size(), 400));
  const std::size_t place = input.ConsumeBool() ? near : text.size() - near;
  const auto erased = input.ConsumeIntegralInRange<std::size_t>(0, 24);
  text.replace(place, erased, input.ConsumeRandomLengthString(24));
}

void change(SafetensorsFile& file, FuzzedDataProvider& input) {
  if (file.tensors.empty()) return;
  const auto tensor = one_of(file.tensors, input);
  switch (input.ConsumeIntegralInRange(0, 5)) {
    case 0:
    case 1:
      change_text(one_of(file.metadata, input)->second, input);
      break;
    case 2:
      if (tensor->second.size() > 0) {
        const auto last = tensor->second.size() - 1;
        tensor->second.data()[input.ConsumeIntegralInRange<std::size_t>(0, last)] =
            input.ConsumeFloatingPoint<real>();
      }
      break;
    case 3:
      file.tensors.erase(tensor);
      break;
    case 4: {
      auto renamed = file.tensors.extract(tensor);
      change_text(renamed.key(), input);
      file.tensors.insert(std::move(renamed));
      break;
    }
    default: {
      Shape shape;
      for (int rank = input.ConsumeIntegralInRange(0, 3); rank > 0; --rank)
        shape.push_back(input.ConsumeIntegralInRange<std::size_t>(0, 40));
      tensor->second = full(shape, input.ConsumeFloatingPoint<real>());
    }
  }
}

}  // namespace

void run(std::string_view input) {
  static const std::vector<SafetensorsFile> originals = checkpoints();
  static const std::string changed = path("changed");
  FuzzedDataProvider data(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  SafetensorsFile file = originals[data.ConsumeIntegralInRange<std::size_t>(0, 3)];
  for (int changes = data.ConsumeIntegralInRange(0, 4); changes > 0; --changes) change(file, data);

  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : file.tensors) tensors.emplace_back(name, &tensor);
  try {
    write_safetensors(changed, tensors, file.metadata);
  } catch (const std::invalid_argument&) {
    return;  // a text that is not UTF-8
  }
  const std::string contents = read_file(changed);
  std::unique_ptr<Training> training;
  if (!refusal_of(contents, [&] { training = Training::resume(changed, kText); })) {
    const double loss = train(*training, training->steps() + 1);
    training->save(changed);
    if (std::isfinite(loss)) Training::resume(changed, kText);
  }
  fs::remove(changed);
}

}  // namespace rowgrad::fuzzing
