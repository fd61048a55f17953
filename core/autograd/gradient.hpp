#pragma once

// The gradient of a value: none, dense, or the gradients of a few rows of a table.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// The gradient of a table [rows, width], zero except in a few rows. Row indices are distinct and
/// increasing, and gradients of repeated ids are summed.
class RowGradient {
 public:
  /// Takes `values` [indices, width]. Throws std::invalid_argument if the shapes do not match, or
  /// if row indices are out of range or not strictly increasing.
  RowGradient(Shape table_shape, std::vector<std::int32_t> indices, Tensor values);
  RowGradient(Shape table_shape, auto merged)  // from kernels::merge_rows()
      : RowGradient(table_shape, std::move(merged.indices), std::move(merged.values)) {}

  /// Return the shape of the whole table, and the number of columns.
  const Shape& table_shape() const { return table_shape_; }
  std::size_t width() const { return table_shape_[1]; }

  /// Returns the number of rows in this gradient.
  std::size_t size() const { return indices_.size(); }
  bool empty() const { return indices_.empty(); }

  /// Return the increasing indices of the rows, and the gradients [size(), width()]. row(i) returns
  /// the gradient of row indices()[i].
  const std::vector<std::int32_t>& indices() const { return indices_; }
  const Tensor& values() const { return values_; }
  std::span<const real> row(std::size_t i) const { return {values_.data() + i * width(), width()}; }

  /// Returns the gradient of the whole table, including zeros.
  Tensor to_dense() const;

  /// A row of the gradient, as in `for (auto [index, values] : rows)`.
  struct Row {
    std::int32_t index;            // index in the table
    std::span<const real> values;  // gradient [width]
  };
  /// An iterator over the rows, in the order of indices().
  struct Iterator {
    const RowGradient* rows;  // borrowed
    std::size_t i;            // position in indices()

    /// Operators for range-based loops.
    Row operator*() const { return {rows->indices_[i], rows->row(i)}; }
    Iterator& operator++() {
      ++i;
      return *this;
    }
    bool operator==(const Iterator&) const = default;
  };
  /// Return iterators over all rows.
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
  /// Convert from a dense tensor or a row gradient.
  Gradient(Tensor dense) : kind_(std::move(dense)) {}     // NOLINT: implicit
  Gradient(RowGradient rows) : kind_(std::move(rows)) {}  // NOLINT: implicit

  /// Test the kind of this gradient: exactly one returns true. A new gradient is none.
  bool is_none() const { return std::holds_alternative<std::monostate>(kind_); }
  bool is_dense() const { return std::holds_alternative<Tensor>(kind_); }
  bool is_rows() const { return std::holds_alternative<RowGradient>(kind_); }
  std::string_view kind() const;  // "none", "dense" or "rows"

  /// Return the dense tensor, or the rows. Throw std::logic_error for another kind.
  const Tensor& dense() const;
  Tensor& dense();
  const RowGradient& rows() const;

  /// Returns the shape of the differentiated value. Throws std::logic_error if the kind is none.
  const Shape& shape() const;

  /// Moves the gradient out as a dense tensor. Throws std::logic_error if the kind is none.
  Tensor take_dense() &&;

  /// Return the elements of the tensor or of the rows, or an empty span if the kind is none.
  std::span<real> values();
  std::span<const real> values() const;

  /// Multiplies all elements by `factor` in place.
  void scale(real factor);

  /// Adds a gradient of the same shape; rows plus rows gives rows. Throws std::invalid_argument,
  /// and changes nothing, if the shapes differ.
  void add(Gradient other);

 private:
  std::variant<std::monostate, Tensor, RowGradient> kind_;
};

}  // namespace rowgrad
