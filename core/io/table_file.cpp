#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <optional>
#include <random>
#include <sys/mman.h>
#include <sys/resource.h>

#include <rowgrad/core/io/checksum.hpp>
#include <rowgrad/core/io/table_file.hpp>
#include <rowgrad/core/tensor/scramble.hpp>

namespace rowgrad {
namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 8> kTableMagic{'r', 'g', 't', 'a', 'b', 'l', 'e', '1'};
constexpr std::size_t kSystemPage = 4096;
constexpr std::size_t kMostRows = std::numeric_limits<std::int32_t>::max();  // ids are of 32 bits
constexpr std::size_t kMostBytes = std::size_t{1} << 62;
constexpr std::size_t kRowAlignment = 16;

// Returns nullopt if the file would be too large.
std::optional<std::size_t> stride_of(std::size_t rows, std::size_t width, std::size_t states,
                                     std::size_t head_bytes) {
  std::size_t numbers, bytes, all;
  if (__builtin_mul_overflow(width, 1 + states, &numbers) ||
      __builtin_mul_overflow(numbers, sizeof(real), &bytes) || bytes > kMostBytes)
    return std::nullopt;
  const std::size_t stride =
      (head_bytes + bytes + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  if (__builtin_mul_overflow(stride, rows, &all) || all > kMostBytes) return std::nullopt;
  return stride;
}

std::string identity_text(std::uint64_t identity) {
  std::array<char, 16> digits;
  const auto end = std::to_chars(digits.begin(), digits.end(), identity, 16).ptr;
  return {digits.begin(), end};
}

// How often this thread had to wait for a page from the disk.
long waits() {
  struct rusage usage {};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_majflt;
}

}  // namespace

std::uint64_t TableFile::checksum_of(const Head& head) {
  Checksum sum;
  sum.add(std::string_view(head.magic.data(), head.magic.size()));
  for (const std::uint64_t number :
       {head.number_bytes, head.states, head.rows, head.width, head.seed,
        std::bit_cast<std::uint64_t>(head.deviation), head.identity})
    sum.add(number);
  return sum.value();
}

TableFile::TableFile(fs::path path, const TableFileOptions& options) {
  check_argument(options.rows > 0 && options.rows <= kMostRows && options.width > 0,
                 "TableFile: the shape is [", options.rows, ", ", options.width,
                 "], expected 1 to ", kMostRows, " rows of a width above 0");
  check_argument(options.states <= kMostStates, "TableFile: states is ", options.states,
                 ", expected at most ", kMostStates);
  check_argument(std::isfinite(options.deviation) && options.deviation >= 0,
                 "TableFile: deviation is ", options.deviation,
                 ", expected a finite number, not negative");
  const auto stride = stride_of(options.rows, options.width, options.states, sizeof(RowHead));
  check_argument(stride.has_value(), "TableFile: shape [", options.rows, ", ", options.width,
                 "] has more bytes than a file can have");
  check_argument(!fs::exists(path), "TableFile: there is a file ", path.string(),
                 ", expected a new one; to open a table, give its path alone");
  file_ = std::make_unique<LockedFile>(path, LockedFile::Open::kNew);
  try {
    file_->truncate(kHeadBytes + options.rows * *stride);
    mapped_ = file_->map();
    Head made{.magic = kTableMagic,
              .number_bytes = sizeof(real),
              .states = options.states,
              .rows = options.rows,
              .width = options.width,
              .seed = options.seed,
              .deviation = options.deviation,
              .identity = std::uint64_t{std::random_device()()} << 32 | std::random_device()(),
              .checksum = 0,
              .checkpoint = 0,
              .rows_stored = 0,
              .owed = 0,
              .names = {}};
    made.checksum = checksum_of(made);
    stride_ = *stride;
    head() = made;
    journal_ = std::make_unique<UndoJournal>(journal_path(0), journal_begin(0));
    file_->sync();
    sync_folder(path.parent_path());
  } catch (...) {
    std::error_code ignored;
    fs::remove(path, ignored);
    throw;
  }
}

TableFile::TableFile(fs::path path)
    : file_(std::make_unique<LockedFile>(std::move(path), LockedFile::Open::kExisting)) {
  const std::string name = file_->path().string();
  const std::uint64_t size = file_->size_bytes();
  check_runtime(size >= kHeadBytes, name, ": is no table, or one that was not finished");
  mapped_ = file_->map();
  check_runtime(head().magic == kTableMagic, name, ": is no table, or one that was not finished");
  check_runtime(head().checksum == checksum_of(head()) && head().states <= kMostStates &&
                    std::ranges::all_of(head().names, [](const Name& n) { return n.back() == 0; }),
                name, ": the head of the table is damaged");
  check_runtime(head().number_bytes == sizeof(real), name, ": has numbers of ", head().number_bytes,
                " bytes, expected ", sizeof(real));
  const auto stride = stride_of(head().rows, head().width, head().states, sizeof(RowHead));
  check_runtime(stride && size == kHeadBytes + head().rows * *stride, name, ": has ", size,
                " bytes, which is not what a table [", head().rows, ", ", head().width, "] has");
  stride_ = *stride;
  journal_ = std::make_unique<UndoJournal>(journal_path(head().checkpoint),
                                           UndoJournal::Expected{journal_begin(head().checkpoint)});
  roll_back();
}

// --- Checkpoints --------------------------------------------------------------------------------

fs::path TableFile::journal_path(std::uint64_t checkpoint) const {
  return fs::path(path()) += concat(".undo-", checkpoint);
}

UndoJournal::Begin TableFile::journal_begin(std::uint64_t checkpoint) const {
  return {.file = head().identity,
          .checkpoint = checkpoint,
          .record_bytes = stride_,
          .notes = {head().rows_stored, head().owed}};
}

void TableFile::set_checkpoint(std::uint64_t number) {
  head().checkpoint = number;
  file_->sync();
}

// The order matters: whenever this is interrupted, the journal of the checkpoint that the head
// names is there, and has all that was changed since.
void TableFile::checkpoint() {
  const std::uint64_t last = head().checkpoint;
  file_->sync();
  auto next = std::make_unique<UndoJournal>(journal_path(last + 1), journal_begin(last + 1));
  set_checkpoint(last + 1);
  journal_ = std::move(next);
  if (last > 0) remove_journal(last - 1);
}

// What cannot be removed takes space, no more.
void TableFile::remove_journal(std::uint64_t checkpoint) const {
  std::error_code ignored;
  fs::remove(journal_path(checkpoint), ignored);
}

std::string TableFile::mark() const {
  check_state(journal_->empty(), path().string(),
              ": the table has changed since its last checkpoint; call TableFile::checkpoint() "
              "before its state is saved");
  return concat("table ", identity_text(head().identity), ", checkpoint ", head().checkpoint);
}

// Its number, if the table can go back to it.
std::uint64_t TableFile::checkpoint_of(std::string_view mark) const {
  for (const std::uint64_t back : {0, 1}) {
    const std::uint64_t number = head().checkpoint - back;
    if (number <= head().checkpoint &&
        mark == concat("table ", identity_text(head().identity), ", checkpoint ", number) &&
        fs::exists(journal_path(number)))
      return number;
  }
  check_argument(false, path().string(), ": has no checkpoint '", mark,
                 "'; the last one is 'table ", identity_text(head().identity), ", checkpoint ",
                 head().checkpoint, "', and the one before it can be had, too");
  return 0;
}

void TableFile::restore(std::string_view mark) {
  const std::uint64_t number = checkpoint_of(mark);
  const std::uint64_t last = head().checkpoint;
  roll_back();
  if (number == last) return;
  auto before = std::make_unique<UndoJournal>(journal_path(number),
                                              UndoJournal::Expected{journal_begin(number)});
  set_checkpoint(number);
  journal_ = std::move(before);
  roll_back();
  remove_journal(last);
}

// Takes back all changes since the checkpoint in the head. May be interrupted and done again.
void TableFile::roll_back() {
  if (journal_->empty()) return;
  journal_->undo([&](std::uint64_t row, std::span<const std::byte> before) {
    check_runtime(row < rows(), path().string(), ": its journal has row ", row,
                  ", which is outside the table");
    // What was not changed is not written: a row that was not stored may have no place on the disk.
    if (std::memcmp(record(row), before.data(), before.size()) != 0)
      std::ranges::copy(before, record(row));
  });
  head().rows_stored = journal_->begin().notes[0];
  head().owed = journal_->begin().notes[1];
  file_->sync();
  journal_->clear();
}

// --- Rows ---------------------------------------------------------------------------------------

// Has the system read the rows' pages all at once rather than one after another.
void TableFile::fetch(std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids) {
    const std::size_t begin = record_offset(static_cast<std::size_t>(id));
    const std::size_t page = begin / kSystemPage * kSystemPage;
    ::madvise(mapped_.data() + page, begin + stride_ - page, MADV_WILLNEED);
  }
}

