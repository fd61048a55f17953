#include <algorithm>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/parallel/split_rows.hpp>

namespace rowgrad {
namespace {

Shape shape_of(const RowSource* own, std::size_t rows) {
  check_argument(own != nullptr, "SplitRows: the rows of this rank are null, expected some");
  kernels::check_table("SplitRows", own->shape());
  return {rows > 0 ? rows : own->shape()[0], own->shape()[1]};
}

}  // namespace

IndexRange rows_of_rank(std::size_t rows, std::size_t rank, std::size_t ranks) {
  const IndexRange parts = range_of(kTableParts, rank, ranks);
  return {range_of(rows, parts.begin, kTableParts).begin,
          range_of(rows, parts.end, kTableParts).begin};
}

SplitRows::SplitRows(ProcessGroup& ranks, std::unique_ptr<RowSource> own, std::size_t rows)
    : RowSource(shape_of(own.get(), rows)),
      ranks_(ranks),
      own_("rows of a split table", std::move(own)) {
  rows = shape()[0];
  const bool in_file = !own_.is_in_memory();
  const IndexRange mine =
      in_file ? IndexRange{0, rows} : rows_of_rank(rows, ranks.rank(), ranks.size());
  const Shape expected{mine.size(), shape()[1]};
  check_argument(own_.shape() == expected, "SplitRows: the rows of rank ", ranks.rank(), " of ",
                 rows, " have shape ", bracketed(own_.shape()), ", expected ", bracketed(expected));
  own_.source().place = {.first = mine.begin, .rows = rows, .is_split = true};
  const std::vector<std::size_t> all = ranks.gather(std::span<const std::size_t>(shape()));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    check_runtime(all[2 * rank] == rows && all[2 * rank + 1] == shape()[1],
                  "SplitRows: ", ranks.name_of(rank), " has a table [", all[2 * rank], ", ",
                  all[2 * rank + 1], "], ", ranks.name_of(ranks.rank()), " one of ",
                  bracketed(shape()));
}

std::string SplitRows::location() const { return concat("parts on ", ranks_.size(), " ranks"); }

void SplitRows::prefetch(std::span<const std::int32_t> ids) {
  announced_.insert(announced_.end(), ids.begin(), ids.end());
}

// Which of them each rank has.
std::vector<IndexRange> SplitRows::by_rank(std::span<const std::int32_t> sorted) const {
  std::vector<IndexRange> ranges;
  std::size_t begin = 0;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const IndexRange rows = rows_of_rank(shape()[0], rank, ranks_.size());
    const auto end = std::ranges::lower_bound(sorted, static_cast<std::int64_t>(rows.end));
    ranges.push_back({begin, static_cast<std::size_t>(end - sorted.begin())});
    begin = ranges.back().end;
  }
  return ranges;
}

std::vector<std::int32_t> SplitRows::of_own(std::span<const std::int32_t> ids) {
  std::vector<std::int32_t> local(ids.begin(), ids.end());
  for (std::int32_t& id : local) id -= static_cast<std::int32_t>(own_.source().place.first);
  return local;
}

void SplitRows::fetch(bool with_look_up) {
  if (with_look_up) number_ = kNone;  // as it still is if work while the first reads has failed
  const std::size_t width = shape()[1];
  fetched_ = std::exchange(announced_, {});
  std::ranges::sort(fetched_);
  fetched_.erase(std::unique(fetched_.begin(), fetched_.end()), fetched_.end());
  values_ = empty({fetched_.size(), width});
  std::vector<std::vector<std::int32_t>> asked;  // [rank], as all these
  std::vector<std::span<real>> received;
  for (const IndexRange range : by_rank(fetched_)) {
    asked.emplace_back(fetched_.data() + range.begin, fetched_.data() + range.end);
    received.emplace_back(values_.data() + range.begin * width, range.size() * width);
  }
  std::vector<Tensor> rows;
  std::vector<std::span<const real>> sent;
  for (const std::vector<std::int32_t>& ids : ranks_.exchange_lists(std::move(asked))) {
    rows.push_back(with_look_up && look_up ? look_up(own_, of_own(ids))
                                           : own_.gathered_rows(of_own(ids)));
    sent.emplace_back(rows.back().data(), rows.back().size());
  }
  std::ranges::copy(sent[ranks_.rank()], received[ranks_.rank()].data());
  ranks_.exchange_each(sent, received);
  version_ = own_.version();
}

void SplitRows::gather(std::span<const std::int32_t> ids, real* out, const Tensor* added) {
  std::vector<std::size_t> places;
  const auto find = [&] {
    for (const std::int32_t id : ids) {
      const auto found = std::ranges::lower_bound(fetched_, id);
      if (found == fetched_.end() || *found != id) return false;
      places.push_back(static_cast<std::size_t>(found - fetched_.begin()));
    }
    return ids.empty() || version_ == own_.version();
  };
  if (!find()) {
    check_state(number_ != kNone || ranks_.size() == 1, own_.name(),
                ": rows are looked up that were not ",
                "fetched: the model's lookups() must name those of each batch");
    ranks_.gather(std::span<const std::uint64_t>(&number_, 1));  // to meet()
    announced_.assign(ids.begin(), ids.end());
    fetch(false);
    places.clear();
    find();
  }
  const std::size_t width = shape()[1];
  for (std::size_t i = 0; i < ids.size(); ++i)
    std::copy_n(values_.data() + places[i] * width, width, out + i * width);
  if (added != nullptr) kernels::add_rows(out, width, ids.size(), *added);
}

void SplitRows::scatter(std::span<const std::int32_t> /*ids*/, const real* /*in*/) {
  throw std::logic_error(concat(own_.name(), ": rows of a split table cannot be replaced"));
}

Gradient SplitRows::for_own(const RowGradient& rows) {
  const IndexRange mine = by_rank(rows.indices())[ranks_.rank()];
  Tensor values = empty({mine.size(), rows.width()});
  std::copy_n(rows.values().data() + mine.begin * rows.width(), values.size(), values.data());
  const auto ids = std::span(rows.indices()).subspan(mine.begin, mine.size());
  return RowGradient(own_.shape(), of_own(ids), std::move(values));
}

// --- All split tables ---------------------------------------------------------------------------

SplitRows* split_rows_of(const Parameter& parameter) {
  return dynamic_cast<SplitRows*>(&const_cast<Parameter&>(parameter).source());
}

SplitTables::SplitTables(std::span<Parameter* const> parameters) {
  for (const Parameter* parameter : parameters)
    if (SplitRows* const rows = split_rows_of(*parameter)) tables_.push_back(rows);
}

void SplitTables::work_while_first_reads(const std::function<void()>& work) const {
  for (std::uint64_t i = 0; i < tables_.size() && tables_[i]->ranks_.rank() == 0; ++i)
    tables_[i]->number_ = i;
  work();
  meet();
  for (SplitRows* rows : tables_) rows->number_ = SplitRows::kNone;
}

void SplitTables::meet() const {
  while (!empty()) {
    const std::uint64_t table =  // that the first rank asks for
        tables_.front()->ranks_.gather(std::span(&SplitRows::kNone, 1)).front();
    if (table == SplitRows::kNone) return;
    check_state(table < tables_.size(),
                "SplitTables: the first rank exchanges something else while ",
                "others wait to send it rows; all ranks call meet() before");
    tables_[table]->fetch(false);
  }
}

}  // namespace rowgrad
