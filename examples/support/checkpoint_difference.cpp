#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <span>

#include <rowgrad/examples/support/checkpoint_difference.hpp>

namespace rowgrad {
namespace {

using Difference = CheckpointDifference;
using Kind = Difference::Kind;

Difference of_kind(Kind kind) {
  Difference result;
  result.kind = kind;
  return result;
}

template <class Number>
bool is_same(const Number& a, const Number& b) {
  return std::memcmp(&a, &b, sizeof(Number)) == 0;
}

template <class Number>
std::optional<Difference> difference_of(const Shape& shape, std::span<const Number> first,
                                        std::span<const Number> second) {
  if (std::ranges::equal(first, second, is_same<Number>)) return std::nullopt;
  Difference result;
  result.rows_in_all = shape.empty() ? 1 : shape[0];
  const std::size_t width = first.size() / result.rows_in_all;
  for (std::size_t row = 0; row < result.rows_in_all; ++row) {
    bool differs = false;
    for (std::size_t column = 0; column < width; ++column) {
      const Number a = first[row * width + column];
      const Number b = second[row * width + column];
      if (is_same(a, b)) continue;
      const auto x = static_cast<double>(a);
      const auto y = static_cast<double>(b);
      if (result.rows == 0 && !differs)
        result.row = row, result.column = column, result.first = x, result.second = y;
      differs = true;
      const double distance = std::abs(x - y);
      if (std::isnan(distance) || distance > result.largest_difference)
        result.largest_difference = distance;
    }
    result.rows += differs;
  }
  return result;
}

struct Compare {
  std::optional<Difference> operator()(const Tensor& first, const Tensor& second) const {
    if (first.shape() != second.shape()) return of_kind(Kind::type_or_shape);
    return difference_of<real>(first.shape(), {first.data(), first.size()},
                               {second.data(), second.size()});
  }

  template <class Number>
  std::optional<Difference> operator()(const Checkpoint::Array<Number>& first,
                                       const Checkpoint::Array<Number>& second) const {
    if (first.shape != second.shape) return of_kind(Kind::type_or_shape);
    return difference_of<Number>(first.shape, first.values, second.values);
  }

  std::optional<Difference> operator()(const std::string& first, const std::string& second) const {
    if (first == second) return std::nullopt;
    return of_kind(Kind::text);
  }

  std::optional<Difference> operator()(const auto&, const auto&) const {
    return of_kind(Kind::type_or_shape);
  }
};

}  // namespace

std::vector<CheckpointDifference> differences(const Checkpoint& first, const Checkpoint& second) {
  std::set<std::string> names;
  for (const Checkpoint* state : {&first, &second})
    for (std::string& name : state->names()) names.insert(std::move(name));
  std::vector<Difference> all;
  for (const std::string& name : names) {
    std::optional<Difference> found;
    if (!second.contains(name))
      found = of_kind(Kind::only_in_first);
    else if (!first.contains(name))
      found = of_kind(Kind::only_in_second);
    else
      found = std::visit(Compare(), first.at(name), second.at(name));
    if (!found) continue;
    found->name = name;
    all.push_back(std::move(*found));
  }
  return all;
}

}  // namespace rowgrad
