#pragma once

// What backward leaves for a value: nothing, a dense tensor, or a few rows of a table.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// The gradient of a table [rows, width] that is zero outside a few rows. Always merged: each row
/// number stands once, in rising order; an id that was looked up twice has its gradients summed.
class RowGradient {
 public:
  /// `values` is [numbers, width]. Throws std::invalid_argument if the shapes do not fit together,
  /// or the numbers are not strictly rising or not rows of the table.
  RowGradient(Shape table_shape, std::vector<std::int32_t> numbers, Tensor values);

  const Shape& table_shape() const { return table_shape_; }
  std::size_t width() const { return table_shape_[1]; }
  std::size_t size() const { return numbers_.size(); }
  bool empty() const { return numbers_.empty(); }

  const std::vector<std::int32_t>& numbers() const { return numbers_; }
  const Tensor& values() const { return values_; }
  std::span<const real> row(std::size_t index) const {
    return {values_.data() + index * width(), width()};
  }

  /// The whole table's gradient, zeros included.
  Tensor to_dense() const;

  /// `for (auto [number, values] : rows)`: the row's number in the table, and its gradient.
  struct Row {
    std::int32_t number;
    std::span<const real> values;
  };
  class Iterator {
   public:
    Row operator*() const { return {rows_->numbers_[index_], rows_->row(index_)}; }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    friend RowGradient;
    Iterator(const RowGradient* rows, std::size_t index) : rows_(rows), index_(index) {}
    const RowGradient* rows_;
    std::size_t index_;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }

 private:
  friend class Gradient;

  Shape table_shape_;
  std::vector<std::int32_t> numbers_;
  Tensor values_;
};

/// None, dense or rows. A plain value: a copy is independent.
class Gradient {
 public:
  Gradient() = default;
  Gradient(Tensor dense) : kind_(std::move(dense)) {}     // NOLINT: a Tensor is a gradient
  Gradient(RowGradient rows) : kind_(std::move(rows)) {}  // NOLINT: and so are rows

  bool is_none() const { return std::holds_alternative<std::monostate>(kind_); }
  bool is_dense() const { return std::holds_alternative<Tensor>(kind_); }
  bool is_rows() const { return std::holds_alternative<RowGradient>(kind_); }

  /// "none", "dense" or "rows".
  std::string_view kind() const;

  /// The gradient as what it is. Throws std::logic_error if this is another kind.
  const Tensor& dense() const;
  const RowGradient& rows() const;

  /// The shape of what this is the gradient of. Throws std::logic_error if there is none.
  const Shape& shape() const;

  /// The gradient as a tensor, moved out of here if it is dense. Throws if there is none.
  Tensor take_dense() &&;

  /// The numbers it holds, of the whole or of its rows, to be changed in place; empty if there are
  /// none.
  std::span<real> numbers();
  std::span<const real> numbers() const;

  /// Multiplies all of it.
  void scale(real factor);

  /// Adds another gradient of the same shape; rows added to rows stay rows. Throws
  /// std::invalid_argument if the shapes differ, and then changes nothing.
  void add(Gradient other);

  /// The same in two parts, for who adds to several gradients, to all or to none. The first may
  /// throw and changes only `other`, into what the second takes, which cannot fail.
  void prepare_sum(Gradient& other) const;
  void add_prepared(Gradient&& prepared) noexcept;

 private:
  std::variant<std::monostate, Tensor, RowGradient> kind_;
};

}  // namespace rowgrad
