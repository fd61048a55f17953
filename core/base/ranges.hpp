#pragma once

// Ranges of indices, of nearly equal size or as nodes of a binary tree.
//
// The slices of a step's batch are the leaves of a binary tree. A node's children cover the halves
// of its range, and their gradients add up to the node's gradient. So the order of additions and
// the result's bits do not depend on the number of ranks.

#include <cstddef>
#include <vector>

namespace rowgrad {

/// The indices from begin to end − 1.
struct IndexRange {
  std::size_t begin = 0;  // first index
  std::size_t end = 0;    // past the last index

  /// Returns the number of indices.
  std::size_t size() const { return end - begin; }
  /// Returns the first index of the second half.
  std::size_t middle() const { return begin + size() / 2; }
  bool operator==(const IndexRange&) const = default;
};

/// Cuts [0, count) into `ranges` ranges whose sizes differ by at most 1. Returns range `range`.
inline IndexRange range_of(std::size_t count, std::size_t range, std::size_t ranges) {
  // count · i / ranges, without overflow
  const auto cut = [=](std::size_t i) { return count / ranges * i + count % ranges * i / ranges; };
  return {cut(range), cut(range + 1)};
}

/// Returns the largest subtrees of [0, count) inside `range`, left to right.
inline std::vector<IndexRange> subtrees_in(IndexRange range, std::size_t count) {
  std::vector<IndexRange> subtrees;
  const auto add_of = [&](IndexRange tree, const auto& add) -> void {
    if (tree.begin >= range.end || tree.end <= range.begin) return;
    if (range.begin <= tree.begin && tree.end <= range.end) return subtrees.push_back(tree);
    add({tree.begin, tree.middle()}, add);
    add({tree.middle(), tree.end}, add);
  };
  if (range.size() > 0) add_of({0, count}, add_of);
  return subtrees;
}

/// Returns the sum over a tree. value(subtree, result) stores a subtree's sum and returns true, or
/// returns false if it is unknown. Leaves must have known sums. add(a, b) adds b to a.
template <class Value>
Value tree_sum(IndexRange tree, const auto& value, const auto& add) {
  Value result{};
  if (value(tree, result)) return result;
  result = tree_sum<Value>({tree.begin, tree.middle()}, value, add);
  add(result, tree_sum<Value>({tree.middle(), tree.end}, value, add));
  return result;
}

}  // namespace rowgrad
