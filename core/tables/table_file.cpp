#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/tables/record_file.hpp>
#include <rowgrad/core/tables/table_file.hpp>

namespace rowgrad {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxRows = std::numeric_limits<std::int32_t>::max();  // ids have 32 bits
constexpr std::size_t kMaxBytes = std::size_t{1} << 62;

// The facts of a table, in the order in which the file stores them.
struct Facts {
  std::uint64_t element_bytes, slots, rows, width, seed;
  double init_std;

  bool fit_in_a_file() const { return width <= kMaxBytes / sizeof(real) / (1 + slots) / rows; }
};

std::pair<std::size_t, std::size_t> layout(const RecordFile::Facts& words, const fs::path& path) {
  const auto facts = std::bit_cast<Facts>(words);
  check_runtime(facts.element_bytes == sizeof(real), path.string(), ": has elements of ",
                facts.element_bytes, " bytes, expected ", sizeof(real));
  check_runtime(facts.rows > 0 && facts.slots <= TableFile::kMaxSlots && facts.fit_in_a_file(),
                path.string(), ": the table header is damaged");
  return {facts.rows, facts.width * (1 + facts.slots) * sizeof(real)};
}

// Draws the initial values of a row (Box & Muller 1958). SplitMix64 derives the random bits from
// the seed and the positions of the values.
void draw(const RecordFile::Facts& words, std::size_t row, std::byte* content) {
  const auto facts = std::bit_cast<Facts>(words);
  real* const values = reinterpret_cast<real*>(content);
  const std::uint64_t key = splitmix64(facts.seed) + row * ((facts.width + 1) / 2);
  for (std::size_t i = 0; i < facts.width; i += 2) {
    const std::uint64_t bits = splitmix64(key + i / 2);
    const double radius =
        facts.init_std * std::sqrt(-2 * std::log((static_cast<double>(bits >> 32) + 1) * 0x1p-32));
    const double angle = 2 * std::numbers::pi * static_cast<double>(bits & 0xFFFFFFFF) * 0x1p-32;
    // Rounded to float, so that the float and double libraries start with the same values.
    values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < facts.width) values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

void zero_slots(const RecordFile::Facts& words, std::byte* content) {
  const auto facts = std::bit_cast<Facts>(words);
  std::fill_n(reinterpret_cast<real*>(content) + facts.width, facts.width * facts.slots, real{0});
}

constexpr RecordFile::Kind kTable{
    .magic = "rgtable", .layout = layout, .fill = draw, .renew = zero_slots};

RecordFile::Facts facts_of(const TableFileOptions& options) {
  check_argument(options.rows > 0 && options.rows <= kMaxRows && options.width > 0,
                 "TableFile: the shape is [", options.rows, ", ", options.width,
                 "], expected 1 to ", kMaxRows, " rows and a width of at least 1");
  check_argument(options.slots <= TableFile::kMaxSlots, "TableFile: slots is ", options.slots,
                 ", expected at most ", TableFile::kMaxSlots);
  check_argument(std::isfinite(options.init_std) && options.init_std >= 0,
                 "TableFile: init_std is ", options.init_std,
                 ", expected a finite value of at least 0");
  const Facts facts{sizeof(real),  options.slots, options.rows,
                    options.width, options.seed,  options.init_std};
  check_argument(facts.fit_in_a_file(), "TableFile: shape [", options.rows, ", ", options.width,
                 "] exceeds the limit of ", kMaxBytes, " bytes");
  return std::bit_cast<RecordFile::Facts>(facts);
}

}  // namespace

struct TableFile::Rep {
  using Name = std::array<char, 24>;  // padded with zeros

  Facts facts() const { return std::bit_cast<Facts>(records.facts()); }
  Name* names() { return reinterpret_cast<Name*>(records.state().notes.data()); }  // slot names

