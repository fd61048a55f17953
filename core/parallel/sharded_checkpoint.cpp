#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <set>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/parallel/sharded_checkpoint.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>

namespace rowgrad {
namespace {

namespace fs = std::filesystem;

// Names of values in the main file and the parts. Each checkpoint has its own id. The main file
// also names the parts of the next checkpoint, so that a save overwrites the parts of an
// interrupted save.
constexpr const char* kId = "split.id";
constexpr const char* kNames = "split.names";    // substring that the names of all parts share
constexpr const char* kNext = "split.next";      // kNames of the next checkpoint
constexpr const char* kBefore = "split.before";  // kNames of the replaced checkpoint
constexpr const char* kRanks = "split.ranks";    // number of parts
constexpr const char* kRank = "split.rank";      // rank of this part
constexpr const char* kStep = "split.step";      // step of the run, if any
constexpr const char* kRows = "split.rows";      // for each value: number of rows of its table

fs::path rank_path(const fs::path& path, const std::string& names, std::size_t rank) {
  return fs::path(path) += concat(".part-", names, '-', rank);
}

std::string random_name() {
  std::random_device device;
  return concat(device(), '-', device());
}

// Returns a description of a part, for messages.
std::string described(const StateDict& part, std::size_t rank) {
  const auto step = part.contains(kStep) ? concat(" at step ", part.count(kStep)) : "";
  return concat("the rows of rank ", rank, " of ", part.count(kRanks), " of checkpoint ",
                part.string(kId), step);
}

void check_part(const fs::path& path, const StateDict& part, const StateDict& file,
                std::size_t rank) {
  check_runtime(part.contains(kId) && part.contains(kRank) && part.contains(kRanks), path.string(),
                ": is not a part of a sharded checkpoint");
  check_runtime(part.string(kId) == file.string(kId) && part.count(kRank) == rank &&
                    part.count(kRanks) == file.count(kRanks),
                path.string(), ": has ", described(part, part.count(kRank)), ", expected ",
                described(file, rank));
}

// Returns true if `name` has only digits and hyphens, like the names that random_name() returns.
// Other names must not become part of a path.
bool is_name(std::string_view name) {
  return !name.empty() && name.find_first_not_of("0123456789-") == std::string_view::npos;
}

// The values of kNames, kNext and kBefore. Names that are missing or damaged are empty.
struct Names {
  std::string present, next, before;
};

Names names_in(const fs::path& path) {
  std::error_code unknown;
  if (!fs::is_regular_file(path, unknown)) return {};
  try {
    const StateDict file = read_safetensors_metadata(path);
    const auto name = [&](const char* key) {
      const std::string text = file.contains(key) ? file.string(key) : "";
      return is_name(text) ? text : "";
    };
    return {name(kNames), name(kNext), name(kBefore)};
  } catch (const std::exception&) {  // not a checkpoint
  }
  return {};
}

bool is_part(const fs::path& path, const std::string& names) {
  try {
    const StateDict part = read_safetensors_metadata(path);
    return part.contains(kNames) && !part.contains(kNext) && part.string(kNames) == names;
  } catch (const std::exception&) {
    return false;
  }
}

// Removes the files with the common name `names` that is_part() confirms to be parts.
void remove_parts(const fs::path& path, const std::string& names) {
  if (names.empty()) return;
  const std::string start = concat(path.filename().string(), ".part-", names, '-');
  std::vector<fs::path> parts;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::absolute(path).parent_path(), ignored))
    if (entry.path().filename().string().starts_with(start) && is_part(entry.path(), names))
      parts.push_back(entry.path());
  for (const fs::path& part : parts) fs::remove(part, ignored);
}

// Returns the sharded table that a value belongs to, or null. The longest parameter name in `name`
// decides: "a.b" belongs to a table "a.b" rather than "b".
const ShardedTable* table_of(const std::string& name, const ParallelTraining& training,
                             std::span<Parameter* const> parameters) {
  const Parameter* longest = nullptr;
  for (const Parameter* parameter : parameters)
    if ((longest == nullptr || parameter->name().size() > longest->name().size()) &&
        concat('.', name, '.').find(concat('.', parameter->name(), '.')) != std::string::npos)
      longest = parameter;
  return longest != nullptr ? training.find(*longest) : nullptr;
}

