#pragma once

// Finds the differences between two checkpoints.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <rowgrad/core/tensor/state_dict.hpp>

namespace rowgrad {

/// A difference between the values with one name.
struct CheckpointDifference {
  enum class Kind {
    only_in_first,   // only the first checkpoint has the name
    only_in_second,  // only the second checkpoint has the name
    type_or_shape,   // different kinds of values, or shapes
    text,            // different strings
    numbers,         // different elements; see the members below
  };

  std::string name;
  Kind kind = Kind::numbers;

  /// The first element that differs bitwise, in row-major order. `row` is its index on the first
  /// axis, `column` its index in that row. `first` and `second` are its values, with all digits.
  std::size_t row = 0;
  std::size_t column = 0;
  std::string first = {};
  std::string second = {};

  std::size_t rows = 0;                 // number of rows that differ
  std::size_t rows_in_all = 0;          // number of rows
  std::string largest_difference = {};  // "nan" if an element is NaN
};

/// Formats a number so that parsing the string returns exactly this number.
std::string digits(std::int64_t number);
std::string digits(float number);
std::string digits(double number);

/// Returns all differences, sorted by name; empty for equal checkpoints.
std::vector<CheckpointDifference> differences(const StateDict& first, const StateDict& second);

}  // namespace rowgrad
