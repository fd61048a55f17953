#pragma once

// Ranges of indices: equal ones, and those of a binary tree.
//
// The slices of a step's batch are the leaves of a tree whose inner nodes are halves of halves. The
// gradient of each node is the sum of those of its two halves, so the order of additions does not
// depend on how many ranks compute them: any number gives the same bits.

#include <cstddef>
#include <vector>

namespace rowgrad {

/// The indices from begin to end − 1.
struct IndexRange {
  std::size_t begin = 0;  // the first index
  std::size_t end = 0;    // behind the last one

  std::size_t size() const { return end - begin; }           // the number of indices
  std::size_t middle() const { return begin + size() / 2; }  // the first index of the second half
  bool operator==(const IndexRange&) const = default;
};

/// Number `range` of `ranges` that [0, count) is cut into, whose sizes differ by 1 at most.
inline IndexRange range_of(std::size_t count, std::size_t range, std::size_t ranges) {
  // count · i / ranges, without overflow
  const auto cut = [=](std::size_t i) { return count / ranges * i + count % ranges * i / ranges; };
  return {cut(range), cut(range + 1)};
}

/// The largest subtrees of the tree over [0, count) that lie in `range`, from left to right.
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

/// The sum over a tree, from its leaves or any subtrees: value(subtree, result) says whether it has
/// that of a subtree, and add(a, b) adds b to a.
template <class Value>
Value tree_sum(IndexRange tree, const auto& value, const auto& add) {
  Value result{};
  if (value(tree, result)) return result;
  result = tree_sum<Value>({tree.begin, tree.middle()}, value, add);
  add(result, tree_sum<Value>({tree.middle(), tree.end}, value, add));
  return result;
}

}  // namespace rowgrad
