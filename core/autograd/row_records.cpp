#include <algorithm>
#include <bit>
#include <utility>

#include <rowgrad/core/autograd/row_records.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{2} << 20;  // a huge page
constexpr std::size_t kLine = 64 / sizeof(real);           // of the cache
constexpr std::size_t kAhead = 16;                         // rows

}  // namespace

RowRecords::RowRecords(Numbers numbers, std::size_t width, std::size_t states)
    : width_(width), states_(states), numbers_(std::move(numbers)) {
  constexpr std::size_t kStep = sizeof(std::uint64_t) / sizeof(real);
  const std::size_t used = states * width + kStep;
  stride_ = used < kLine ? std::bit_ceil(used) : (used + kLine - 1) / kLine * kLine;
  const std::size_t most = std::max<std::size_t>(1, kChunkBytes / (stride_ * sizeof(real)));
  chunk_bits_ =
      static_cast<unsigned>(std::bit_width(std::min(most, std::bit_ceil(numbers_.size() + 1))) - 1);
  in_chunk_ = (std::size_t{1} << chunk_bits_) - 1;
  add();
}

void RowRecords::add_state() {
  RowRecords wider(numbers_, width_, states_ + 1);
  while (wider.count_ < count_) wider.add();
  for (std::size_t number = 0; number < count_; ++number) {
    std::copy_n(at(number), states_ * width_, wider.at(number));
    *wider.step(wider.at(number)) = *step(at(number));
  }
  *this = std::move(wider);
}

void RowRecords::add() {
  if ((count_ & in_chunk_) == 0) chunks_.emplace_back((in_chunk_ + 1) * stride_);
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
