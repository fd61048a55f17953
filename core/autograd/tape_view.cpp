// Inspection of a tape: its parameters, names of nodes, and its graph.

#include <algorithm>
#include <utility>

#include <rowgrad/core/autograd/tape.hpp>

namespace rowgrad {
namespace {

// Escapes quotes and backslashes for Graphviz.
std::string escape_for_dot(const std::string& label) {
  std::string escaped;
  for (const char byte : label) {
    if (byte == '"' || byte == '\\') escaped += '\\';
    escaped += byte;
  }
  return escaped;
}

}  // namespace

std::vector<const Parameter*> Tape::parameters() const {
  std::vector<const Parameter*> all;
  for (const Node& node : nodes_)
    if (node.parameter != nullptr && node.needs_gradient &&
        std::find(all.begin(), all.end(), node.parameter) == all.end())
      all.push_back(node.parameter);
  return all;
}

std::string Tape::Node::name() const {
  if (!op.empty()) return std::string(op);
  return parameter != nullptr ? parameter->name() : needs_gradient ? "input" : "constant";
}

std::string Tape::to_dot() const {
  StringStream text;
  text << "digraph tape {\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n";
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    text << "  n" << i << " [shape=" << (node.op.empty() ? "box" : "ellipse") << ", label=\""
         << escape_for_dot(node.name()) << "\\n"
         << bracketed(node.shape());
    if (has_gradients_ && node.needs_gradient) text << "\\ngradient: " << node.gradient_kind;
    text << "\"" << (node.needs_gradient ? "" : ", color=gray") << "];\n";
    for (const std::uint32_t input : node.inputs) text << "  n" << input << " -> n" << i << ";\n";
  }
  text << "}\n";
  return std::move(text).str();
}

}  // namespace rowgrad
