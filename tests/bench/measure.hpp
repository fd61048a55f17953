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

/// A training step of a model on batches of random ids, [batch, context] each. workloads.json lists
/// the workloads.
struct Workload {
  std::string name;
  // embed: token and position tables; toy: also head and cross-entropy; gpt: also blocks
  std::string model;
  // sgd, momentum, momentum-decay, adamw, or sparse-adam (adamw that updates only looked-up
  // rows of a memory)
  std::string optimizer;
  std::size_t vocabulary = 0;
  std::size_t width = 0;
  std::size_t batch = 0;
  std::size_t context = 0;
  std::size_t layers = 0;  // layers, heads and dropout: only for gpt
  std::size_t heads = 0;
  double dropout = 0;
  // Rows of each head of an n-gram memory in front of a gpt's second block, or 0. The memory
  // has two orders, four heads of each, and rows of width 16.
  std::size_t ngram_rows = 0;
  // If above 0, the toy model compares each target with this number of sampled tokens.
  std::size_t samples = 0;
  int threads = 0;  // from --threads

  std::size_t tokens() const { return batch * context; }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Workload, name, model, optimizer, vocabulary, width,
                                                batch, context, layers, heads, dropout, ngram_rows,
                                                samples, threads)

constexpr std::size_t kNgramOrders = 2, kNgramHeads = 4, kNgramWidth = 16;

/// The number or duration of measured runs.
struct Pace {
  std::size_t warm_up = 3;  // runs before the first measured run
  std::size_t repeats = 0;  // measured runs; 0: at least three, for `seconds`
  double seconds = 2;       // time to measure if repeats is 0
};

/// The results of time_runs().
struct Timing {
  double median_seconds = 0;
  double least_seconds = 0;
  std::size_t runs = 0;
};

/// Measures `run`. Calls `prepare` before each run, without measuring it.
Timing time_runs(
    const std::function<void()>& run, const Pace& pace,
    const std::function<void()>& prepare = [] {});

double median(std::vector<double> values);

/// Returns W5 with `ngram_rows` rows for each head of its memory.
inline Workload w5(std::size_t ngram_rows) {
  return {"W5", "gpt", "adamw", 8192, 128, 12, 64, 4, 4, 0, ngram_rows};
}

GptOptions gpt_options(const Workload& workload);

/// Throws std::invalid_argument for an unknown name.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name,
                                          const std::vector<Parameter*>& parameters);

/// Number of batches: enough that rows of large batches leave the cache before their next use.
constexpr std::size_t kBatches = 16;

std::vector<Ids> random_batches(const Workload& workload, std::uint64_t seed);

/// Measures the workload's steps in this process. Returns their number, median times (whole and by
/// part), tokens per second and the BLAS. Throws std::invalid_argument for an unknown model or
/// optimizer.
nlohmann::json measure(const Workload& workload, const Pace& pace);

/// Measures a reference time for the workload's step and its parts, with thread_count() threads.
/// This is the sum of times for the matrix products at the rate of a large product, the accesses to
/// rows of tables in plain loops, and all other bytes at memory bandwidth. A step may be faster.
nlohmann::json floor_of(const Workload& workload, const Pace& pace);

}  // namespace rowgrad::bench
