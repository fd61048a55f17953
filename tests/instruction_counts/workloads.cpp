// Small fixed workloads on one thread. tests/instruction_counts/run.sh counts their instructions.
//
//   counted_workloads            lists the workloads, one per line
//   counted_workloads NAME       runs a workload
//   counted_workloads --version  names the compiler and libraries that the counts depend on

#include <cstdint>
#include <exception>
#include <functional>
#include <gnu/libc-version.h>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cblas.h>

#include <rowgrad/rowgrad.hpp>

/// Runs `work`. run.sh counts the instructions between the call of this function and its return.
extern "C" [[gnu::noipa]] void counted_work(const std::function<void()>& work) {
  work();
  asm volatile("");  // keeps the call above from becoming a jump, which would end the counting
}

namespace rowgrad {
namespace {

constexpr std::size_t kBatches = 8;

Ids random_ids(const Shape& shape, std::size_t vocabulary, Random& random) {
  Ids ids = Ids::from_shape(shape);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random.bits() % vocabulary);
  return ids;
}

std::vector<Ids> random_batches(std::size_t vocabulary, std::uint64_t seed) {
  Random random(seed);
  std::vector<Ids> batches;
  for (std::size_t i = 0; i < kBatches; ++i)
    batches.push_back(random_ids({8, 4}, vocabulary, random));
  return batches;
}

// Runs every batch once, so that all memory and optimizer state exist, then counts `count` steps.
template <class Step>
void counted_steps(std::size_t count, const Step& step) {
  for (std::size_t i = 0; i < kBatches; ++i) step(i);
  counted_work([&] {
    for (std::size_t i = 0; i < count; ++i) step(i % kBatches);
  });
}

// Measures `count` training steps. `backward` records batch i on a tape and computes the gradients.
template <class Backward>
void counted_training(Optimizer& optimizer, std::size_t count, const Backward& backward) {
  counted_steps(count, [&](std::size_t i) {
    optimizer.zero_grad();
    Tape tape;
    backward(tape, i);
    optimizer.step();
  });
}

// W1 of tests/bench with a smaller table: the cost of a step depends only on the rows looked up.
template <class Made>
void embed(const typename Made::Options& options) {
  constexpr std::size_t kVocabulary = 5000, kWidth = 256;
  Embedding token(full({kVocabulary, kWidth}, 1));
  Random random(1);
  PositionalEmbedding position(4, kWidth, random);
  Made optimizer({&token.weight, &position.weight}, options);
  const auto batches = random_batches(kVocabulary, 1);
  const Tensor upstream = random.normal({8, 4, kWidth});
  counted_training(optimizer, 200, [&](Tape& tape, std::size_t i) {
    const Variable x = token.forward(tape, batches[i], position.rows(tape, 4));
    tape.backward(x, upstream);
  });
}

// W2 of tests/bench, the next-token model, but narrower, so that OpenBLAS does not dominate.
void toy() {
  constexpr std::size_t kVocabulary = 1132;
  NextTokenModel model({.vocabulary = kVocabulary, .context = 4, .width = 64}, Random(123));
  SGD sgd(model.parameters(), {.learning_rate = 0.1});
  const auto inputs = random_batches(kVocabulary, 1);
  const auto targets = random_batches(kVocabulary, 2);
  counted_training(sgd, 20, [&](Tape& tape, std::size_t i) {
    tape.backward(model.loss(tape, inputs[i], targets[i]));
  });
}

// An n-gram memory, without the model around it.
void ngram_memory() {
  constexpr std::size_t kVocabulary = 1000, kWidth = 32;
  Random random(1);
  NgramMemory memory(NgramHash(kVocabulary, {.rows = 5000}, {0}, 0), kWidth, random);
  AdamW optimizer(memory.parameters());
  const auto batches = random_batches(kVocabulary, 1);
  const Tensor x = random.normal({8, 4, kWidth});
  const Tensor upstream = random.normal(x.shape());
  counted_training(optimizer, 50, [&](Tape& tape, std::size_t i) {
    tape.backward(memory.forward(tape.constant(x), {.ids = batches[i], .kept = nullptr}), upstream);
  });
}

// Runs ops on a few values, to count the overhead of recording ops and of the backward pass.
void small_ops() {
  Parameter start("start", full({4}, 1));
  counted_steps(20, [&](std::size_t) {
    start.zero_gradient();
    Tape tape;
    const Variable x = tape.parameter(start);
    Variable y = x;
    for (int i = 0; i < 250; ++i) y = tanh(y * x + 0.5F);
    tape.backward(sum(y));
  });
}

void merge_rows() {
  Random random(1);
  const Ids ids = random_ids({16384}, 5000, random);
  const Tensor values = full({ids.size(), 16}, 1);
  counted_steps(20, [&](std::size_t) { kernels::merge_rows(ids.storage(), values); });
}

void byte_pair_training() {
  const std::string story = read_file(ROWGRAD_STORY);
  counted_work([&] { BytePairTokenizer::train(story, {.size = 1024}); });
}

void byte_pair_encoding() {
  const std::string story = read_file(ROWGRAD_STORY);
  const auto tokenizer = BytePairTokenizer::train(story, {.size = 1024});
  counted_work([&] {
    for (int i = 0; i < 20; ++i) tokenizer.encode(story);
  });
}

struct Workload {
  std::string_view name;
  void (*run)();
};
constexpr Workload kWorkloads[]{
    {"embed_sgd", [] { embed<SGD>({.learning_rate = 0.1}); }},
    {"embed_momentum", [] { embed<SGD>({.learning_rate = 0.1, .momentum = 0.9}); }},
    {"embed_adamw", [] { embed<AdamW>({}); }},
    {"toy", toy},
    {"ngram_memory", ngram_memory},
    {"small_ops", small_ops},
    {"merge_rows", merge_rows},
    {"byte_pair_training", byte_pair_training},
    {"byte_pair_encoding", byte_pair_encoding},
};

std::string version() {
  const std::string blas = openblas_get_config();  // "OpenBLAS 0.3.21 NO_LAPACKE …"
  return concat("g++ ", __VERSION__, ", glibc ", gnu_get_libc_version(), ", ",
                blas.substr(0, blas.find(' ', blas.find(' ') + 1)), ", xtensor ",
                XTENSOR_VERSION_MAJOR, '.', XTENSOR_VERSION_MINOR, '.', XTENSOR_VERSION_PATCH,
                ", xsimd ", XSIMD_VERSION_MAJOR, '.', XSIMD_VERSION_MINOR, '.',
                XSIMD_VERSION_PATCH);
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  const std::string_view asked = argc > 1 ? argv[1] : "";
  bool known = asked.empty() || asked == "--version";
  if (asked == "--version") std::cout << rowgrad::version() << '\n';
  for (const auto& [name, run] : rowgrad::kWorkloads) {
    if (asked.empty()) std::cout << name << '\n';
    if (name != asked) continue;
    run();
    known = true;
  }
  return known ? 0 : 1;
}
