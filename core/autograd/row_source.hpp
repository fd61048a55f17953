#pragma once

// Where the values of a parameter are: in memory, or elsewhere (in a file: core/tables).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// The values of a parameter as they are stored: a tensor of any shape in memory, or the rows of a
/// table [rows, width] elsewhere. Row numbers must be inside the table.
class RowSource {
 public:
  /// Rows of a larger table: those from `first` on, of `rows`.
  struct Part {
    std::size_t first, rows;
  };

  /// Values of this shape, which are all rows of a table unless `part` says otherwise.
  explicit RowSource(Shape shape, std::optional<Part> part = std::nullopt)
      : part_(part.value_or(Part{0, shape.empty() ? 0 : shape[0]})), shape_(std::move(shape)) {}
  RowSource(const RowSource&) = delete;
  RowSource& operator=(const RowSource&) = delete;
  virtual ~RowSource() = default;

  const Shape& shape() const { return shape_; }

  /// The rows of a table that these are.
  const Part& part() const { return part_; }

  /// Copies rows: out[i] = row ids[i], plus row i of `added` unless that is null (see
  /// kernels::gather_rows).
  virtual void gather(std::span<const std::int32_t> ids, real* out, const Tensor* added) = 0;

  /// Replaces rows: row ids[i] = in[i].
  virtual void scatter(std::span<const std::int32_t> ids, const real* in) = 0;

  /// Returns the tensor with all values; null if there is none, so that nothing may pass over them.
  virtual Tensor* dense() = 0;

  // --- Values that are not in memory -------------------------------------------------------------

  /// Returns where they are, for messages: the path of a file.
  virtual std::string location() const { return {}; }

  /// See Parameter::prefetch.
  virtual void prefetch(std::span<const std::int32_t> /*ids*/) {}

  /// Throws std::logic_error if no optimizer would train the rows with a gradient of these values.
  virtual void check_takes_gradient() const {}

  /// Throws std::logic_error if rows have deferred updates that only a saved state knows.
  virtual void check_up_to_date() const {}

  /// The checkpoint that the values are at, and the way back to one. check_checkpoint() throws
  /// std::invalid_argument for a checkpoint that they cannot go back to.
  virtual std::string checkpoint_id() const { return {}; }
  virtual void check_checkpoint(const std::string& /*id*/) const {}
  virtual void restore(const std::string& /*id*/) {}

 private:
  Part part_;
  Shape shape_;
};

/// Returns values in memory.
std::unique_ptr<RowSource> rows_in_memory(Tensor values,
                                          std::optional<RowSource::Part> part = std::nullopt);

}  // namespace rowgrad
