#pragma once

// What keeps a table while some of its rows are owed updates.

#include <cstdint>
#include <span>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// Keeps the numbers of a table [rows, width] to which updates come late: rows that were not looked
/// up are owed what an optimizer would have done to them, until someone reads them. Numbers leave
/// it up to date only, so whoever reads a lent parameter cannot miss an update. Optimizers are the
/// keepers; readers go through Parameter.
class LazyRows {
 public:
  LazyRows(const LazyRows&) = delete;
  LazyRows& operator=(const LazyRows&) = delete;
  virtual ~LazyRows() = default;

 protected:
  LazyRows() = default;

 private:
  friend class Parameter;

  /// out[i] = row ids[i], up to date. Ids are rows of the table and may repeat.
  virtual void read_rows(std::span<const std::int32_t> ids, real* out) = 0;

  /// Copies the whole table to out, up to date.
  virtual void read(real* out) = 0;

  /// Replaces rows, by values [ids, width]; what they were owed counts as done. Ids are distinct.
  virtual void write_rows(std::span<const std::int32_t> ids, const real* values) = 0;

  /// Brings everything up to date and hands the table back.
  virtual Tensor release() = 0;

  /// The parameter is being destroyed: forgets it and its table.
  virtual void abandon() noexcept = 0;
};

}  // namespace rowgrad
