#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <set>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/parallel/split_checkpoint.hpp>
#include <rowgrad/core/parallel/split_rows.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>

namespace rowgrad {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNames = "split.names";  // what the names of the files of ranks have
constexpr const char* kRanks = "split.ranks";  // how many they are
constexpr const char* kRows = "split.rows";    // of the whole table of each value in such a file

fs::path rank_path(const fs::path& path, const std::string& names, std::size_t rank) {
  return fs::path(path) += concat(".part-", names, '-', rank);
}

// The split table whose rows a value is of, if any: that of "a.b" is not of a table "b".
const Parameter* table_of(const std::string& name, std::span<Parameter* const> parameters) {
  const Parameter* longest = nullptr;
  for (const Parameter* parameter : parameters)
    if ((longest == nullptr || parameter->name().size() > longest->name().size()) &&
        concat('.', name, '.').find(concat('.', parameter->name(), '.')) != std::string::npos)
      longest = parameter;
  return longest != nullptr && split_rows_of(*longest) != nullptr ? longest : nullptr;
}

// Takes the rows of split tables, with what an optimizer keeps for them, out of a state.
Checkpoint take_rows(Checkpoint& state, std::span<Parameter* const> parameters) {
  Checkpoint rows = state;
  for (const std::string& name : state.names()) {
    const Parameter* const table = table_of(name, parameters);
    const std::string last = name.substr(name.rfind('.') + 1);
    const bool is_common = table == nullptr || last == "step" || last == "steps" || last == "rules";
    (is_common ? rows : state).erase(name);
    if (last == "checksum") rows.erase(name);
    if (rows.contains(name)) rows.put(concat(kRows, '.', name), table->shape()[0]);
  }
  return rows;
}

// Files that some ranks need but do not have come from one that does.
void fetch_files(ProcessGroup& ranks, const std::vector<fs::path>& paths,
                 const std::vector<bool>& needed) {
  std::string states;  // of each file: here, needed, or neither
  for (std::size_t i = 0; i < paths.size(); ++i)
    states += file_exists(paths[i]) ? 'h' : needed[i] ? 'n' : '-';
  const std::vector<std::string> all = ranks.gather_lists(states);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    std::string of_ranks;
    for (const std::string& its : all) of_ranks += its[i];
    if (of_ranks.find('n') == std::string::npos) continue;
    const std::size_t sender = of_ranks.find('h');
    check_runtime(sender != std::string::npos, paths[i].string(),
                  ": is missing on all ranks: it has the rows of rank ", i, " of ", paths.size(),
                  ", and belongs beside the checkpoint");
    std::vector<std::string> sent(ranks.size());
    for (std::size_t rank = 0; sender == ranks.rank() && rank < ranks.size(); ++rank)
      if (of_ranks[rank] == 'n') sent[rank] = read_file(paths[i]);
    const std::string bytes = ranks.exchange_lists(std::move(sent))[sender];
    if (states[i] == 'n') write_file(paths[i], bytes);
  }
}

}  // namespace

void write_split_checkpoint(const fs::path& path, const Checkpoint& state,
                            std::span<Parameter* const> parameters, ProcessGroup& ranks) {
  Checkpoint common = state;
  const Checkpoint mine = take_rows(common, parameters);
  std::random_device device;
  const std::string names = ranks.gather_lists(concat(device(), '-', device())).front();
  write_safetensors(rank_path(path, names, ranks.rank()), mine);
  ranks.any(false);  // all of them are there
  common.put(kNames, names);
  common.put(kRanks, ranks.size());
  if (ranks.rank() == 0) write_safetensors(path, common);
  ranks.any(false);  // from here on, they count
  remove_parts(path, names);
}

void remove_parts(const fs::path& path, const std::string& but) {
  const std::string all = concat(path.filename().string(), ".part-");
  for (const auto& entry : fs::directory_iterator(fs::absolute(path).parent_path())) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(all) || (!but.empty() && name.starts_with(all + but + '-')) ||
        name.find_first_not_of("0123456789-", all.size()) != std::string::npos)
      continue;
    std::error_code ignored;
    fs::remove(entry.path(), ignored);
  }
}

std::size_t saved_ranks(const Checkpoint& file) {
  return file.contains(kRanks) ? file.count(kRanks) : 1;
}