// Moves the rows of sharded tables and their optimizer state out of a state dict. Values that apply
// to all rows stay: single integers such as "step", values named "lazy.steps" or "lazy.rules" and,
// for tables in memory, strings. Checksums are dropped, because they cover only this rank's values.
StateDict take_rows(StateDict& state, const ParallelTraining& training,
                    std::span<Parameter* const> parameters) {
  StateDict rows;
  for (const std::string& name : state.names()) {
    const ShardedTable* const table = table_of(name, training, parameters);
    if (table == nullptr) continue;
    if (name.ends_with(".lazy.checksum")) {
      state.erase(name);
      continue;
    }
    const StateDict::Value& value = state.at(name);
    const auto* const integers = std::get_if<StateDict::Integers>(&value);
    const bool is_number = integers != nullptr && integers->shape.empty();
    const bool is_text = std::holds_alternative<std::string>(value);
    if (is_number || name.ends_with(".lazy.steps") || name.ends_with(".lazy.rules") ||
        (is_text && table->shard().is_in_memory()))
      continue;
    rows.put(name, value);
    rows.put(concat(kRows, '.', name), table->rows());
    state.erase(name);
  }
  return rows;
}

// Returns true if `name` has the row indices that put_table() or put_integers() wrote for `base`.
bool is_sparse(const StateDict& part, const std::string& name, const std::string& base) {
  return name == base + ".rows" && part.contains(name) && part.contains(base + ".values") &&
         std::holds_alternative<StateDict::Integers>(part.at(name));
}

// Copies files that some ranks need, but lack, from a rank that has them.
void fetch_files(ProcessGroup& ranks, const std::vector<fs::path>& paths,
                 const std::vector<bool>& needed) {
  std::string states;  // per file: h (here), n (needed) or -
  for (std::size_t i = 0; i < paths.size(); ++i)
    states += file_exists(paths[i]) ? 'h' : needed[i] ? 'n' : '-';
  const std::vector<std::string> all = ranks.all_gather_lists(states);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    std::string of_ranks;
    for (const std::string& its : all) of_ranks += its[i];
    if (of_ranks.find('n') == std::string::npos) continue;
    const std::size_t sender = of_ranks.find('h');
    check_runtime(sender != std::string::npos, paths[i].string(),
                  ": is missing on all ranks: it has the rows of rank ", i, " of ", paths.size(),
                  "; move it next to the checkpoint");
    std::vector<std::string> sent(ranks.size());
    for (std::size_t rank = 0; sender == ranks.rank() && rank < ranks.size(); ++rank)
      if (of_ranks[rank] == 'n') sent[rank] = read_file(paths[i]);
    const std::string bytes = ranks.all_to_all_lists(std::move(sent))[sender];
    if (states[i] == 'n') write_file(paths[i], bytes);
  }
}

}  // namespace

void write_sharded_checkpoint(const fs::path& path, const StateDict& state,
                              const ParallelTraining& training,
                              std::span<Parameter* const> parameters,
                              const StateDict& first_rank_values) {
  ProcessGroup& ranks = training.group();
  StateDict common = state;
  StateDict mine = take_rows(common, training, parameters);
  check_argument(!mine.empty() || !training.has_tables(),
                 "write_sharded_checkpoint: the state has no rows of the sharded tables, expected "
                 "a state with the ",
                 parameters.size(), " parameters that were passed");
  const auto from_first = [&](const std::string& text) {
    return ranks.all_gather_lists(text).front();
  };
  const bool is_first = ranks.rank() == 0;
  const Names before = is_first ? names_in(path) : Names();
  const std::string replaced = from_first(before.present);
  const std::string left = from_first(before.before);  // remains if the last save was interrupted
  const std::string names = from_first(before.next.empty() ? random_name() : before.next);
  const std::string id = from_first(random_name());
  for (StateDict* file : {&mine, &common}) {
    file->put(kId, id);
    file->put(kNames, names);
    file->put(kRanks, ranks.size());
    if (state.contains("steps")) file->put(kStep, state.count("steps"));
  }
  mine.put(kRank, ranks.rank());
  for (const std::string& name : first_rank_values.names())
    common.put(name, first_rank_values.at(name));
  common.put(kNext, random_name());
  common.put(kBefore, replaced);
  write_safetensors(rank_path(path, names, ranks.rank()), mine);
  ranks.any(false);  // waits until all parts are written
  if (is_first) write_safetensors(path, common);
  ranks.any(false);  // waits until the new checkpoint is valid
  remove_parts(path, replaced);
  remove_parts(path, left);
}

void write_whole_checkpoint(const fs::path& path, const StateDict& state) {
  const Names before = names_in(path);
  write_safetensors(path, state);
  for (const std::string& names : {before.present, before.next, before.before})
    remove_parts(path, names);
}

std::size_t saved_ranks(const StateDict& file) {
  return file.contains(kRanks) ? file.count(kRanks) : 1;
}

