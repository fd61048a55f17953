#pragma once

// Finds the differences of two checkpoints.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <rowgrad/core/tensor/state_dict.hpp>

namespace rowgrad {

/// A difference of the values of one name.
struct CheckpointDifference {
  enum class Kind {
    only_in_first,   // only the first checkpoint has the name
    only_in_second,  // only the second checkpoint has the name
    type_or_shape,   // different kinds of values, or shapes
    text,            // different texts, which differences() does not show
    numbers,         // see the members below
  };

  std::string name;
  Kind kind = Kind::numbers;

  /// The first number that differs, in row-major order; numbers are equal if their bits are. Its
  /// row is its index on the first axis, and its column is its place in that row. The texts have
  /// all digits.
  std::size_t row = 0;
  std::size_t column = 0;
  std::string first = {};
  std::string second = {};

  std::size_t rows = 0;                 // number of rows that differ
  std::size_t rows_in_all = 0;          // number of rows
  std::string largest_difference = {};  // "nan" if one of the numbers is NaN
};

/// Returns a text from which exactly this number is read.
std::string digits(std::int64_t number);
std::string digits(float number);
std::string digits(double number);

/// Returns the differences of all values, sorted by name; none for equal checkpoints.
std::vector<CheckpointDifference> differences(const StateDict& first, const StateDict& second);

}  // namespace rowgrad
