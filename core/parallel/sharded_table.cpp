#include <algorithm>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/parallel/sharded_table.hpp>

namespace rowgrad {

IndexRange rows_of_rank(std::size_t rows, std::size_t rank, std::size_t ranks) {
  const IndexRange parts = range_of(kTableParts, rank, ranks);
  return {range_of(rows, parts.begin, kTableParts).begin,
          range_of(rows, parts.end, kTableParts).begin};
}

// A row source that has only fetched rows.
class ShardedTable::FetchedRows final : public RowSource {
 public:
  FetchedRows(const Parameter& shard, Shape shape, std::size_t ranks)
      : RowSource(std::move(shape)), shard_(shard), ranks_(ranks) {}

  Tensor* dense() override { return nullptr; }
  std::string location() const override { return concat("shards on ", ranks_, " ranks"); }

  void gather(std::span<const std::int32_t> ids, real* out, const Tensor* added) override {
    const std::size_t width = shape()[1];
    for (const std::int32_t id : ids) {
      const auto found = std::ranges::lower_bound(rows, id);
      check_state(found != rows.end() && *found == id && version == shard_.version(), shard_.name(),
                  ": row ", id, " was not fetched since the table last changed, ",
                  "expected it in the lookups() of the model");
      out = std::copy_n(values.data() + static_cast<std::size_t>(found - rows.begin()) * width,
                        width, out);
    }
    if (added != nullptr) kernels::add_rows(out - ids.size() * width, width, ids.size(), *added);
  }

  void scatter(std::span<const std::int32_t> /*ids*/, const real* /*in*/) override {
    throw std::logic_error(concat(shard_.name(), ": rows of a sharded table cannot be replaced"));
  }

  void check_takes_gradient() const override {
    check_state(is_watched, shard_.name(), ": its gradient has rows of other ranks, ",
                "expected backward() in a TrainingRun, which passes them to their shards");
  }

  bool is_watched = false;         // true if the gradient is for callbacks
  std::vector<std::int32_t> rows;  // increasing
  Tensor values = empty({0});      // values of these rows
  std::uint64_t version = 0;       // version of the shard when the rows were fetched

 private:
  const Parameter& shard_;
  std::size_t ranks_;
};

ShardedTable::ShardedTable(ProcessGroup& ranks, Parameter& shard, std::size_t rows,
                           const EmbeddingLookup& lookup)
    : ranks_(ranks),
      shard_(shard),
      lookup_{.max_norm = lookup.max_norm, .norm_type = lookup.norm_type} {
  kernels::check_table("ShardedTable", shard.shape());
  const bool in_file = !shard.is_in_memory();
  const IndexRange mine =
      in_file ? IndexRange{0, rows} : rows_of_rank(rows, ranks.rank(), ranks.size());
  shape_ = {rows, shard.shape()[1]};
  first_ = mine.begin;
  const Shape expected{mine.size(), shape_[1]};
  check_argument(shard.shape() == expected, "ShardedTable: the shard of rank ", ranks.rank(),
                 " of a table with ", rows, " rows has shape ", bracketed(shard.shape()),
                 ", expected ", bracketed(expected));
  const std::vector<std::size_t> all = ranks.all_gather(std::span<const std::size_t>(shape_));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    check_runtime(all[2 * rank] == rows && all[2 * rank + 1] == shape_[1],
                  "ShardedTable: ", ranks.name_of(rank), " has a table of shape [", all[2 * rank],
                  ", ", all[2 * rank + 1], "], expected ", bracketed(shape_), " as on ",
                  ranks.name_of(ranks.rank()));
  if (ranks.size() == 1) return;
  auto fetched = std::make_unique<FetchedRows>(shard_, shape_, ranks.size());
  fetched_ = fetched.get();
  table_.emplace(shard.name(), std::move(fetched));
}

// Returns, for each rank, the range of `sorted` that the rank holds.
std::vector<IndexRange> ShardedTable::by_rank(std::span<const std::int32_t> sorted) const {
  std::vector<IndexRange> ranges;
  std::size_t begin = 0;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const IndexRange rows = rows_of_rank(shape_[0], rank, ranks_.size());
    const auto end = std::ranges::lower_bound(sorted, static_cast<std::int64_t>(rows.end));
    ranges.push_back({begin, static_cast<std::size_t>(end - sorted.begin())});
    begin = ranges.back().end;
  }
  return ranges;
}

std::vector<std::int32_t> ShardedTable::in_shard(std::span<const std::int32_t> ids) const {
  std::vector<std::int32_t> rows(ids.begin(), ids.end());
  for (std::int32_t& id : rows) id -= static_cast<std::int32_t>(first_);
  return rows;
}

Tensor ShardedTable::read_shard(std::span<const std::int32_t> ids, bool scales) const {
  const std::vector<std::int32_t> rows = in_shard(ids);
  if (!scales || !lookup_.max_norm) return shard_.gathered_rows(rows);
  Tape tape(Tape::kInference);
  return read_rows("ShardedTable", tape.parameter(shard_), to_ids(rows), lookup_);
}

void ShardedTable::fetch(std::span<const std::int32_t> ids, bool scales) {
  if (is_whole()) return;
  kernels::check_ids(shard_.name(), ids, {ids.size()}, shape_[0]);
  table_->rename(shard_.name());
  table_->set_trainable(shard_.trainable());
  std::vector<std::int32_t>& rows = fetched_->rows;
  rows.assign(ids.begin(), ids.end());
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  const std::size_t width = shape_[1];
  fetched_->values = empty({rows.size(), width});
  std::vector<std::vector<std::int32_t>> asked;  // [rank]
  std::vector<std::span<real>> received;
  for (const IndexRange range : by_rank(rows)) {
    asked.emplace_back(rows.data() + range.begin, rows.data() + range.end);
    received.emplace_back(fetched_->values.data() + range.begin * width, range.size() * width);
  }
  std::vector<Tensor> values;
  std::vector<std::span<const real>> sent;
  for (const std::vector<std::int32_t>& its : ranks_.all_to_all_lists(std::move(asked))) {
    values.push_back(read_shard(its, scales));
    sent.emplace_back(values.back().data(), values.back().size());
  }
  std::ranges::copy(sent[ranks_.rank()], received[ranks_.rank()].data());
  ranks_.all_to_all(sent, received);
  fetched_->version = shard_.version();
}

void ShardedTable::add_gradient(Gradient of_table, bool watched) {
  const RowGradient& gradient = of_table.rows();
  const IndexRange mine = by_rank(gradient.indices())[ranks_.rank()];
  Tensor values = empty({mine.size(), gradient.width()});
  std::copy_n(gradient.values().data() + mine.begin * gradient.width(), values.size(),
              values.data());
  const auto ids = std::span(gradient.indices()).subspan(mine.begin, mine.size());
  shard_.add_gradient(RowGradient(shard_.shape(), in_shard(ids), std::move(values)));
  if (!watched) return;
  fetched_->is_watched = true;
  table_->add_gradient(std::move(of_table));
  fetched_->is_watched = false;
}

}  // namespace rowgrad
