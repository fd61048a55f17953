#pragma once

// Arrays of ids, of the same type in rowgrad and rowgrad_double. Wrong arguments throw
// std::invalid_argument.

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

/// An array of token ids, positions or row indices. Rank 1 for a sequence, rank 2 for a batch.
/// Braces hold ids, never a shape:
///
///   Ids ids{3, 4};                      // the ids 3 and 4
///   Ids batch{{3, 4}, {5, 6}};          // two rows
///   Ids zeros = Ids::from_shape({2, 3});
///
/// `Ids({2, 3})` does not compile, because readers would take it for a shape. Ids and tensors do
/// not convert to each other, unlike xtensor arrays.
class Ids {
 public:
  /// The xtensor array that holds the ids.
  using Array = xt::xarray<std::int32_t, xt::layout_type::row_major, PoolAllocator<std::int32_t>>;
  using value_type = std::int32_t;       // type of an id
  using shape_type = Array::shape_type;  // extents of the axes

  /// Creates an empty array of shape [0].
  Ids() : array_(Array::from_shape({0})) {}

  /// Creates an array of rank 1, or of rank 2 from rows. Throws for rows of unequal length.
  template <std::same_as<std::int32_t> Id>
  Ids(std::initializer_list<Id> ids) : array_(ids) {}
  template <std::same_as<std::int32_t> Id>
  Ids(std::initializer_list<std::initializer_list<Id>> rows) : array_(array_of(rows)) {}

  // `Ids({2, 3})` selects these constructors, as they are more specialized. `Ids{2, 3}` does not: a
  // constructor with a parameter pack is not an initializer-list constructor.
  template <class... None>
  Ids(std::initializer_list<std::int32_t>, None...) = delete;  // write Ids{…} or Ids::from_shape(…)
  template <class... None>
  Ids(std::initializer_list<std::initializer_list<std::int32_t>>, None...) = delete;

  /// Copies ids into an array of rank 1.
  Ids(const std::vector<std::int32_t>& ids);

  /// Wraps an xtensor array.
  explicit Ids(std::same_as<Array> auto array) : array_(std::move(array)) {}

  /// Returns zeros of this shape. Throws if no memory could hold them.
  static Ids from_shape(const shape_type& shape);

  /// Return the xtensor array and its memory.
  const Array& array() const { return array_; }
  Array::storage_type& storage() { return array_.storage(); }
  const Array::storage_type& storage() const { return array_.storage(); }

  const shape_type& shape() const { return array_.shape(); }                // returns all extents
  std::size_t shape(std::size_t axis) const { return array_.shape(axis); }  // returns one extent
  std::size_t dimension() const { return array_.dimension(); }  // returns the number of axes
  std::size_t size() const { return array_.size(); }            // returns the number of ids

  /// Changes the shape. Throws if the new shape has a different number of elements.
  void reshape(const shape_type& shape);

  /// Access the ids in row-major order.
  std::int32_t* data() { return array_.data(); }
  const std::int32_t* data() const { return array_.data(); }
  std::int32_t* begin() { return data(); }
  const std::int32_t* begin() const { return data(); }
  std::int32_t* end() { return data() + size(); }
  const std::int32_t* end() const { return data() + size(); }

  /// Access the id at an offset in row-major order, or at an index. In programs compiled without
  /// NDEBUG, an offset out of range throws std::invalid_argument, an index std::runtime_error.
  std::int32_t& operator[](std::size_t offset) { return data()[checked(offset)]; }
  std::int32_t operator[](std::size_t offset) const { return data()[checked(offset)]; }
  std::int32_t& operator()(auto... index) { return array_(index...); }
  std::int32_t operator()(auto... index) const { return array_(index...); }

  /// Compares shapes and ids.
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

/// Converts a range of numbers to ids of rank 1. Throws std::invalid_argument for a number that is
/// not an integer or does not fit in 32 bits. Does not accept tensors.
template <std::ranges::sized_range Range>
requires(std::is_arithmetic_v<std::ranges::range_value_t<Range>> &&
         !xt::is_xexpression<Range>::value) Ids to_ids(const Range& range) {
  using Number = std::ranges::range_value_t<Range>;
  Ids ids = Ids::from_shape({static_cast<std::size_t>(std::ranges::size(range))});
  std::int32_t* out = ids.data();
  for (const Number of_range : range) {
    const auto number = +of_range;  // promotes characters to integers
    bool fits;
    if constexpr (std::is_integral_v<Number>)
      fits = std::in_range<std::int32_t>(number);
    else
      fits = number >= -0x1p31 && number < 0x1p31 && number == std::trunc(number);
    check_argument(fits, "to_ids: element ", out - ids.data(), " is ", number,
                   ", expected an integer from -2^31 to 2^31 - 1");
    *out++ = static_cast<std::int32_t>(number);
  }
  return ids;
}

}  // namespace rowgrad
