#include <rowgrad/core/base/shards.hpp>

namespace rowgrad {
namespace {

void add_nodes(ShardRange node, ShardRange range, std::vector<ShardRange>& nodes) {
  if (node.begin >= range.end || node.end <= range.begin) return;
  if (range.begin <= node.begin && node.end <= range.end) {
    nodes.push_back(node);
    return;
  }
  add_nodes({node.begin, node.middle()}, range, nodes);
  add_nodes({node.middle(), node.end}, range, nodes);
}

}  // namespace

std::vector<ShardRange> nodes_in(ShardRange range, std::size_t count) {
  std::vector<ShardRange> nodes;
  if (range.size() > 0) add_nodes({0, count}, range, nodes);
  return nodes;
}

}  // namespace rowgrad
