#include <algorithm>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/parallel/gradient_exchange.hpp>
#include <rowgrad/core/parallel/parallel_training.hpp>

namespace rowgrad {
namespace {

constexpr std::uint64_t kNone = ~std::uint64_t{0};  // no table

}  // namespace

ParallelTraining::~ParallelTraining() {
  for (const auto& table : tables_) table->shard().remove_user(*this);
}

ShardedTable* ParallelTraining::find(const Parameter& parameter) const {
  for (const auto& table : tables_)
    if (&table->shard() == &parameter || &table->table() == &parameter) return table.get();
  return nullptr;
}

void ParallelTraining::forget(const Parameter& parameter) noexcept {
  std::erase_if(tables_, [&](const auto& table) { return &table->shard() == &parameter; });
}

std::unique_ptr<GradientSum> ParallelTraining::gradient_sum(std::size_t slices,
                                                            std::vector<Shape> shapes,
                                                            std::size_t bucket_bytes) const {
  return std::make_unique<GradientExchange>(group_, slices, std::move(shapes), bucket_bytes);
}

IndexRange ParallelTraining::rows_here(std::size_t rows) const {
  return rows_of_rank(rows, group_.rank(), group_.size());
}

Parameter& ParallelTraining::whole_table(Parameter& here, std::size_t rows,
                                         const EmbeddingLookup& lookup) {
  check_argument(find(here) == nullptr, "ParallelTraining: ", here.name(), " is already sharded");
  tables_.push_back(std::make_unique<ShardedTable>(group_, here, rows, lookup));
  here.add_user(*this);
  return tables_.back()->table();
}

void ParallelTraining::fetch(std::span<const TableLookup> lookups) {
  if (group_.size() == 1) return;
  check_state(asking_ == Asking::kAll || group_.rank() == 0, "ParallelTraining::fetch: called on ",
              group_.name_of(group_.rank()),
              ", expected only the first rank to call it in first_asks()");
  for (std::uint64_t i = 0; i < tables_.size(); ++i) {
    std::vector<std::int32_t> ids;
    for (const TableLookup& lookup : lookups)
      if (lookup.table == &tables_[i]->table())
        ids.insert(ids.end(), lookup.ids.begin(), lookup.ids.end());
    if (asking_ == Asking::kFirst) {
      if (ids.empty()) continue;
      group_.all_gather(std::span<const std::uint64_t>(&i, 1));  // meet() answers on other ranks
    }
    tables_[i]->fetch(ids, scales_);
  }
}

void ParallelTraining::first_asks(const std::function<void()>& work) {
  struct Restored {
    ~Restored() {
      tables.asking_ = Asking::kAll;
      tables.scales_ = true;
    }
    ParallelTraining& tables;
  } const restored{*this};
  asking_ = Asking::kFirst;
  scales_ = false;
  work();
  meet();
}

void ParallelTraining::together(const std::function<void()>& work) {
  meet();
  asking_ = Asking::kAll;
  work();
  asking_ = Asking::kFirst;
}

// Sends the rows that the first rank asks for, until the first rank also calls meet().
void ParallelTraining::meet() {
  if (!has_tables()) return;
  while (true) {
    const std::uint64_t table = group_.all_gather(std::span(&kNone, 1)).front();
    if (table == kNone) return;
    check_state(
        table < tables_.size(),
        "ParallelTraining: the first rank sent other messages while the other ranks wait to send "
        "it rows; send messages only in together()");
    tables_[table]->fetch({}, false);
  }
}

std::vector<double> ParallelTraining::all_parts(const Parameter& parameter,
                                                std::vector<double> parts) const {
  const ShardedTable* const table = find(parameter);
  if (table == nullptr || table->is_whole()) return parts;
  std::vector<double> all;
  for (const std::vector<double>& its : group_.all_gather_lists(parts))
    all.insert(all.end(), its.begin(), its.end());
  return all;
}

void ParallelTraining::add_gradient(ShardedTable& table, Gradient gradient, bool watched) const {
  table.add_gradient(std::move(gradient), watched);
}

void ParallelTraining::zero_gradients() const {
  for (const auto& table : tables_) table->table().zero_gradient();
}

}  // namespace rowgrad
