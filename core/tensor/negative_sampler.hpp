#pragma once

// Draws of classes for sampled losses (core/ops/sampled_loss.hpp). Wrong arguments throw
// std::invalid_argument before anything is drawn.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <rowgrad/core/tensor/ids.hpp>
#include <rowgrad/core/tensor/random.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// Classes to compare targets with.
struct NegativeSamples {
  Ids ids;  // [count], shared by all targets, or [targets…, count]
  /// Logarithms of the expected number of times that a set of `count` samples has each class, of
  /// the shape of `ids`.
  Tensor log_expected_counts;
};

/// Draws classes with fixed probabilities in constant time, from an alias table (Walker 1977, "An
/// efficient method for generating discrete random variables"; Vose 1991). Immutable: copies share
/// the table, and threads may draw at the same time, each with its own `random`.
class NegativeSampler {
 public:
  /// Draws class i in proportion to weights[i]. Requires: at least one weight; all are finite and
  /// >= 0, and one is above 0. A class with weight 0 is never drawn.
  explicit NegativeSampler(std::span<const double> weights);

  /// Draws class i in proportion to counts[i]^power, as word2vec does for power 0.75.
  static NegativeSampler from_counts(std::span<const std::uint64_t> counts, double power = 0.75);

  std::size_t classes() const { return table_->cells.size(); }  // number of weights

  /// Returns the probability with which the table draws a class.
  double probability(std::int32_t id) const;

  /// Draws ids with replacement. Each takes two words from `random`.
  void fill(std::span<std::int32_t> ids, Random& random) const;

  /// Draws ids of this shape with replacement. The last extent, above 0, is the number of samples
  /// in a set.
  NegativeSamples draw(const Shape& shape, Random& random) const;

  /// Draws `count` distinct classes [count], as drawing with replacement and skipping repetitions
  /// would. Requires: 0 < count, and at most as many as there are classes with nonzero weight.
  ///
  /// The expected count of a class with probability p is 1 − exp(−p t), where t is about the number
  /// of draws (in TensorFlow, which uses 1 − (1 − p)^t, exactly the number). Here, t is the time at
  /// which one class more would arrive if classes arrived at random times, at rate p. So Σ f(class)
  /// / count over the samples has the expectation Σ f(class) over all classes exactly (Cohen &
  /// Kaplan 2007, "Summarizing data using bottom-k sketches").
  NegativeSamples draw_distinct(std::size_t count, Random& random) const;

 private:
  // A cell of the alias table: its class is i with probability `share`, `alias` otherwise.
  struct Cell {
    double share;
    std::int32_t alias;
  };
  struct Table {
    std::vector<Cell> cells;
    std::vector<double> probabilities;  // of the classes, summed from the cells
    std::size_t possible = 0;           // number of classes with nonzero probability
  };

  std::int32_t draw_one(Random& random) const;

  std::shared_ptr<const Table> table_;
};

}  // namespace rowgrad
