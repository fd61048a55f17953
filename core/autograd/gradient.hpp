#pragma once

// The gradient of a value: none, a dense tensor, or a few rows of a table.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// The gradient of a table [rows, width] that is zero outside a few rows. Always merged: the row
/// indices are distinct and increasing, and the gradients of repeated ids are summed.
class RowGradient {
 public:
  /// `values` is [indices, width]. Throws std::invalid_argument if the shapes do not match or the
  /// row indices are not strictly increasing or outside the table.
  RowGradient(Shape table_shape, std::vector<std::int32_t> indices, Tensor values);
  RowGradient(Shape table_shape, auto merged)  // what kernels::merge_rows() returns
      : RowGradient(table_shape, std::move(merged.indices), std::move(merged.values)) {}

  /// The shape of the whole table, and the length of its rows.
  const Shape& table_shape() const { return table_shape_; }
  std::size_t width() const { return table_shape_[1]; }

  /// How many rows have a gradient here, and whether none has.
  std::size_t size() const { return indices_.size(); }
  bool empty() const { return indices_.empty(); }

  /// Which rows of the table they are, in increasing order, and their gradients [size(), width()].
  /// row(i) is the gradient of row indices()[i].
  const std::vector<std::int32_t>& indices() const { return indices_; }
  const Tensor& values() const { return values_; }
  std::span<const real> row(std::size_t i) const { return {values_.data() + i * width(), width()}; }

  /// The gradient of the whole table, including zeros.
  Tensor to_dense() const;

  /// For `for (auto [index, values] : rows)`: a row's index in the table and its gradient.
  struct Row {
    std::int32_t index;            // the number of the row in the table
    std::span<const real> values;  // the gradient of the row, [width]
  };
  /// Goes over the rows in the order of indices().
  struct Iterator {
    const RowGradient* rows;  // borrowed
    std::size_t i;            // the row that it is at

    /// The row that it is at; ++ goes to the next one.
    Row operator*() const { return {rows->indices_[i], rows->row(i)}; }
    Iterator& operator++() {
      ++i;
      return *this;
    }
    bool operator==(const Iterator&) const = default;
  };
  /// The first row, and the place after the last one.
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }

 private:
  friend class Gradient;

  Shape table_shape_;
  std::vector<std::int32_t> indices_;
  Tensor values_;
};

/// A gradient of one of three kinds: none, dense or rows. Copies are independent.
class Gradient {
 public:
  Gradient() = default;
  /// A gradient of every value, or of some rows, where that of the others is zero.
  Gradient(Tensor dense) : kind_(std::move(dense)) {}     // NOLINT: implicit
  Gradient(RowGradient rows) : kind_(std::move(rows)) {}  // NOLINT: implicit

  /// Whether no gradient was added; whether it is dense, so that dense() may be called; and whether
  /// it is of single rows, so that rows() may be called.
  bool is_none() const { return std::holds_alternative<std::monostate>(kind_); }
  bool is_dense() const { return std::holds_alternative<Tensor>(kind_); }
  bool is_rows() const { return std::holds_alternative<RowGradient>(kind_); }
  std::string_view kind() const;  // "none", "dense" or "rows"

  /// The dense tensor, or the rows. Throws std::logic_error if the gradient is of another kind.
  const Tensor& dense() const;
  Tensor& dense();
  const RowGradient& rows() const;

  /// The shape of the value whose gradient this is. Throws std::logic_error if there is none.
  const Shape& shape() const;

  /// The gradient as a dense tensor, moved out if dense. Throws std::logic_error if there is none.
  Tensor take_dense() &&;

  /// The numbers of the tensor or of the rows, which may be changed in place; none if there is no
  /// gradient.
  std::span<real> values();
  std::span<const real> values() const;

  /// Multiplies all numbers in place.
  void scale(real factor);

  /// Adds another gradient of the same shape; rows plus rows gives rows. Throws
  /// std::invalid_argument if the shapes differ, and then changes nothing.
  void add(Gradient other);

 private:
  std::variant<std::monostate, Tensor, RowGradient> kind_;
};

}  // namespace rowgrad