  RecordFile records;  // state().flags is 1 if there are deferred updates
  std::weak_ptr<const bool> lease = {};
  bool is_lost = false;
};

TableFile::TableFile(const fs::path& path, const TableFileOptions& options) {
  const RecordFile::Facts facts = facts_of(options);
  check_argument(!file_exists(path), "TableFile: ", path.string(),
                 " exists, expected a new path; to open a table, pass only its path");
  rep_.reset(new Rep{.records = RecordFile(path, kTable, facts)});
}

TableFile::TableFile(const fs::path& path) : rep_(new Rep{.records = RecordFile(path, kTable)}) {}

TableFile::~TableFile() = default;

const fs::path& TableFile::path() const { return rep_->records.path(); }
std::size_t TableFile::rows() const { return rep_->records.size(); }
std::size_t TableFile::width() const { return rep_->facts().width; }
std::size_t TableFile::slots() const { return rep_->facts().slots; }
std::uint64_t TableFile::stored_rows() const { return rep_->records.stored(); }

// --- Checkpoints --------------------------------------------------------------------------------

std::uint64_t TableFile::verify() const { return rep_->records.verify(); }
std::string TableFile::checkpoint_id() const { return rep_->records.checkpoint_id(); }
void TableFile::check_restore(std::string_view id) const { rep_->records.check_rollback(id); }

void TableFile::checkpoint() {
  if (!rep_->records.has_changed()) return;
  check_not_lost();
  rep_->records.commit();
}

void TableFile::restore(std::string_view id, const Lease& lease) {
  check_state(lease == rep_->lease.lock(), path().string(),
              ": a layer uses the table; load the layer's state dict instead");
  rep_->records.rollback(id);
  rep_->is_lost = false;
}

TableFile::Lease TableFile::lease() {
  check_argument(rep_->lease.expired(), path().string(),
                 ": another layer uses the table; layers can share its parameter");
  auto lease = std::make_shared<const bool>(true);
  rep_->lease = lease;
  return lease;
}

// --- Rows ---------------------------------------------------------------------------------------

void TableFile::fault_in(std::span<const std::int32_t> ids) const { rep_->records.fault_in(ids); }
void TableFile::prefetch(std::span<const std::int32_t> ids) { rep_->records.prefetch(ids); }
bool TableFile::is_current(std::size_t row) const { return rep_->records.is_current(row); }
std::uint64_t TableFile::step(std::size_t row) const { return rep_->records.note(row); }
RecordWriter TableFile::modify(std::span<const std::int32_t> ids) {
  return rep_->records.modify(ids);
}

void TableFile::read(std::size_t row, std::span<real> out) const {
  const std::span<const std::byte> content = rep_->records.read(row);
  const std::size_t known = is_current(row) ? out.size() : width();  // outdated slots are zeros
  if (content.empty())
    draw(rep_->records.facts(), row, std::as_writable_bytes(out).data());
  else
    std::copy_n(reinterpret_cast<const real*>(content.data()), known, out.begin());
  std::ranges::fill(out.subspan(known), real{0});
}

void TableFile::read(std::span<const std::int32_t> ids, real* out) const {
  fault_in(ids);
  const std::size_t row_width = width(), ahead = kernels::rows_ahead(row_width);
  const auto row = [&](std::size_t i) { return static_cast<std::size_t>(ids[i]); };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i + ahead < ids.size())
      if (const auto next = rep_->records.read(row(i + ahead)); !next.empty())
        kernels::prefetch_row(reinterpret_cast<const real*>(next.data()), row_width);
    read(row(i), {out + i * row_width, row_width});
  }
}

// --- Optimizer state ----------------------------------------------------------------------------

bool TableFile::has_deferred() const { return rep_->records.state().flags != 0; }
void TableFile::set_deferred() { rep_->records.state().flags = 1; }
void TableFile::set_lost(bool lost) { rep_->is_lost = lost; }

void TableFile::check_not_lost() const {
  check_state(
      !rep_->is_lost, path().string(),
      ": rows have deferred updates of an optimizer that was destroyed; call checkpoint() and "
      "save the optimizer's state before you destroy it");
}

std::optional<std::size_t> TableFile::find_slot(std::string_view name) const {
  for (std::size_t slot = 0; slot < named_slots(); ++slot)
    if (std::string_view(rep_->names()[slot].data()) == name) return slot;
  return std::nullopt;
}

std::size_t TableFile::named_slots() const {
  std::size_t slots = 0;
  while (slots < this->slots() && rep_->names()[slots][0] != 0) ++slots;
  return slots;
}

std::size_t TableFile::add_slot(std::string_view name) {
  const std::size_t slot = named_slots();
  check_state(slot < slots(), path().string(), ": cannot add slot ", name, ": all ", slots(),
              " slots are in use");
  check_state(name.size() < sizeof(Rep::Name), path().string(), ": slot name ", name, " has ",
              name.size(), " bytes, expected at most ", sizeof(Rep::Name) - 1);
  std::ranges::copy(name, rep_->names()[slot].begin());
  return slot;
}

void TableFile::clear_slots() {
  if (named_slots() == 0) return;
  rep_->records.state().notes = {};
  ++rep_->records.state().generation;
}

}  // namespace rowgrad
