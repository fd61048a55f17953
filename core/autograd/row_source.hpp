#pragma once

// Row sources: storage for the values of a parameter, in memory or elsewhere (core/tables).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// The stored values of a parameter: a tensor of any shape in memory, or the rows of a table
/// [rows, width] elsewhere. Row ids must be in range.
class RowSource {
 public:
  /// A part of a table: `rows` rows, beginning at row `first`.
  struct Part {
    std::size_t first, rows;
  };

  /// Creates a source of shape `shape`, for a whole table unless `part` is given.
  explicit RowSource(Shape shape, std::optional<Part> part = std::nullopt)
      : part_(part.value_or(Part{0, shape.empty() ? 0 : shape[0]})), shape_(std::move(shape)) {}
  RowSource(const RowSource&) = delete;
  RowSource& operator=(const RowSource&) = delete;
  virtual ~RowSource() = default;

  const Shape& shape() const { return shape_; }

  /// Returns the part of the table that this source holds.
  const Part& part() const { return part_; }

  /// Copies rows: out[i] = row ids[i], plus rows of `added`, if not null, as in
  /// kernels::gather_rows.
  virtual void gather(std::span<const std::int32_t> ids, real* out, const Tensor* added) = 0;

  /// Replaces rows: row ids[i] = in[i].
  virtual void scatter(std::span<const std::int32_t> ids, const real* in) = 0;

  /// Returns the tensor with all values, or null if the values are not in memory.
  virtual Tensor* dense() = 0;

  // --- Values that are not in memory (defaults do nothing) ---------------------------------------

  /// Returns the location of the rows for messages, such as a path.
  virtual std::string location() const { return {}; }

  /// Implements Parameter::prefetch.
  virtual void prefetch(std::span<const std::int32_t> /*ids*/) {}

  /// Throws std::logic_error if no optimizer can apply gradients to these rows.
  virtual void check_takes_gradient() const {}

  /// Throws std::logic_error if rows have deferred steps that only a saved optimizer state can
  /// apply.
  virtual void check_up_to_date() const {}

  /// checkpoint_id() returns the id of the values' checkpoint. restore() restores a checkpoint;
  /// check_checkpoint() throws std::invalid_argument if that is impossible.
  virtual std::string checkpoint_id() const { return {}; }
  virtual void check_checkpoint(const std::string& /*id*/) const {}
  virtual void restore(const std::string& /*id*/) {}

 private:
  Part part_;
  Shape shape_;
};

/// Returns a row source that holds `values` in memory.
std::unique_ptr<RowSource> rows_in_memory(Tensor values,
                                          std::optional<RowSource::Part> part = std::nullopt);

}  // namespace rowgrad
