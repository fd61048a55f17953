#include <algorithm>
#include <iomanip>
#include <set>

#include <rowgrad/layers/layer.hpp>

namespace rowgrad {
namespace {

// 1234567 → "1,234,567".
std::string grouped(std::size_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace

std::string Layer::summary() const {
  struct Line {
    std::string name, shape, count;
  };
  std::vector<Line> lines{{"name", "shape", "parameters"}};
  std::set<const Parameter*> counted;
  for_each_layer([&](const Layer& layer) {
    for (const auto& [name, parameter] : layer.parameters_) counted.insert(parameter);
  });
  for_each_layer([&](const Layer& layer) {
    const auto count = [](const Parameter& parameter) {
      return grouped(parameter.size()) + (parameter.trainable() ? "" : " (frozen)");
    };
    const auto shape = [](const auto& part) { return concat(bracketed(part.shape())); };
    for (const auto& [name, parameter] : layer.shared_) {
      // Counts add up to the total: a borrower gets the count only if the owner is not listed.
      const bool only_here = counted.insert(parameter).second;
      lines.push_back(
          {layer.path_ + name, shape(*parameter),
           (only_here ? count(*parameter) + ", " : "") + "tied to " + parameter->name()});
    }
    for (const auto& [name, parameter] : layer.parameters_)
      lines.push_back({layer.path_ + name, shape(*parameter), count(*parameter)});
    for (const auto& [name, buffer] : layer.buffers_)
      lines.push_back({layer.path_ + name, shape(*buffer), "buffer"});
  });
  const std::size_t trainable = trainable_parameter_count();
  const std::size_t frozen = parameter_count() - trainable;
  lines.push_back(
      {"total", "",
       grouped(trainable) + (frozen == 0 ? "" : " to train, " + grouped(frozen) + " frozen")});
  std::size_t name_width = 0;
  std::size_t shape_width = 0;
  for (const Line& line : lines) {
    name_width = std::max(name_width, line.name.size());
    shape_width = std::max(shape_width, line.shape.size());
  }
  TextStream text;
  text << std::left;
  for (const Line& line : lines)
    text << std::setw(static_cast<int>(name_width + 2)) << line.name
         << std::setw(static_cast<int>(shape_width + 2)) << line.shape << line.count << '\n';
  return std::move(text).str();
}

}  // namespace rowgrad