Checkpoint with_split_rows(Checkpoint file, const fs::path& path, ProcessGroup* group,
                           std::span<Parameter* const> parameters) {
  SingleProcess alone;
  ProcessGroup& ranks = group != nullptr ? *group : alone;
  const std::string names = file.contains(kNames) ? file.text(kNames) : "";
  const std::vector<std::string> names_of = ranks.gather_lists(names);
  for (std::size_t rank = 0; rank < names_of.size(); ++rank)
    check_runtime(names_of[rank] == names, path.string(), ": is another checkpoint on rank ", rank,
                  " than on rank ", ranks.rank());
  const bool is_split = !names.empty();
  if (!is_split && (ranks.size() == 1 || SplitTables(parameters).empty())) return file;
  const std::size_t count = saved_ranks(file), here = ranks.rank();
  const IndexRange mine = range_of(kTableParts, here, ranks.size());
  std::vector<fs::path> paths;
  std::vector<bool> needed;
  for (std::size_t rank = 0; rank < count; ++rank) {
    const IndexRange its = range_of(kTableParts, rank, count);
    paths.push_back(is_split ? rank_path(path, names, rank) : path);
    needed.push_back(its.begin < mine.end && mine.begin < its.end);
  }
  file.erase(kNames);
  file.erase(kRanks);
  if (is_split) fetch_files(ranks, paths, needed);
  std::map<std::string, Checkpoint::Value> values;
  std::map<std::string, std::size_t> missing;  // rows of each
  std::set<std::string> sparse;
  for (std::size_t rank = 0; rank < count; ++rank) {
    if (!needed[rank]) continue;
    const Checkpoint part = is_split ? read_safetensors(paths[rank]) : take_rows(file, parameters);
    const Checkpoint rows = part.part(kRows);
    for (const std::string& saved : rows.names()) {
      const std::string base = saved.substr(0, saved.rfind('.'));
      const bool is_sparse = saved.ends_with(".rows");  // with base.values
      if (saved.ends_with(".values") && part.contains(base + ".rows")) continue;
      const std::string& name = is_sparse ? *sparse.insert(base).first : saved;
      const std::size_t of_table = rows.count(saved);
      const IndexRange its = rows_of_rank(of_table, rank, count);
      const IndexRange own = rows_of_rank(of_table, here, ranks.size());
      const std::size_t begin = std::clamp(own.begin, its.begin, its.end);
      const std::size_t size = std::clamp(own.end, its.begin, its.end) - begin;
      Checkpoint::Value& value = values[name];
      missing.try_emplace(name, own.size()).first->second -= size;
      if (is_sparse || std::holds_alternative<Tensor>(part.at(name))) {
        const std::size_t width = part.shape(is_sparse ? base + ".values" : name).back();
        const Tensor tensor = rows_in(part, name, {its.size(), width});
        if (std::get<Tensor>(value).dimension() != 2) value = empty({own.size(), width});
        if (size > 0)
          std::copy_n(tensor.data() + (begin - its.begin) * width, size * width,
                      std::get<Tensor>(value).data() + (begin - own.begin) * width);
      } else if (std::holds_alternative<std::string>(part.at(name))) {
        check_runtime(count == ranks.size(), path.string(), ": its tables are in files, saved by ",
                      count, " ranks, resumed on ", ranks.size(), "; expected as many");
        value = part.at(name);
      } else {
        const std::vector<std::int64_t> read = part.integers(name);
        check_runtime(read.size() == its.size(), paths[rank].string(), ": ", name, " has ",
                      read.size(), " numbers, expected ", its.size());
        if (!std::holds_alternative<Checkpoint::Integers>(value)) value = Checkpoint::Integers{};
        auto& all = std::get<Checkpoint::Integers>(value);
        std::copy_n(read.data() + (begin - its.begin), size, std::back_inserter(all.values));
        all.shape = {all.values.size()};
      }
    }
  }
  for (auto& [name, value] : values) {
    check_runtime(missing[name] == 0, path.string(), ": its parts lack rows of ", name);
    sparse.contains(name) ? put_rows(file, name, std::get<Tensor>(std::exchange(value, {})))
                          : file.put(name, std::move(value));
  }
  return file;
}

}  // namespace rowgrad