StateDict with_sharded_rows(StateDict file, const fs::path& path, const ParallelTraining* training,
                            std::span<Parameter* const> parameters) {
  SingleProcess alone;
  ProcessGroup& ranks = training != nullptr && training->has_tables() ? training->group() : alone;
  const std::string names = file.contains(kNames) ? file.string(kNames) : "";
  const std::string id = file.contains(kId) ? file.string(kId) : "";
  const std::vector<std::string> ids = ranks.all_gather_lists(id);
  for (std::size_t rank = 0; rank < ids.size(); ++rank)
    check_runtime(ids[rank] == id, path.string(), ": differs between ", ranks.name_of(rank),
                  " and ", ranks.name_of(ranks.rank()), ", expected the same checkpoint");
  const bool is_sharded = !names.empty();
  check_runtime(is_sharded == !id.empty(), path.string(), ": lacks ", is_sharded ? kId : kNames);
  check_runtime(!is_sharded || is_name(names), path.string(), ": ", kNames, " is '", names,
                "', expected digits and '-'");
  if (!is_sharded && ranks.size() == 1) return file;
  const std::size_t count = saved_ranks(file), here = ranks.rank();
  const IndexRange mine = range_of(kTableParts, here, ranks.size());
  std::vector<fs::path> paths;
  std::vector<bool> needed;
  for (std::size_t rank = 0; rank < count; ++rank) {
    const IndexRange its = range_of(kTableParts, rank, count);
    paths.push_back(is_sharded ? rank_path(path, names, rank) : path);
    needed.push_back(its.begin < mine.end && mine.begin < its.end);
  }
  const StateDict whole = file;
  for (const char* key : {kId, kNames, kNext, kBefore, kRanks, kStep}) file.erase(key);
  if (is_sharded) fetch_files(ranks, paths, needed);
  std::map<std::string, StateDict::Value> values;
  std::map<std::string, std::size_t> missing;  // number of rows that each value still lacks
  std::set<std::string> sparse;
  for (std::size_t rank = 0; rank < count; ++rank) {
    if (!needed[rank]) continue;
    const StateDict part =
        is_sharded ? read_safetensors(paths[rank]) : take_rows(file, *training, parameters);
    if (is_sharded) check_part(paths[rank], part, whole, rank);
    const StateDict rows = part.part(kRows);
    for (const std::string& saved : rows.names()) {
      const std::string base = saved.substr(0, saved.rfind('.'));
      const bool in_rows = is_sparse(part, saved, base);
      if (saved == base + ".values" && is_sparse(part, base + ".rows", base)) continue;
      const std::string& name = in_rows ? *sparse.insert(base).first : saved;
      const std::size_t of_table = rows.count(saved);
      const IndexRange its = rows_of_rank(of_table, rank, count);
      const IndexRange own = rows_of_rank(of_table, here, ranks.size());
      const std::size_t begin = std::clamp(own.begin, its.begin, its.end);
      const std::size_t size = std::clamp(own.end, its.begin, its.end) - begin;
      StateDict::Value& value = values[name];
      missing.try_emplace(name, own.size()).first->second -= size;
      const std::string& of_values = in_rows ? base + ".values" : name;
      if (std::holds_alternative<Tensor>(part.at(of_values))) {
        const std::size_t width = part.shape(of_values).back();
        const Tensor tensor = get_table(part, name, {its.size(), width});
        if (std::get<Tensor>(value).dimension() != 2) value = empty({own.size(), width});
        if (size > 0)
          std::copy_n(tensor.data() + (begin - its.begin) * width, size * width,
                      std::get<Tensor>(value).data() + (begin - own.begin) * width);
      } else if (std::holds_alternative<std::string>(part.at(of_values))) {
        check_runtime(count == ranks.size(), path.string(), ": its tables are in files, saved by ",
                      count, " ranks, but this run has ", ranks.size(), "; resume on ", count,
                      " ranks");
        value = part.at(name);
      } else {
        const std::vector<std::int64_t> read = get_integers(part, name, its.size());
        check_runtime(read.size() == its.size(), paths[rank].string(), ": ", name, " has ",
                      read.size(), " values, expected ", its.size());
        if (!std::holds_alternative<StateDict::Integers>(value)) value = StateDict::Integers{};
        auto& all = std::get<StateDict::Integers>(value);
        std::copy_n(read.data() + (begin - its.begin), size, std::back_inserter(all.values));
        all.shape = {all.values.size()};
      }
    }
  }
  for (auto& [name, value] : values) {
    check_runtime(missing[name] == 0, path.string(), ": its parts lack rows of ", name);
    if (!sparse.contains(name))
      file.put(name, std::move(value));
    else if (const auto* const tensor = std::get_if<Tensor>(&value))
      put_table(file, name, *tensor);
    else
      put_integers(file, name, std::get<StateDict::Integers>(value).values);
  }
  return file;
}

}  // namespace rowgrad
