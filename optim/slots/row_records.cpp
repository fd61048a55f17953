#include <algorithm>
#include <bit>
#include <utility>

#include <rowgrad/optim/slots/row_records.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{2} << 20;            // the size of a huge page
constexpr std::size_t kStep = sizeof(std::uint64_t) / sizeof(real);  // a step, in units of `real`
constexpr std::size_t kLine = 64 / sizeof(real);  // a cache line, in units of `real`
constexpr std::size_t kAhead = 16;                // prefetch distance in rows

std::size_t round_up(std::size_t count, std::size_t step) {
  return (count + step - 1) / step * step;
}

// Pads long records to whole cache lines, and short records to quarters of a line to save memory.
std::size_t padded(std::size_t count) {
  return round_up(count, count >= 4 * kLine ? kLine : kLine / 4);
}

}  // namespace

RowRecords::Layout::Layout(std::size_t width_of_table, std::size_t slot_count)
    : width(width_of_table),
      slots(slot_count),
      step(round_up(slots * width, kStep)),
      stride(padded(step + kStep)) {}

RowRecords::RowRecords(std::size_t rows, std::size_t width) : RowRecords(rows, Layout(width, 0)) {
  numbers_.resize(rows);
}

RowRecords::RowRecords(std::size_t rows, const Layout& layout) : layout_(layout) {
  const std::size_t most = std::max<std::size_t>(1, kChunkBytes / (stride() * sizeof(real)));
  chunk_bits_ = static_cast<unsigned>(std::bit_width(std::min(most, std::bit_ceil(rows + 1))) - 1);
  in_chunk_ = (std::size_t{1} << chunk_bits_) - 1;
  add();
}

void RowRecords::add_slot() {
  RowRecords wider(numbers_.size(), Layout(layout_.width, layout_.slots + 1));
  while (wider.count_ < count_) wider.add();
  for (std::size_t number = 0; number < count_; ++number) {
    std::copy_n(at(number), layout_.slots * layout_.width, wider.at(number));
    *wider.step(wider.at(number)) = *step(at(number));
  }
  wider.numbers_ = std::move(numbers_);
  *this = std::move(wider);
}

void RowRecords::add() {
  if ((count_ & in_chunk_) == 0) chunks_.emplace_back((in_chunk_ + 1) * stride());
  ++count_;
}

void RowRecords::make(std::span<const std::int32_t> rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i + kAhead < rows.size())
      __builtin_prefetch(&number_of(static_cast<std::size_t>(rows[i + kAhead])));
    std::uint32_t& number = numbers_[static_cast<std::size_t>(rows[i])];
    if (number != 0) continue;
    add();
    number = static_cast<std::uint32_t>(count_ - 1);
  }
}

void RowRecords::reset_steps() {
  for (std::size_t number = 1; number < count_; ++number) *step(at(number)) = 0;
}

}  // namespace rowgrad
