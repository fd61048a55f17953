// Measures word2vec's skip-gram with negative sampling in plain ops: words of a corpus per second,
// alternately with one thread and with several.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/threads.hpp>
#include <rowgrad/core/ops/loss.hpp>
#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/core/ops/reduction.hpp>
#include <rowgrad/core/ops/shape.hpp>
#include <rowgrad/examples/rowgrad/options/command_line.hpp>
#include <rowgrad/examples/rowgrad/session/program.hpp>
#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/optim/adaptive.hpp>
#include <rowgrad/optim/sgd.hpp>

namespace rowgrad::bench {
namespace {

constexpr std::size_t kWidth = 100, kBatch = 1024, kNegatives = 5, kWindow = 5;

struct Options {
  std::string corpus = {};
  std::string optimizer = "sgd";
  std::uint64_t threads = static_cast<std::uint64_t>(thread_count());
  std::uint64_t rounds = 3;
};

OptionTable option_table_of(Options& o) {
  return {
      {"--corpus", &o.corpus, "text file with one sentence per line", required()},
      {"--optimizer", &o.optimizer, "optimizer of both tables", one_of({"sgd", "adagrad", "adam"})},
      {"--threads", &o.threads, "number of threads to compare with one thread", whole_number(1)},
      {"--rounds", &o.rounds, "epochs for each number of threads", whole_number(1)}};
}

// The words that occur at least five times, as ids by decreasing frequency.
struct Corpus {
  std::vector<std::vector<std::int32_t>> sentences;
  std::vector<double> counts;
  std::vector<std::int32_t> noise;  // ids, each with frequency proportional to count^0.75
  std::size_t words = 0;

  explicit Corpus(const std::string& path) {
    std::ifstream file(path);
    check_runtime(file.good(), "cannot read ", path);
    std::vector<std::vector<std::string>> lines;
    std::map<std::string, std::size_t> occurrences;
    for (std::string line; std::getline(file, line);) {
      std::istringstream stream(line);
      lines.emplace_back();
      for (std::string word; stream >> word;) {
        ++occurrences[word];
        lines.back().push_back(word);
      }
    }
    std::vector<std::pair<std::size_t, std::string>> frequent;
    for (const auto& [word, count] : occurrences)
      if (count >= 5) frequent.emplace_back(count, word);
    std::sort(frequent.rbegin(), frequent.rend());
    std::map<std::string, std::int32_t> ids;
    for (const auto& [count, word] : frequent) {
      const auto id = static_cast<std::int32_t>(counts.size());
      ids[word] = id;
      counts.push_back(static_cast<double>(count));
      noise.insert(noise.end(), static_cast<std::size_t>(std::pow(count, 0.75)), id);
    }
    for (const auto& line : lines) {
      sentences.emplace_back();
      for (const std::string& word : line)
        if (const auto found = ids.find(word); found != ids.end())
          sentences.back().push_back(found->second);
      words += sentences.back().size();
    }
  }
};

std::unique_ptr<Optimizer> make_optimizer(const std::string& name,
                                          const std::vector<Parameter*>& parameters) {
  if (name == "sgd") return std::make_unique<SGD>(parameters, SgdOptions{.learning_rate = 0.025});
  if (name == "adagrad")
    return std::make_unique<Adagrad>(parameters, AdagradOptions{.learning_rate = 0.05});
  return std::make_unique<Adam>(parameters, AdamOptions{.learning_rate = 0.001});
}

// Trains for one epoch, and returns the number of corpus words that are processed per second.
double words_per_second(const Corpus& corpus, const std::string& optimizer_name) {
  Random random(1);
  const std::size_t vocabulary = corpus.counts.size();
  Embedding center(random.uniform({vocabulary, kWidth}, -0.5 / kWidth, 0.5 / kWidth));
  Embedding context(zeros({vocabulary, kWidth}));
  const auto optimizer = make_optimizer(optimizer_name, {&center.weight, &context.weight});
  Tensor labels = zeros({kBatch, 1 + kNegatives});  // 1 for the true neighbor
  for (std::size_t i = 0; i < kBatch; ++i) labels(i, 0) = 1;
  const auto below = [&](std::size_t count) {
    return (random.bits() * std::uint64_t{count}) >> 32;
  };
  Ids words = Ids::from_shape({kBatch}), contexts = Ids::from_shape({kBatch, 1 + kNegatives});
  std::size_t pairs = 0;
  const auto add_pair = [&](std::int32_t word, std::int32_t neighbor) {
    words(pairs) = word;
    contexts(pairs, 0) = neighbor;
    for (std::size_t k = 1; k <= kNegatives; ++k)
      contexts(pairs, k) = corpus.noise[below(corpus.noise.size())];
    if (++pairs < kBatch) return;
    pairs = 0;
    optimizer->zero_grad();
    Tape tape;
    const Variable scores =
        sum(unsqueeze(center.forward(tape, words), 1) * context.forward(tape, contexts), {-1});
    tape.backward(
        binary_cross_entropy_with_logits(scores, tape.constant(labels), LossReduction::kSum));
    optimizer->step();
  };

  const auto start = std::chrono::steady_clock::now();
  for (const auto& sentence : corpus.sentences) {
    std::vector<std::int32_t> kept;  // frequent words are dropped at random
    for (const std::int32_t id : sentence) {
      const double ratio = 1e-4 * static_cast<double>(corpus.words) / corpus.counts[id];
      if (random.uniform_double() < std::sqrt(ratio) + ratio) kept.push_back(id);
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const std::size_t window = 1 + below(kWindow);
      for (std::size_t j = i - std::min(i, window); j < std::min(kept.size(), i + window + 1); ++j)
        if (j != i) add_pair(kept[i], kept[j]);
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return static_cast<double>(corpus.words) / seconds.count();
}

void run(const Options& options) {
  const Corpus corpus(options.corpus);
  check_runtime(corpus.words > 0, options.corpus,
                ": no word occurs five times, expected a larger corpus");
  std::printf("%zu words, vocabulary %zu; thousand words per second:\n", corpus.words,
              corpus.counts.size());
  const std::array<int, 2> threads{1, static_cast<int>(options.threads)};
  set_threads(threads[1]);
  words_per_second(corpus, options.optimizer);  // warm-up: page faults and new threads
  for (std::uint64_t round = 0; round < options.rounds; ++round) {
    std::array<double, 2> rates{};
    for (std::size_t i = 0; i < rates.size(); ++i) {
      set_threads(threads[i]);
      rates[i] = words_per_second(corpus, options.optimizer);
    }
    std::printf("1 thread %.0f, %d threads %.0f: %.2f times as fast\n", rates[0] / 1e3, threads[1],
                rates[1] / 1e3, rates[1] / rates[0]);
  }
}

}  // namespace
}  // namespace rowgrad::bench

int main(int argc, char** argv) {
  return rowgrad::run_program("bench_words", [&] {
    rowgrad::bench::Options options;
    rowgrad::CommandLine line("bench_words", "Measures word2vec in plain ops: words per second.",
                              option_table_of(options));
    line.parse(argc, argv);
    rowgrad::bench::run(options);
    return 0;
  });
}
