#pragma once

// Draws of classes for sampled losses (core/ops/sampled_loss.hpp). Wrong arguments throw
// std::invalid_argument before anything is drawn.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <rowgrad/core/tensor/random.hpp>

namespace rowgrad {

/// Classes to compare targets with.
struct NegativeSamples {
  Ids ids;  // [count], shared by all targets, or [targets…, count]
  /// log of the expected number of times that a set of `count` samples has each class, as `ids`.
  Tensor log_expected_counts;
};

/// Draws classes with fixed probabilities in constant time, from an alias table (Walker 1977; Vose
/// 1991). Copies share the table. Several threads may draw, each with its own `random`.
class NegativeSampler {
 public:
  /// Draws class i in proportion to weights[i]. Requires: all are finite and >= 0, and one is above
  /// 0. A class with weight 0 is never drawn.
  explicit NegativeSampler(std::span<const double> weights);

  /// Draws class i in proportion to counts[i]^power, or never if its count is 0.
  static NegativeSampler from_counts(std::span<const std::uint64_t> counts, double power = 0.75);

  std::size_t classes() const { return table_->cells.size(); }  // number of weights
  /// Returns the probability with which the table draws a class.
  double probability(std::int32_t id) const;

  /// Draws ids with replacement. Each takes two words from `random`.
  void fill(std::span<std::int32_t> ids, Random& random) const;

  /// Draws ids of this shape with replacement. The last extent is the size of a set, at least 1.
  NegativeSamples draw(const Shape& shape, Random& random) const;

  /// Draws 1 to classes() distinct classes [count] with nonzero weight, as draws that skip
  /// repetitions would. The expected counts are exact in this sense: Σ f(class) / expected count
  /// has the expectation Σ f(class) over all classes (Cohen & Kaplan 2007, "Summarizing data using
  /// bottom-k sketches"). They are close to TensorFlow's 1 − (1 − probability)^draws.
  NegativeSamples draw_distinct(std::size_t count, Random& random) const;

 private:
  // A cell of the alias table: its class is its index with probability `share`, otherwise `alias`.
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
