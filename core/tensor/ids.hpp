#pragma once

// Arrays of ids. They have the same type in both libraries, rowgrad and rowgrad_double. Wrong
// arguments throw std::invalid_argument.

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <ranges>
#include <type_traits>
#include <utility>
#include <vector>

#include <rowgrad/core/base/buffer_pool.hpp>
#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/tensor/xtensor.hpp>

namespace rowgrad {

/// An array of ids: token ids, positions or row indices. Rank 1 for a text, rank 2 for a batch.
/// Braces hold ids, never a shape:
///
///   Ids text{3, 4};                     // the ids 3 and 4
///   Ids batch{{3, 4}, {5, 6}};          // two rows
///   Ids zeros = Ids::from_shape({2, 3});
///
/// `Ids({2, 3})` does not compile, because readers take it for a shape. Tensors do not convert to
/// ids, and ids do not convert to tensors, unlike arrays of xtensor.
class Ids {
 public:
  /// The array of xtensor that holds the ids.
  using Array = xt::xarray<std::int32_t, xt::layout_type::row_major, PoolAllocator<std::int32_t>>;
  using value_type = std::int32_t;       // the type of an id
  using shape_type = Array::shape_type;  // extents of the axes

  /// No ids, of shape [0].
  Ids() : array_(Array::from_shape({0})) {}

  /// Ids of rank 1, or of rank 2 from rows. Throws for rows of unequal length.
  template <std::same_as<std::int32_t> Id>
  Ids(std::initializer_list<Id> ids) : array_(ids) {}
  template <std::same_as<std::int32_t> Id>
  Ids(std::initializer_list<std::initializer_list<Id>> rows) : array_(array_of(rows)) {}

  // `Ids({2, 3})` selects these, as they are more specialized. `Ids{2, 3}` does not, as a
  // constructor with a parameter pack is not an initializer-list constructor.
  template <class... None>
  Ids(std::initializer_list<std::int32_t>, None...) = delete;  // write Ids{…} or Ids::from_shape(…)
  template <class... None>
  Ids(std::initializer_list<std::initializer_list<std::int32_t>>, None...) = delete;

  /// Copies the ids that a tokenizer returned, into rank 1.
  Ids(const std::vector<std::int32_t>& ids);

  /// Takes an array of xtensor.
  explicit Ids(std::same_as<Array> auto array) : array_(std::move(array)) {}

  /// Zeros of this shape. Throws for a shape that no memory could hold.
  static Ids from_shape(const shape_type& shape);

  /// The array of xtensor, and its memory.
  const Array& array() const { return array_; }
  Array::storage_type& storage() { return array_.storage(); }
  const Array::storage_type& storage() const { return array_.storage(); }

  /// The extents of all axes or of one, and the number of axes and of ids.
  const shape_type& shape() const { return array_.shape(); }
  std::size_t shape(std::size_t axis) const { return array_.shape(axis); }
  std::size_t dimension() const { return array_.dimension(); }
  std::size_t size() const { return array_.size(); }

  /// Changes the shape. Throws if the new shape has another number of ids.
  void reshape(const shape_type& shape);

  /// The ids in row-major order.
  std::int32_t* data() { return array_.data(); }
  const std::int32_t* data() const { return array_.data(); }
  std::int32_t* begin() { return data(); }
  const std::int32_t* begin() const { return data(); }
  std::int32_t* end() { return data() + size(); }
  const std::int32_t* end() const { return data() + size(); }

  /// The id at an offset in row-major order, or at an index. Programs compiled without NDEBUG throw
  /// if it is out of range: std::invalid_argument, or std::runtime_error for an index.
  std::int32_t& operator[](std::size_t offset) { return data()[checked(offset)]; }
  std::int32_t operator[](std::size_t offset) const { return data()[checked(offset)]; }
  std::int32_t& operator()(auto... index) { return array_(index...); }
  std::int32_t operator()(auto... index) const { return array_(index...); }

  /// Returns true if shapes and ids are equal.
  friend bool operator==(const Ids& a, const Ids& b) { return a.array_ == b.array_; }

 private:
  static Array array_of(std::initializer_list<std::initializer_list<std::int32_t>> rows);

  std::size_t checked(std::size_t offset) const {
#if !defined(NDEBUG)
    check_argument(offset < size(), "Ids: offset ", offset, " is out of range: there are ", size(),
                   " ids");
#endif
    return offset;
  }

  Array array_;
};

/// Copies a range of numbers into ids of rank 1. Throws std::invalid_argument for a number that is
/// not whole or does not fit in 32 bits. Tensors are not taken.
template <std::ranges::sized_range Range>
requires(std::is_arithmetic_v<std::ranges::range_value_t<Range>> &&
         !xt::is_xexpression<Range>::value) Ids to_ids(const Range& range) {
  using Number = std::ranges::range_value_t<Range>;
  Ids ids = Ids::from_shape({static_cast<std::size_t>(std::ranges::size(range))});
  std::int32_t* out = ids.data();
  for (const Number of_range : range) {
    const auto number = +of_range;  // characters become integers
    bool fits;
    if constexpr (std::is_integral_v<Number>)
      fits = std::in_range<std::int32_t>(number);
    else
      fits = number >= -0x1p31 && number < 0x1p31 && number == std::trunc(number);
    check_argument(fits, "to_ids: number ", out - ids.data(), " is ", number,
                   ", expected a whole number from -2^31 to 2^31 - 1");
    *out++ = static_cast<std::int32_t>(number);
  }
  return ids;
}

}  // namespace rowgrad