// To fetch rows costs more than to touch rows that are in memory. So it is done as long as rows had
// to be waited for; the first of 64 is then left out, to see whether that is still so.
void TableFile::make_ready(std::span<const std::int32_t> ids) {
  const std::size_t probes = cold_ ? (ids.size() + 63) / 64 : ids.size();
  if (cold_) fetch(ids.subspan(probes));
  const long before = waits();
  std::vector<std::int32_t> fresh;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto row = static_cast<std::size_t>(ids[i]);
    // A record may reach into the next page, which is to be there, too.
    static_cast<void>(*static_cast<volatile std::byte*>(record(row) + stride_ - 1));
    if (row_head(row).stored == 0) fresh.push_back(ids[i]);
    if (i + 1 == probes) cold_ = waits() - before > static_cast<long>(probes / 64);
  }
  if (!fresh.empty()) begin_change(fresh);
}

void TableFile::begin_change(std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids)
    if (const auto row = static_cast<std::size_t>(id); !is_in_journal(row))
      journal_->add(row, {record(row), stride_});
  journal_->flush();
  for (const std::int32_t id : ids) {
    const auto row = static_cast<std::size_t>(id);
    if (row_head(row).stored == 0) store(row);
    row_head(row).journal = static_cast<std::uint32_t>(head().checkpoint + 1);
  }
}

