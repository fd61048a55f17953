#pragma once

// Optimizer state of a table in memory, stored only for rows that need it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <rowgrad/core/base/zeroed_allocator.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// Records of the rows for which make() was called, in the order of these calls. A record holds the
/// slots of a row next to each other, then the row's step. Because new records follow each other,
/// many share a memory page even if rows are used at random. Record 0, for all rows without their
/// own record, is read-only: zeros at step 0.
class RowRecords {
 public:
  /// Creates record 0 for a table [rows, width].
  RowRecords(std::size_t rows, std::size_t width);

  /// Adds a slot of zeros to all records, after the other slots. The addresses of records change.
  void add_slot();

  /// Creates records for those `rows` that have none. Existing records keep their addresses. If
  /// memory runs out, some records are not created.
  void make(std::span<const std::int32_t> rows);

  /// Returns the index of a row's record; 0 if it has none.
  const std::uint32_t& number_of(std::size_t row) const { return numbers_[row]; }

  /// Returns a record: `width` values for each slot, then the step.
  real* at(std::size_t number) {
    return chunks_[number >> chunk_bits_].data() + (number & in_chunk_) * layout_.stride;
  }
  const real* at(std::size_t number) const {
    return chunks_[number >> chunk_bits_].data() + (number & in_chunk_) * layout_.stride;
  }
  std::uint64_t* step(real* record) const {
    return reinterpret_cast<std::uint64_t*>(record + layout_.step);
  }

  /// Returns the size of a record, in units of `real`.
  std::size_t stride() const { return layout_.stride; }

  /// Sets the steps of all records to 0.
  void reset_steps();

 private:
  using Chunk = std::vector<real, PoolAllocator<real>>;

  // Offsets and sizes within a record, in units of `real`.
  struct Layout {
    std::size_t width, slots, step, stride;
    Layout(std::size_t width, std::size_t slots);
  };

  RowRecords(std::size_t rows, const Layout& layout);
  void add();

  Layout layout_;
  unsigned chunk_bits_;    // a chunk has 2^chunk_bits_ records
  std::size_t in_chunk_;   // mask for the index of a record in its chunk
  std::size_t count_ = 0;  // records, including record 0
  std::vector<std::uint32_t, ZeroedAllocator<std::uint32_t>> numbers_;  // record index of each row
  std::vector<Chunk> chunks_;
};

}  // namespace rowgrad
