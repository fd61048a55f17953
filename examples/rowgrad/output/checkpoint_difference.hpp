#pragma once

// Where two checkpoints differ: of two runs that should have been equal, or of one run at two
// times.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <rowgrad/core/tensor/checkpoint.hpp>

namespace rowgrad {

/// How the values of one name differ.
struct CheckpointDifference {
  /// What differs.
  enum class Kind {
    only_in_first,   // the second has no value of this name
    only_in_second,  // the first has none
    type_or_shape,   // values are of different kinds, or of different shapes
    text,            // two texts
    numbers,         // those of the members below
  };

  std::string name;           // the name of the value that differs
  Kind kind = Kind::numbers;  // how they differ

  /// The first number that differs, in row-major order; numbers are equal if their bits are. Its
  /// row is its index on the first axis, and its column is its place in that row. The texts have
  /// all digits.
  std::size_t row = 0;
  std::size_t column = 0;
  std::string first = {};
  std::string second = {};

  std::size_t rows = 0;                 // that have numbers that differ
  std::size_t rows_in_all = 0;          // of the value
  std::string largest_difference = {};  // of two numbers; "nan" if one of them is NaN
};

/// Returns a text from which exactly this number is read.
std::string digits(std::int64_t number);
std::string digits(float number);
std::string digits(double number);

/// Returns the differences of all values, sorted by name; none for equal checkpoints.
std::vector<CheckpointDifference> differences(const Checkpoint& first, const Checkpoint& second);

}  // namespace rowgrad
