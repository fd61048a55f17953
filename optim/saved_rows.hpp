#pragma once

// Tables in the state of an optimizer: mostly zeros, if few of their rows were ever touched.

#include <string>

#include <rowgrad/core/tensor/checkpoint.hpp>

namespace rowgrad {

/// Puts a tensor into a state: as `name` or, if it is a table of 1 MiB or more and this takes less
/// than half as much, as its rows that are not zeros, "name.rows" [n] and "name.values" [n, width].
void put_rows(Checkpoint& state, const std::string& name, const Tensor& table);

/// Whether a state has it in either form.
bool has_rows(const Checkpoint& state, const std::string& name);

/// The tensor. Throws std::invalid_argument if it is missing, there in both forms, or of another
/// shape, and for row numbers that are not strictly rising or outside the table.
Tensor rows_in(const Checkpoint& state, const std::string& name, const Shape& shape);

}  // namespace rowgrad
