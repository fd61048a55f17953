#pragma once

#include <cstdint>
#include <span>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// Holds the values of a table [rows, width] whose updates an optimizer postpones (see Parameter).
/// Optimizers implement this interface; readers go through Parameter, and every read is up to date.
class LazyRows {
 public:
  LazyRows(const LazyRows&) = delete;
  LazyRows& operator=(const LazyRows&) = delete;
  virtual ~LazyRows() = default;

 protected:
  LazyRows() = default;

 private:
  friend class Parameter;

  /// out[i] = row ids[i], up to date. Ids are inside the table and may repeat.
  virtual void read_rows(std::span<const std::int32_t> ids, real* out) = 0;

  /// Copies the whole table to out, up to date.
  virtual void read(real* out) = 0;

  /// Replaces rows with `values` [ids, width] and drops their pending updates. Ids are distinct.
  virtual void write_rows(std::span<const std::int32_t> ids, const real* values) = 0;

  /// Brings all rows up to date and returns the table, or an empty tensor for one in a file, whose
  /// rows stay as they are.
  virtual Tensor release() = 0;

  /// Forgets the parameter, which is being destroyed, and its table.
  virtual void abandon() noexcept = 0;
};

}  // namespace rowgrad
