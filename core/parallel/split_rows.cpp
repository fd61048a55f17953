#include <algorithm>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/parallel/split_rows.hpp>

namespace rowgrad {
namespace {

constexpr std::uint64_t kNone = ~std::uint64_t{0};  // a table that the first rank asks for

void sort_distinct(std::vector<std::int32_t>& ids) {
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

// The place of each id among sorted ones that have it.
std::vector<std::size_t> places_in(std::span<const std::int32_t> sorted,
                                   std::span<const std::int32_t> ids) {
  std::vector<std::size_t> places;
  places.reserve(ids.size());
  for (const std::int32_t id : ids)
    places.push_back(
        static_cast<std::size_t>(std::ranges::lower_bound(sorted, id) - sorted.begin()));
  return places;
}

// Numbers as a text, and back.
template <class Number>
std::string text_of(std::span<const Number> numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()};
}
template <class Number>
std::vector<Number> numbers_in(std::string_view text) {
  std::vector<Number> numbers(text.size() / sizeof(Number));
  std::ranges::copy(text, reinterpret_cast<char*>(numbers.data()));
  return numbers;
}

// Which table the first rank will fetch rows of, or none.
void tell_others(ProcessGroup& ranks, std::uint64_t table) {
  std::vector<ProcessGroup::Send> sends;
  for (const std::size_t other : ranks.others())
    sends.push_back({other, std::as_bytes(std::span(&table, 1))});
  ranks.exchange(sends, {});
}

}  // namespace

IndexRange rows_of_rank(std::size_t rows, std::size_t rank, std::size_t ranks) {
  const IndexRange parts = range_of(kTableParts, rank, ranks);
  return {range_of(rows, parts.begin, kTableParts).begin,
          range_of(rows, parts.end, kTableParts).begin};
}

SplitRows::SplitRows(ProcessGroup& ranks, const Shape& shape, std::unique_ptr<ParameterStorage> own)
    : ParameterStorage(shape),
      in_order_of_ranks([&ranks](const std::vector<double>& mine) {
        std::string all;
        for (const std::string& text : ranks.gather_texts(text_of(std::span(mine)))) all += text;
        return numbers_in<double>(all);
      }),
      ranks_(ranks),
      own_("rows of a split table", std::move(own)) {
  kernels::check_table("SplitRows", shape);
  const IndexRange mine = rows_of_rank(shape[0], ranks.rank(), ranks.size());
  const Shape& here = own_.shape();
  const bool in_file = here == shape && !own_.stored().allows_passes();
  check_argument(in_file || here == Shape({mine.size(), shape[1]}), "SplitRows: the rows of rank ",
                 ranks.rank(), " of a table ", bracketed(shape), " have shape ", bracketed(here),
                 ", expected [", mine.size(), ", ", shape[1], "]");
  first_ = own_.stored().place().first;
  check_argument(first_ == (in_file ? 0 : mine.begin) && own_.stored().place().rows == shape[0],
                 "SplitRows: the rows of rank ", ranks.rank(), " are those from ", first_, " of ",
                 own_.stored().place().rows, ", expected from ", mine.begin, " of ", shape[0]);
  const std::vector<std::size_t> all = ranks.gather(std::span<const std::size_t>(shape));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    check_runtime(all[2 * rank] == shape[0] && all[2 * rank + 1] == shape[1], "SplitRows: rank ",
                  rank, " has a table [", all[2 * rank], ", ", all[2 * rank + 1], "], rank ",
                  ranks.rank(), " one of ", bracketed(shape));
}

std::string SplitRows::path() const { return concat("parts on ", ranks_.size(), " ranks"); }

void SplitRows::read_ahead(std::span<const std::int32_t> ids) {
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

std::vector<std::int32_t> SplitRows::of_own(std::span<const std::int32_t> ids) const {
  std::vector<std::int32_t> local(ids.begin(), ids.end());
  for (std::int32_t& id : local) id -= static_cast<std::int32_t>(first_);
  return local;
}

// Of the rows that several ranks want, each is read only once, as it may have to catch up.
void SplitRows::exchange_rows(bool were_announced) {
  const std::size_t width = shape()[1];
  fetched_ = std::exchange(announced_, {});
  sort_distinct(fetched_);
  std::vector<std::string> texts;  // [rank]
  for (const IndexRange range : by_rank(fetched_))
    texts.push_back(
        text_of(std::span<const std::int32_t>(fetched_).subspan(range.begin, range.size())));
  std::vector<std::vector<std::int32_t>> wanted;  // [rank]
  std::vector<std::int32_t> distinct;
  for (const std::string& text : ranks_.exchange_texts(std::move(texts))) {
    wanted.push_back(numbers_in<std::int32_t>(text));
    distinct.insert(distinct.end(), wanted.back().begin(), wanted.back().end());
  }
  sort_distinct(distinct);
  const std::vector<std::int32_t> local = of_own(distinct);
  const Tensor rows = were_announced && look_up ? look_up(own_, local) : own_.gathered_rows(local);
  std::vector<std::string> answers(ranks_.size());
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    for (const std::size_t place : places_in(distinct, wanted[rank]))
      answers[rank].append(reinterpret_cast<const char*>(rows.data() + place * width),
                           width * sizeof(real));
  values_ = empty({fetched_.size(), width});
  auto* to = reinterpret_cast<char*>(values_.data());
  for (const std::string& text : ranks_.exchange_texts(std::move(answers)))
    to = std::ranges::copy(text, to).out;
  version_ = own_.version();
}

void SplitRows::read(std::span<const std::int32_t> ids, real* out, const Tensor* added) {
  std::vector<std::size_t> places = places_in(fetched_, ids);
  bool are_here = ids.empty() || version_ == own_.version();
  for (std::size_t i = 0; are_here && i < ids.size(); ++i)
    are_here = places[i] < fetched_.size() && fetched_[places[i]] == ids[i];
  if (!are_here) {
    check_state(may_ask_ || ranks_.size() == 1, own_.name(), ": rows are looked up that were not ",
                "fetched: the model's read_ahead() must announce those of each batch");
    announced_.assign(ids.begin(), ids.end());
    tell_others(ranks_, number_);
    exchange_rows(false);
    places = places_in(fetched_, ids);
  }
  const std::size_t width = shape()[1];
  for (std::size_t i = 0; i < ids.size(); ++i)
    std::copy_n(values_.data() + places[i] * width, width, out + i * width);
  if (added != nullptr) kernels::add_rows(out, width, ids.size(), *added);
}

void SplitRows::assign(std::span<const std::int32_t> /*ids*/, const real* /*values*/) {
  throw std::logic_error(concat(own_.name(), ": rows of a split table cannot be replaced"));
}

std::unique_ptr<OptimizerStates> SplitRows::states(const OptimizerStates::Owner& owner) {
  throw std::logic_error(concat(owner.optimizer, ": trains a split table as a whole"));
}

// A part of those of all ranks.
Gradient SplitRows::for_own(const RowGradient& rows) const {
  const IndexRange mine = by_rank(rows.indices())[ranks_.rank()];
  const auto first = rows.indices().begin() + static_cast<std::ptrdiff_t>(mine.begin);
  std::vector<std::int32_t> ids = of_own({first, first + static_cast<std::ptrdiff_t>(mine.size())});
  Tensor values = empty({mine.size(), rows.width()});
  std::copy_n(rows.values().data() + mine.begin * rows.width(), values.size(), values.data());
  return RowGradient(own_.shape(), std::move(ids), std::move(values));
}

// --- All split tables ---------------------------------------------------------------------------

SplitRows* split_rows_of(const Parameter& parameter) {
  return dynamic_cast<SplitRows*>(&const_cast<Parameter&>(parameter).stored());
}

SplitTables::SplitTables(std::span<Parameter* const> parameters) {
  for (const Parameter* parameter : parameters)
    if (SplitRows* const rows = split_rows_of(*parameter)) tables_.push_back(rows);
}

void SplitTables::fetch() const {
  for (SplitRows* rows : tables_) rows->fetch();
}

void SplitTables::work_while_first_reads(const std::function<void()>& work) const {
  const auto allow = [&](bool first_asks) {
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      tables_[i]->may_ask_ = first_asks && tables_[i]->ranks_.rank() == 0;
      tables_[i]->number_ = i;
    }
  };
  allow(true);
  work();
  meet();
  allow(false);
}

void SplitTables::meet() const {
  if (tables_.empty()) return;
  ProcessGroup& ranks = tables_.front()->ranks_;
  if (ranks.rank() == 0) return tell_others(ranks, kNone);
  for (std::uint64_t table = 0;;) {
    const ProcessGroup::Receive receive{0, std::as_writable_bytes(std::span(&table, 1))};
    ranks.exchange({}, {&receive, 1});
    if (table == kNone) return;
    check_state(table < tables_.size(),
                "SplitTables: the first rank exchanges something else while ",
                "others wait to send it rows; all ranks call meet() before");
    tables_[table]->exchange_rows(false);
  }
}

}  // namespace rowgrad
