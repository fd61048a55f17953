#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/tables/table_file.hpp>

namespace rowgrad {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxRows = std::numeric_limits<std::int32_t>::max();  // ids have 32 bits
constexpr std::size_t kMaxBytes = std::size_t{1} << 62;

// The facts of the file.
struct Facts {
  std::uint64_t number_bytes, states, rows, width, seed;
  double deviation;

  std::size_t content_bytes() const { return width * (1 + states) * sizeof(real); }
  bool fit_in_a_file() const { return width <= kMaxBytes / sizeof(real) / (1 + states) / rows; }
};

Facts facts_of(const RecordFile& records) { return std::bit_cast<Facts>(records.facts()); }

std::array<std::size_t, 2> layout(const RecordFile::Facts& words, const fs::path& path) {
  const auto facts = std::bit_cast<Facts>(words);
  check_runtime(facts.number_bytes == sizeof(real), path.string(), ": has numbers of ",
                facts.number_bytes, " bytes, expected ", sizeof(real));
  check_runtime(facts.rows > 0 && facts.states <= kMaxSlots && facts.fit_in_a_file(), path.string(),
                ": the header of the table is damaged");
  return {facts.rows, facts.content_bytes()};
}

// Draws the values that a row starts as (Box & Muller 1958), from the numbers that SplitMix64 makes
// of the seed and the values' places.
void draw(const RecordFile::Facts& words, std::size_t row, std::byte* content) {
  const auto facts = std::bit_cast<Facts>(words);
  real* const values = reinterpret_cast<real*>(content);
  const std::uint64_t key = splitmix64(facts.seed) + row * ((facts.width + 1) / 2);
  for (std::size_t i = 0; i < facts.width; i += 2) {
    const std::uint64_t bits = splitmix64(key + i / 2);
    const double radius =
        facts.deviation * std::sqrt(-2 * std::log((static_cast<double>(bits >> 32) + 1) * 0x1p-32));
    const double angle = 2 * std::numbers::pi * static_cast<double>(bits & 0xFFFFFFFF) * 0x1p-32;
    // Through float, so that both libraries start with the same values.
    values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < facts.width) values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

void zero_slots(const RecordFile::Facts& words, std::byte* content) {
  const auto facts = std::bit_cast<Facts>(words);
  std::fill_n(reinterpret_cast<real*>(content) + facts.width, facts.width * facts.states, real{0});
}

constexpr RecordFile::Kind kTable{
    .magic = "rgtable", .layout = layout, .fill = draw, .renew = zero_slots};

using SlotName = std::array<char, 24>;  // padded with zeros
using SlotNames = std::array<SlotName, kMaxSlots>;

SlotNames names_in(const RecordFile& records) {
  return std::bit_cast<SlotNames>(records.state().notes);
}

}  // namespace

TableFile::TableFile(const fs::path& path, const TableFileOptions& options) {
  check_argument(options.rows > 0 && options.rows <= kMaxRows && options.width > 0,
                 "TableFile: the shape is [", options.rows, ", ", options.width,
                 "], expected 1 to ", kMaxRows, " rows of a width above 0");
  check_argument(options.states <= kMaxSlots, "TableFile: states is ", options.states,
                 ", expected at most ", kMaxSlots);
  check_argument(std::isfinite(options.deviation) && options.deviation >= 0,
                 "TableFile: deviation is ", options.deviation,
                 ", expected a finite number, not negative");
  const Facts facts{sizeof(real),  options.states, options.rows,
                    options.width, options.seed,   options.deviation};
  check_argument(facts.fit_in_a_file(), "TableFile: shape [", options.rows, ", ", options.width,
                 "] has more bytes than a file can have");
  check_argument(!file_exists(path), "TableFile: there is a file ", path.string(),
                 ", expected a new one; to open a table, give its path alone");
  records_ = std::make_unique<RecordFile>(path, kTable, std::bit_cast<RecordFile::Facts>(facts));
}

TableFile::TableFile(const fs::path& path) : records_(std::make_unique<RecordFile>(path, kTable)) {}

std::size_t TableFile::width() const { return facts_of(*records_).width; }
std::size_t TableFile::states() const { return facts_of(*records_).states; }

void TableFile::checkpoint() {
  if (!records_->has_changed()) return;
  check_state(!is_lost_, path().string(),
              ": rows have deferred updates of an optimizer that was destroyed, so nothing could "
              "read them again; before, call checkpoint() and save the optimizer's state");
  records_->commit();
}

void TableFile::restore(std::string_view mark, const Lease& lease) {
  check_state(lease == lease_.lock(), path().string(),
              ": a layer uses the table; load the layer's state instead");
  records_->rollback(mark);
  is_lost_ = false;
}

TableFile::Lease TableFile::lease() {
  check_argument(lease_.expired(), path().string(),
                 ": another layer uses the table; layers can share its parameter");
  auto lease = std::make_shared<const bool>(true);
  lease_ = lease;
  return lease;
}

void TableFile::read(std::size_t row, std::span<real> out) const {
  const RecordFile::Record record = records_->read(row);
  const std::size_t known = record.is_current ? out.size() : width();  // other states are zeros
  if (record.content.empty())
    draw(records_->facts(), row, std::as_writable_bytes(out).data());
  else
    std::copy_n(reinterpret_cast<const real*>(record.content.data()), known, out.begin());
  std::ranges::fill(out.subspan(known), real{0});
}

void TableFile::set_deferred() {
  RecordFile::State state = records_->state();
  state.flags = 1;
  records_->set_state(state);
}

// --- States -------------------------------------------------------------------------------------

std::optional<std::size_t> TableFile::state_place(std::string_view name) const {
  const SlotNames names = names_in(*records_);
  for (std::size_t place = 0; place < states_begun(); ++place)
    if (std::string_view(names[place].data()) == name) return place;
  return std::nullopt;
}

std::size_t TableFile::states_begun() const {
  const SlotNames names = names_in(*records_);
  return static_cast<std::size_t>(
      std::ranges::find_if(names, [](const SlotName& name) { return name[0] == 0; }) -
      names.begin());
}

void TableFile::forget_states() {
  if (states_begun() == 0) return;
  RecordFile::State state = records_->state();
  state.notes = {};
  ++state.generation;
  records_->set_state(state);
}

std::size_t TableFile::begin_state(std::string_view name) {
  const std::size_t place = states_begun();
  check_state(place < states() && name.size() < sizeof(SlotName), path().string(),
              ": there is no place for state ", name);
  SlotNames names = names_in(*records_);
  std::ranges::copy(name, names[place].begin());
  RecordFile::State state = records_->state();
  state.notes = std::bit_cast<decltype(state.notes)>(names);
  records_->set_state(state);
  return place;
}

}  // namespace rowgrad
