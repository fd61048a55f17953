#pragma once

// What an optimizer keeps for single rows of a table in memory.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <rowgrad/core/base/buffer_pool.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// A record of each row that was ever asked for, in the order of first use: its states side by
/// side, and then the step that they are of. Rows are used at random, but new records follow each
/// other, so that many share a page of memory. Record 0 is what a row without a record has: zeros,
/// of step 0. It is only read.
class RowRecords {
 public:
  /// No records yet, of a table [rows, width].
  RowRecords(std::size_t rows, std::size_t width) : RowRecords(Numbers(rows), width, 0) {}

  /// Adds a state of zeros to all records, after the others. What at() returned is invalid then.
  void add_state();

  /// Makes the records of these rows that have none. If memory runs out, some are not made.
  void make(std::span<const std::int32_t> rows);

  /// The number of a row's record; 0 if it has none.
  const std::uint32_t& number_of(std::size_t row) const { return numbers_[row]; }

  /// A record: the table's width of numbers for each state, and how many numbers it has in all.
  real* at(std::size_t number) {
    return chunks_[number >> chunk_bits_].data() + (number & in_chunk_) * stride_;
  }
  std::size_t stride() const { return stride_; }

  /// The step of a record.
  std::uint64_t* step(real* record) const {
    return reinterpret_cast<std::uint64_t*>(record + states_ * width_);
  }

  /// Makes all records those of step 0.
  void reset_steps();

 private:
  using Numbers = std::vector<std::uint32_t, PoolAllocator<std::uint32_t>>;
  using Chunk = std::vector<real, PoolAllocator<real>>;

  RowRecords(Numbers numbers, std::size_t width, std::size_t states);
  void add();

  std::size_t width_, states_, stride_;
  unsigned chunk_bits_;    // a chunk has 2^chunk_bits_ records
  std::size_t in_chunk_;   // the bits of a number that count within a chunk
  std::size_t count_ = 0;  // of records, with record 0
  Numbers numbers_;        // by row
  std::vector<Chunk> chunks_;
};

}  // namespace rowgrad
