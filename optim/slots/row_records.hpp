#pragma once

// Optimizer state of single rows of a table in memory.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <rowgrad/core/base/zeroed_allocator.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// Holds a record of each row that was ever asked for, in the order of first use: the slots of the
/// row next to each other, and then the step that they are of. Rows are used at random, but new
/// records follow each other, so that many share a page of memory. Record 0 belongs to all rows
/// that have no record: zeros, of step 0. It is only read.
class RowRecords {
 public:
  /// Makes record 0 of a table [rows, width].
  RowRecords(std::size_t rows, std::size_t width);

  /// Adds a slot of zeros to all records, after the others. The addresses of records change.
  void add_slot();

  /// Makes the records of these rows that have none. Records keep their addresses. If memory runs
  /// out, some are not made.
  void make(std::span<const std::int32_t> rows);

  /// Returns the number of a row's record; 0 if it has none.
  const std::uint32_t& number_of(std::size_t row) const { return numbers_[row]; }

  /// Returns a record: the table's width of values for each slot, then the step.
  real* at(std::size_t number) {
    return chunks_[number >> chunk_bits_].data() + (number & in_chunk_) * layout_.stride;
  }
  const real* at(std::size_t number) const {
    return chunks_[number >> chunk_bits_].data() + (number & in_chunk_) * layout_.stride;
  }
  std::uint64_t* step(real* record) const {
    return reinterpret_cast<std::uint64_t*>(record + layout_.step);
  }

  /// Returns how many numbers of type `real` a record takes.
  std::size_t stride() const { return layout_.stride; }

  /// Makes all records those of step 0.
  void reset_steps();

 private:
  using Chunk = std::vector<real, PoolAllocator<real>>;

  // Where the parts of a record are, in numbers of type `real`.
  struct Layout {
    std::size_t width, slots, step, stride;
    Layout(std::size_t width, std::size_t slots);
  };

  RowRecords(std::size_t rows, const Layout& layout);
  void add();

  Layout layout_;
  unsigned chunk_bits_;    // a chunk has 2^chunk_bits_ records
  std::size_t in_chunk_;   // a mask: the place of a record in its chunk
  std::size_t count_ = 0;  // of records, with record 0
  std::vector<std::uint32_t, ZeroedAllocator<std::uint32_t>> numbers_;  // of each row
  std::vector<Chunk> chunks_;
};

}  // namespace rowgrad
