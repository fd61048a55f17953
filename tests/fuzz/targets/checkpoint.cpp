// Fuzzes Session::resume. An input is a series of changes to the strings, values, names and shapes
// in the checkpoint of a small run. If the run resumes, it must train, save and resume again.

#include <algorithm>
#include <filesystem>
#include <unistd.h>
#include <vector>

#include "tests/fuzz/fuzzing.hpp"
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>
#include <rowgrad/examples/rowgrad/session/session.hpp>
#include <rowgrad/examples/rowgrad/session/tokenizers.hpp>

namespace rowgrad::fuzzing {
namespace {

namespace fs = std::filesystem;

const std::string kText =
    "Whether it was the clock or the wall that was slow, nobody could say: the clock said nothing.";

// Returns a path in memory if there is a folder in memory, or else in the temporary folder.
std::string path(const char* name) {
  const fs::path memory = "/dev/shm";
  const fs::path folder = fs::is_directory(memory) ? memory : fs::temp_directory_path();
  return folder / concat("rowgrad-fuzz-", ::getpid(), '-', name);
}

std::unique_ptr<Session> resume(const std::string& file) {
  return Session::resume(read_safetensors(file), file, kText);
}

StateDict checkpoint(const TrainOptions& options, std::size_t steps) {
  const auto training =
      Session::create(options, make_tokenizer(options.tokenizer, kText, 300), kText);
  training->run().train(steps);
  training->save(path("start"));
  StateDict file = read_safetensors(path("start"));
  fs::remove(path("start"));
  return file;
}

std::vector<StateDict> checkpoints() {
  TrainOptions options;
  options.gpt.context = 4;
  options.stride = 4;
  options.loader.batch = 2;
  options.gpt.width = 3;
  options.window = 2;
  options.hidden = {4};
  options.epochs = 3;
  std::vector<StateDict> all = {checkpoint(options, 5)};
  options.momentum = 0.9;
  options.schedule = "warmup";
  all.push_back(checkpoint(options, 13));
  options.momentum = 0;
  options.optimizer = "adamw";
  options.learning_rate = 0.01;
  options.gpt.tie_weights = true;
  options.validation = 0.2;
  all.push_back(checkpoint(options, 12));
  options.optimizer = "rmsprop";
  options.gpt.tie_weights = false;
  options.tokenizer = "word";
  options.gpt.context = 2;
  options.stride = 2;
  options.weight_decay = 0.1;
  options.validation = 0;
  all.push_back(checkpoint(options, 3));
  options.optimizer = "adamw";
  options.gpt.width = 4;
  options.loader.batch = 1;
  options.gpt.positions = Positions::kT5;
  options.accumulate = 2;
  options.decays_vectors = false;
  options.draws_as_pytorch = true;
  options.evaluation.every = 2;
  options.model = "gpt";
  options.gpt.heads = 2;
  options.gpt.layers = 1;
  options.gpt.t5_buckets = options.gpt.t5_max_distance = 3;
  all.push_back(checkpoint(options, 3));
  return all;
}

void change_text(std::string& text, Pieces& input) {
  // Changes long strings near one of their ends.
  const auto near = input.number<std::size_t>(0, std::min<std::size_t>(text.size(), 400));
  const std::size_t place = input.number(0, 1) == 1 ? near : text.size() - near;
  const auto erased = input.number<std::size_t>(0, 24);
  text.replace(place, erased, input.text(24));
}

// Replaces one value of an array.
void change_number(auto* numbers, std::size_t count, auto value, Pieces& input) {
  if (count > 0) numbers[input.number<std::size_t>(0, count - 1)] = value;
}

// Changes or removes a value, or changes its name.
void change(StateDict& file, Pieces& input) {
  const auto names = file.names();
  if (names.empty()) return;
  std::string name = names[input.number<std::size_t>(0, names.size() - 1)];
  StateDict::Value value = file.at(name);
  file.erase(name);
  const int kind = input.number(0, 6);
  if (kind == 0) return;
  if (kind == 1) {
    change_text(name, input);
  } else if (kind == 2) {
    Shape shape;
    for (int rank = input.number(0, 3); rank > 0; --rank)
      shape.push_back(input.number<std::size_t>(0, 40));
    value = full(shape, input.any<real>());
  } else if (auto* text = std::get_if<std::string>(&value)) {
    change_text(*text, input);
  } else if (auto* tensor = std::get_if<Tensor>(&value)) {
    change_number(tensor->data(), tensor->size(), input.any<real>(), input);
  } else if (auto* whole = std::get_if<StateDict::Integers>(&value)) {
    change_number(whole->values.data(), whole->values.size(),
                  input.any<std::int64_t>() >> input.number(0, 63), input);
  } else {
    auto& doubles = std::get<StateDict::Doubles>(value).values;
    change_number(doubles.data(), doubles.size(), input.any<double>(), input);
  }
  if (!file.contains(name)) file.put(name, std::move(value));
}

}  // namespace

void fuzz_checkpoint(std::string_view input) {
  static const std::vector<StateDict> originals = checkpoints();
  static const std::string changed = path("changed");
  Pieces pieces(input);
  StateDict file = originals[pieces.number<std::size_t>(0, originals.size() - 1)];
  for (int changes = pieces.number(0, 4); changes > 0; --changes) change(file, pieces);

  try {
    write_safetensors(changed, file);
  } catch (const std::invalid_argument&) {
    return;  // a string that is not UTF-8
  }
  const std::string contents = read_file(changed);
  std::unique_ptr<Session> training;
  if (!refusal_of(contents, [&] { training = resume(changed); })) {
    try {
      training->run().train(training->run().steps() + 1);
      training->save(changed);
      resume(changed);
    } catch (const std::runtime_error& error) {
      if (std::string_view(error.what()).find("finite value") == std::string_view::npos)
        throw;  // any other error that stops the run is a finding
    }
  }
  fs::remove(changed);
}

}  // namespace rowgrad::fuzzing
