#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <limits>
#include <set>
#include <span>

#include <rowgrad/examples/rowgrad/output/checkpoint_difference.hpp>

namespace rowgrad {
namespace {

using Kind = CheckpointDifference::Kind;

template <class Number>
double distance(Number a, Number b) {
  return std::abs(static_cast<double>(a) - static_cast<double>(b));
}
std::uint64_t distance(std::int64_t a, std::int64_t b) {
  const auto first = static_cast<std::uint64_t>(a), second = static_cast<std::uint64_t>(b);
  return a > b ? first - second : second - first;  // may be 2^63 or more
}

// Formats a number. Seeds and checksums are unsigned.
template <class Number>
std::string shown(const std::string& name, Number number) {
  if constexpr (std::is_same_v<Number, std::int64_t>)
    if (name.ends_with("seed") || name.ends_with("checksum"))
      return std::to_string(static_cast<std::uint64_t>(number));
  return digits(number);
}

// A function that compares two values with the same name. Returns true if the values differ, and
// describes the difference in `result`.
struct Comparison {
  CheckpointDifference& result;

  bool differs_as(Kind kind) const {
    result.kind = kind;
    return true;
  }

  template <class Number>
  bool numbers_differ(const Shape& shape, std::span<const Number> first, const Shape& other_shape,
                      std::span<const Number> second) const {
    if (shape != other_shape) return differs_as(Kind::type_or_shape);
    result.rows_in_all = shape.empty() ? 1 : shape[0];
    const std::size_t width = first.size() / std::max<std::size_t>(result.rows_in_all, 1);
    auto largest = distance(Number{0}, Number{0});
    for (std::size_t i = 0, last_row = 0; i < first.size(); ++i) {
      const Number a = first[i], b = second[i];
      if (std::memcmp(&a, &b, sizeof(Number)) == 0) continue;
      const std::size_t row = i / width;
      if (result.rows == 0)
        result.row = row, result.column = i % width, result.first = shown(result.name, a),
        result.second = shown(result.name, b);
      if (result.rows == 0 || row != last_row) ++result.rows;
      last_row = row;
      const auto apart = distance(a, b);
      if (apart > largest || std::isnan(static_cast<double>(apart))) largest = apart;
    }
    result.largest_difference = concat(std::setprecision(2), largest);
    return result.rows > 0;
  }

  bool operator()(const Tensor& first, const Tensor& second) const {
    return numbers_differ<real>(first.shape(), {first.data(), first.size()}, second.shape(),
                                {second.data(), second.size()});
  }
  template <class Number>
  bool operator()(const StateDict::Array<Number>& first,
                  const StateDict::Array<Number>& second) const {
    return numbers_differ<Number>(first.shape, first.values, second.shape, second.values);
  }
  bool operator()(const std::string& first, const std::string& second) const {
    return first != second && differs_as(Kind::text);
  }
  bool operator()(const auto&, const auto&) const { return differs_as(Kind::type_or_shape); }
};

}  // namespace

std::string digits(std::int64_t number) { return std::to_string(number); }
std::string digits(float number) {
  return concat(std::setprecision(std::numeric_limits<float>::max_digits10), number);
}
std::string digits(double number) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

std::vector<CheckpointDifference> differences(const StateDict& first, const StateDict& second) {
  std::set<std::string> names;
  for (const StateDict* state : {&first, &second})
    for (std::string& name : state->names()) names.insert(std::move(name));
  std::vector<CheckpointDifference> all;
  for (const std::string& name : names) {
    CheckpointDifference found{.name = name};
    const Comparison compare{found};
    if (!second.contains(name)  ? compare.differs_as(Kind::only_in_first)
        : !first.contains(name) ? compare.differs_as(Kind::only_in_second)
                                : std::visit(compare, first.at(name), second.at(name)))
      all.push_back(std::move(found));
  }
  return all;
}

}  // namespace rowgrad
