// What is on a tape, as a list and as a graph.

#include <utility>

#include <rowgrad/core/autograd/tape.hpp>

namespace rowgrad {
namespace {

// Escapes quotes and backslashes for Graphviz.
std::string in_dot(const std::string& text) {
  std::string escaped;
  for (const char byte : text) {
    if (byte == '"' || byte == '\\') escaped += '\\';
    escaped += byte;
  }
  return escaped;
}

}  // namespace

std::vector<Tape::Entry> Tape::entries() const {
  std::vector<Entry> all;
  for (const Node& node : nodes_)
    all.push_back({std::string(node.op), node.name(), node.shape(), node.gradient_kind,
                   node.needs_gradient, node.inputs});
  return all;
}

std::string Tape::to_dot() const {
  TextStream text;
  text << "digraph tape {\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n";
  const std::vector<Entry> all = entries();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Entry& node = all[i];
    text << "  n" << i << " [shape=" << (node.op.empty() ? "box" : "ellipse") << ", label=\""
         << in_dot(node.name) << "\\n"
         << bracketed(node.shape);
    if (has_gradients_ && node.needs_gradient) text << "\\ngradient: " << node.gradient;
    text << "\"" << (node.needs_gradient ? "" : ", color=gray") << "];\n";
    for (const std::uint32_t input : node.inputs) text << "  n" << input << " -> n" << i << ";\n";
  }
  text << "}\n";
  return std::move(text).str();
}

}  // namespace rowgrad
