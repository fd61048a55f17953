#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <rowgrad/layers/gpt/gpt_model.hpp>
#include <rowgrad/optim/optimizer.hpp>

namespace rowgrad::bench {

/// A training step of a model on batches of random ids, [batch, context] each. Those of
/// workloads.json are read by torch_workloads.py, too.
struct Workload {
  std::string name;
  // embed: token + position tables; toy: with head and cross-entropy; gpt: with blocks between
  std::string model;
  // sgd, momentum, momentum-decay, adamw or, for the rows of a memory that were looked up alone,
  // sparse-adam
  std::string optimizer;
  std::size_t vocabulary = 0;
  std::size_t width = 0;
  std::size_t batch = 0;
  std::size_t context = 0;
  std::size_t layers = 0;  // of a gpt, as are heads and dropout
  std::size_t heads = 0;
  double dropout = 0;
  // Of each head of a memory of n-grams in front of a gpt's second block; 0 for none. Two orders,
  // four heads of each, rows of 16 numbers.
  std::size_t ngram_rows = 0;
  int threads = 0;  // not in the list: an option of the program

  std::size_t tokens() const { return batch * context; }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Workload, name, model, optimizer, vocabulary, width,
                                                batch, context, layers, heads, dropout, ngram_rows,
                                                threads)

constexpr std::size_t kNgramOrders = 2, kNgramHeads = 4, kNgramWidth = 16;

/// How often to run what is measured.
struct Pace {
  std::size_t warm_up = 3;  // runs before the first that is measured
  std::size_t repeats = 0;  // measured runs; 0: as many as `seconds` allows
  double seconds = 2;       // how long to measure; at least three runs in any case
};

struct Timing {
  double median_seconds = 0;
  double least_seconds = 0;
  std::size_t runs = 0;
};

/// `prepare` is called before each run, and not measured.
Timing time_runs(
    const std::function<void()>& run, const Pace& pace,
    const std::function<void()>& prepare = [] {});

double median(std::vector<double> numbers);

/// W5 with so many rows for each head of its memory.
inline Workload w5(std::size_t ngram_rows) {
  return {"W5", "gpt", "adamw", 8192, 128, 12, 64, 4, 4, 0, ngram_rows};
}

GptOptions gpt_options(const Workload& workload);

/// Throws std::invalid_argument for an unknown name.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name,
                                          const std::vector<Parameter*>& parameters);

/// So many that the rows of large ones are not in the cache when they are used again.
constexpr std::size_t kBatches = 16;

std::vector<Ids> random_batches(const Workload& workload, std::uint64_t seed);

/// Measures the workload's steps in this process: median_us, the median of each part of a step,
/// steps, tokens_per_second, and the BLAS that was used. Throws std::invalid_argument for an
/// unknown model or optimizer.
nlohmann::json measure(const Workload& workload, const Pace& pace);

/// Measures a reference for the time of the workload's step with the threads that set_threads() has
/// set, and its parts, at their best. Sums the time of the matrix products at the rate of a large
/// product, the time of the accesses to rows of tables, in plain loops, and the time of the bytes
/// that the step must stream otherwise. A step may be faster: this is not a lower bound.
nlohmann::json floor_of(const Workload& workload, const Pace& pace);

}  // namespace rowgrad::bench
