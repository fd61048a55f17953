#pragma once

// A step's batch in shards, whose gradients are added in an order that does not depend on how many
// ranks there are: the shards are the leaves of a binary tree, and each node is the sum of its two
// halves. So any number of ranks gives the same bits.

#include <cstddef>
#include <vector>

namespace rowgrad {

/// The shards [begin, end).
struct ShardRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  std::size_t middle() const { return begin + size() / 2; }
  bool operator==(const ShardRange&) const = default;
};

/// Part `part` of [0, count), cut into `parts` as equal as may be.
inline ShardRange part_of(std::size_t count, std::size_t part, std::size_t parts) {
  return {count * part / parts, count * (part + 1) / parts};
}

/// The largest nodes of the tree over [0, count) that lie in `range`, from left to right.
std::vector<ShardRange> nodes_in(ShardRange range, std::size_t count);

/// The sum of a node, from its leaves or any inner nodes: value(node, result) says whether it has
/// the node's own, and add(a, b) adds b to a.
template <class Value>
Value sum_of_node(ShardRange node, const auto& value, const auto& add) {
  Value result{};
  if (value(node, result)) return result;
  result = sum_of_node<Value>({node.begin, node.middle()}, value, add);
  add(result, sum_of_node<Value>({node.middle(), node.end}, value, add));
  return result;
}

}  // namespace rowgrad
