#pragma once

// The measured workloads, listed in workloads.json, which torch_workloads.py reads too, so that
// both measure the same.

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace rowgrad::bench {

/// A training step of a model on batches of random ids, [batch, context] each.
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

inline const std::vector<std::string> kSweeps{"vocabulary", "tokens", "width", "threads"};

/// The workloads, or the points of a sweep if `sweep` names one, for that many threads. The sweep
/// over threads has 1, 2, 4 … up to that number, each with its number in the name.
std::vector<Workload> listed_workloads(const std::string& sweep, int threads);

/// Those with one of the names, in the order of the list; all of them if there are no names. `W1b`
/// selects all of W1b-1k, W1b-50k … Throws std::invalid_argument for a name that selects none.
std::vector<Workload> selected(const std::vector<Workload>& listed,
                               const std::vector<std::string>& names);

constexpr std::size_t kNgramOrders = 2, kNgramHeads = 4, kNgramWidth = 16;

/// How many different ones of `count` ids a batch has on average: V (1 − (1 − 1/V)ⁿ) for n out of
/// V.
double distinct_ids(const Workload& workload, std::size_t count);

}  // namespace rowgrad::bench
