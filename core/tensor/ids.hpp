#pragma once

// Arrays of ids. They have the same type in both libraries, rowgrad and rowgrad_double.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

#include <rowgrad/core/base/buffer_pool.hpp>
#include <rowgrad/core/tensor/xtensor.hpp>

namespace rowgrad {

/// An array of ids: token ids, positions or row indices. Rank 1 for a text, rank 2 for a batch.
/// It is a class of its own because arrays of xtensor convert to each other silently: a tensor is
/// not taken for ids, and ids are not taken for a tensor.
class Ids {
 public:
  /// The array of xtensor that holds the ids.
  using Array = xt::xarray<std::int32_t, xt::layout_type::row_major, PoolAllocator<std::int32_t>>;
  using value_type = std::int32_t;       // the type of an id
  using shape_type = Array::shape_type;  // extents of the axes

  Ids() = default;
  /// Makes ids of rank 1, of rank 2 from rows of equal length, or of an array of xtensor.
  Ids(std::initializer_list<std::int32_t> ids) : array_(ids) {}
  Ids(std::initializer_list<std::initializer_list<std::int32_t>> rows) : array_(rows) {}
  /// Rank 1, as tokenizers give them.
  Ids(const std::vector<std::int32_t>& ids) : Ids(shape_type{ids.size()}) {
    std::copy(ids.begin(), ids.end(), data());
  }
  explicit Ids(std::same_as<Array> auto array) : array_(std::move(array)) {}

  /// Makes uninitialised ids of this shape.
  explicit Ids(const shape_type& shape) : array_(shape) {}
  static Ids from_shape(const shape_type& shape) { return Ids(shape); }

  /// The array of xtensor, and its memory.
  const Array& array() const { return array_; }
  Array::storage_type& storage() { return array_.storage(); }
  const Array::storage_type& storage() const { return array_.storage(); }

  /// The extents of all axes or of one, and how many axes and ids there are. reshape() takes
  /// another shape of as many ids.
  const shape_type& shape() const { return array_.shape(); }
  std::size_t shape(std::size_t axis) const { return array_.shape(axis); }
  std::size_t dimension() const { return array_.dimension(); }
  std::size_t size() const { return array_.size(); }
  void reshape(const shape_type& shape) { array_.reshape(shape); }

  /// The ids in row-major order.
  std::int32_t* data() { return array_.data(); }
  const std::int32_t* data() const { return array_.data(); }
  std::int32_t* begin() { return data(); }
  const std::int32_t* begin() const { return data(); }
  std::int32_t* end() { return data() + size(); }
  const std::int32_t* end() const { return data() + size(); }

  /// The id at an offset in row-major order, or at an index.
  std::int32_t& operator[](std::size_t offset) { return data()[offset]; }
  std::int32_t operator[](std::size_t offset) const { return data()[offset]; }
  std::int32_t& operator()(auto... index) { return array_(index...); }
  std::int32_t operator()(auto... index) const { return array_(index...); }

  /// Whether shapes and ids are equal.
  friend bool operator==(const Ids& a, const Ids& b) { return a.array_ == b.array_; }

 private:
  Array array_;
};

/// Copies a range of ids into an array of rank 1.
Ids to_ids(const auto& range) {
  Ids ids(Ids::shape_type{static_cast<std::size_t>(std::size(range))});
  std::copy(std::begin(range), std::end(range), ids.data());
  return ids;
}

}  // namespace rowgrad