// Box & Muller 1958, from the numbers that SplitMix64 makes of the seed and the values' places.
void TableFile::store(std::size_t row) {
  drawn_.assign(stride_, std::byte{0});
  const RowHead drawn{.step = 0, .journal = 0, .stored = 1};
  std::memcpy(drawn_.data(), &drawn, sizeof drawn);
  real* values = reinterpret_cast<real*>(drawn_.data() + sizeof drawn);
  const std::uint64_t key = scramble(head().seed) + row * ((width() + 1) / 2);
  for (std::size_t i = 0; i < width(); i += 2) {
    const std::uint64_t bits = scramble(key + i / 2);
    const double radius = std::sqrt(-2 * std::log((static_cast<double>(bits >> 32) + 1) * 0x1p-32));
    const double angle = 2 * std::numbers::pi * static_cast<double>(bits & 0xFFFFFFFF) * 0x1p-32;
    // Through float, so that both libraries start with the same numbers.
    values[i] = static_cast<float>(radius * std::cos(angle) * head().deviation);
    if (i + 1 < width())
      values[i + 1] = static_cast<float>(radius * std::sin(angle) * head().deviation);
  }
  // Not through the mapping: if the disk is full, that would end the program.
  file_->write(record_offset(row), drawn_);
  ++head().rows_stored;
}

std::size_t TableFile::state_place(std::string_view name) {
  check_argument(name.size() < sizeof(Name), "TableFile: the name of state ", name, " is too long");
  for (std::size_t place = 0; place < head().states; ++place) {
    Name& taken = head().names[place];
    if (taken[0] == '\0') std::ranges::copy(name, taken.begin());
    if (std::string_view(taken.data()) == name) return place;
  }
  std::string names;
  for (std::size_t place = 0; place < head().states; ++place)
    names += concat(place > 0 ? ", " : " (", head().names[place].data());
  check_argument(false, path().string(), ": the table was made for ", head().states, " states",
                 names, names.empty() ? "" : ")", ", and there is no place for ", name,
                 " (TableFileOptions::states)");
  return 0;
}

}  // namespace rowgrad
