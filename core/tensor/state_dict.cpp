#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>

#include <rowgrad/core/tensor/state_dict.hpp>

namespace rowgrad {
namespace {

std::vector<std::string_view> split_at_stars(std::string_view pattern) {
  std::vector<std::string_view> pieces;
  while (true) {
    const std::size_t star = pattern.find('*');
    pieces.push_back(pattern.substr(0, star));
    if (star == std::string_view::npos) return pieces;
    pattern.remove_prefix(star + 1);
  }
}

// Returns the parts of `name` that the `*` between the pieces match. From left to right, each `*`
// matches as few characters as possible. Returns nullopt if `name` does not match.
std::optional<std::vector<std::string_view>> match(std::span<const std::string_view> pieces,
                                                   std::string_view name) {
  std::vector<std::string_view> stars;
  if (pieces.size() == 1) return name == pieces[0] ? std::optional(stars) : std::nullopt;
  if (!name.starts_with(pieces.front())) return std::nullopt;
  name.remove_prefix(pieces.front().size());
  for (const std::string_view& piece : pieces.subspan(1)) {
    if (name.size() <= piece.size()) return std::nullopt;
    const bool last = &piece == &pieces.back();
    const std::size_t end = last ? name.size() - piece.size() : name.find(piece, 1);
    if (end == std::string_view::npos || name.substr(end, piece.size()) != piece)
      return std::nullopt;
    stars.push_back(name.substr(0, end));
    name.remove_prefix(end + piece.size());
  }
  return stars;
}

// Transposes a matrix tile by tile, so that the tiles of both matrices stay in the cache.
template <class Number>
void transpose(const Number* from, std::size_t rows, std::size_t columns, Number* to) {
  constexpr std::size_t kTile = 32;
  for (std::size_t row = 0; row < rows; row += kTile)
    for (std::size_t column = 0; column < columns; column += kTile)
      for (std::size_t i = row; i < std::min(row + kTile, rows); ++i)
        for (std::size_t j = column; j < std::min(column + kTile, columns); ++j)
          to[j * rows + i] = from[i * columns + j];
}

StateDict::Value transposed(const std::string& name, const StateDict::Value& value) {
  const auto check_matrix = [&](const Shape& shape) {
    check_argument(shape.size() == 2, "StateDict::renamed: cannot transpose ", in_quotes(name),
                   " of shape ", bracketed(shape), ", expected a matrix");
    return Shape{shape[1], shape[0]};
  };
  if (const auto* tensor = std::get_if<Tensor>(&value)) {
    Tensor result = empty(check_matrix(tensor->shape()));
    transpose(tensor->data(), tensor->shape()[0], tensor->shape()[1], result.data());
    return result;
  }
  const auto* doubles = std::get_if<StateDict::Doubles>(&value);
  check_argument(doubles != nullptr, "StateDict::renamed: cannot transpose ", in_quotes(name),
                 ", expected a tensor");
  StateDict::Doubles result{check_matrix(doubles->shape),
                            std::vector<double>(doubles->values.size())};
  transpose(doubles->values.data(), doubles->shape[0], doubles->shape[1], result.values.data());
  return result;
}

}  // namespace

void StateDict::put(const std::string& name, Value value) {
  const auto check_count = [&](const auto* array) {
    if (array == nullptr) return;
    const std::size_t expected = element_count(array->shape, "StateDict");
    check(array->values.size() == expected, name, " has ", array->values.size(),
          " values, expected ", expected, " as in its shape");
  };
  check_count(std::get_if<Integers>(&value));
  check_count(std::get_if<Doubles>(&value));
  auto shared = std::make_shared<const Value>(std::move(value));
  check(values_.try_emplace(name, std::move(shared)).second, name, " already exists");
}

void StateDict::put(const std::string& prefix, const StateDict& part) {
  decltype(values_) added;
  for (const auto& [name, value] : part.values_) {
    const std::string full_name = prefix + '.' + name;
    check(!values_.contains(full_name), full_name, " already exists");
    added.emplace(full_name, value);
  }
  values_.merge(added);
}

StateDict StateDict::part(const std::string& prefix) const {
  StateDict result;
  const std::string beginning = prefix + '.';
  result.prefix_ = prefix_ + beginning;
  for (auto it = values_.lower_bound(beginning);
       it != values_.end() && it->first.starts_with(beginning); ++it)
    result.values_.emplace(it->first.substr(beginning.size()), it->second);
  return result;
}

StateDict StateDict::renamed(std::span<const Renaming> renamings) const {
  struct Rule {
    std::vector<std::string_view> from, to;
    bool transpose;
  };
  std::vector<Rule> rules;
  for (const auto& [from, to, transpose] : renamings) {
    rules.push_back({split_at_stars(from), split_at_stars(to), transpose});
    check_argument(rules.back().to.size() <= rules.back().from.size(),
                   "StateDict::renamed: ", in_quotes(to), " has more wildcards (*) than ",
                   in_quotes(from));
  }
  StateDict result;
  result.prefix_ = prefix_;
  for (const auto& [name, value] : values_) {
    std::string new_name = name;
    std::shared_ptr<const Value> renamed = value;
    for (const auto& [from, to, transpose] : rules) {
      const auto stars = match(from, name);
      if (!stars) continue;
      new_name = to[0];
      for (std::size_t i = 1; i < to.size(); ++i) new_name.append((*stars)[i - 1]).append(to[i]);
      if (transpose) renamed = std::make_shared<const Value>(transposed(name, *value));
      break;
    }
    check_argument(result.values_.try_emplace(new_name, std::move(renamed)).second,
                   "StateDict::renamed: two values would be named ", in_quotes(new_name));
  }
  return result;
}

std::vector<std::string> StateDict::names() const {
  std::vector<std::string> all;
  for (const auto& [name, value] : values_) all.push_back(name);
  return all;
}

const StateDict::Value& StateDict::at(const std::string& name) const {
  const auto found = values_.find(name);
  check(found != values_.end(), name, " is missing");
  return *found->second;
}

template <class Kind>
const Kind& StateDict::get(const std::string& name, const char* kind) const {
  const auto* value = std::get_if<Kind>(&at(name));
  check(value != nullptr, name, " is not ", kind);
  return *value;
}

const std::string& StateDict::string(const std::string& name) const {
  return get<std::string>(name, "a string");
}

std::vector<std::int64_t> StateDict::integers(const std::string& name) const {
  return get<Integers>(name, "an array of integers").values;
}

std::int64_t StateDict::integer(const std::string& name) const {
  const auto& values = get<Integers>(name, "an integer").values;
  check(values.size() == 1, name, " has ", values.size(), " elements, expected one");
  return values[0];
}

std::uint64_t StateDict::count(const std::string& name) const {
  const std::int64_t value = integer(name);
  check(value >= 0, name, " is ", value, ", expected a non-negative integer");
  return static_cast<std::uint64_t>(value);
}

std::vector<double> StateDict::doubles(const std::string& name) const {
  if (const auto* integers = std::get_if<Integers>(&at(name))) {
    constexpr std::int64_t kMax = std::int64_t{1} << 53;
    for (const std::int64_t value : integers->values)
      check(-kMax <= value && value <= kMax, name, " is ", value,
            ", expected an integer from -2^53 to 2^53");
    return {integers->values.begin(), integers->values.end()};
  }
  if (const auto* tensor = std::get_if<Tensor>(&at(name))) return {tensor->begin(), tensor->end()};
  return get<Doubles>(name, "an array of numbers").values;
}

double StateDict::number(const std::string& name) const {
  const auto values = doubles(name);
  check(values.size() == 1, name, " has ", values.size(), " elements, expected one");
  return values[0];
}

Tensor StateDict::tensor(const std::string& name, const Shape& expected) const {
  check_shape(name, expected);
  Tensor result = rowgrad::empty(expected);
  copy_to(name, result.storage());
  return result;
}

const Shape& StateDict::shape(const std::string& name) const {
  const auto* tensor = std::get_if<Tensor>(&at(name));
  return tensor != nullptr ? tensor->shape() : get<Doubles>(name, "a tensor").shape;
}

void StateDict::check_shape(const std::string& name, const Shape& expected) const {
  check(shape(name) == expected, name, " has shape ", bracketed(shape(name)), ", expected ",
        bracketed(expected));
}

void StateDict::copy_to(const std::string& name, std::span<real> values) const {
  if (const auto* tensor = std::get_if<Tensor>(&at(name))) {
    std::copy_n(tensor->data(), values.size(), values.data());
  } else {
    std::ranges::transform(get<Doubles>(name, "a tensor").values, values.begin(),
                           [](double number) { return static_cast<real>(number); });
  }
}

// --- Sparse form: tables with few nonzero rows ---------------------------------------------------

namespace {

// Returns true if all rows take at least 1 MiB, and `rows` rows with their indices take at most
// half as much.
bool are_few(std::size_t rows, std::size_t all, std::size_t row_bytes) {
  constexpr std::size_t kMinBytes = std::size_t{1} << 20;
  return all * row_bytes >= kMinBytes &&
         2 * rows * (row_bytes + sizeof(std::int64_t)) <= all * row_bytes;
}

void copy_row(const Tensor& from, std::size_t row, Tensor& to, std::size_t to_row) {
  const std::size_t width = from.shape()[1];
  std::copy_n(from.data() + row * width, width, to.data() + to_row * width);
}

// Returns the indices of the nonzero rows. Compares bits, so a row with -0 is nonzero.
std::vector<std::int64_t> nonzero_rows(const Tensor& table) {
  const std::size_t width = table.shape()[1];
  const std::vector<real> zero(width);
  std::vector<std::int64_t> rows;
  for (std::size_t row = 0; row < table.shape()[0]; ++row)
    if (std::memcmp(table.data() + row * width, zero.data(), width * sizeof(real)) != 0)
      rows.push_back(static_cast<std::int64_t>(row));
  return rows;
}

// Copies the rows with these indices.
Tensor rows_at(const Tensor& table, const std::vector<std::int64_t>& indices) {
  Tensor rows = empty({indices.size(), table.shape()[1]});
  for (std::size_t i = 0; i < indices.size(); ++i)
    copy_row(table, static_cast<std::size_t>(indices[i]), rows, i);
  return rows;
}

Tensor whole_table(const SparseRows& sparse, const Shape& shape) {
  Tensor table = sparse_zeros(shape);
  for (std::size_t i = 0; i < sparse.rows.size(); ++i)
    copy_row(sparse.values, i, table, static_cast<std::size_t>(sparse.rows[i]));
  return table;
}

// Returns the row indices of a table in sparse form. Throws std::invalid_argument if the dense form
// is also present, or if the indices do not increase or are out of range.
std::vector<std::int64_t> row_indices_in(const StateDict& state, const std::string& name,
                                         const Shape& shape) {
  check_argument(!state.contains(name), "load_state_dict: '", name,
                 "' is present in both dense and sparse form");
  check_argument(shape.size() == 2, "load_state_dict: '", name,
                 "' is in sparse form, expected a tensor of shape ", bracketed(shape));
  std::vector<std::int64_t> rows = state.integers(name + ".rows");
  const bool rise = std::ranges::adjacent_find(rows, std::greater_equal<>()) == rows.end();
  check_argument(rise && (rows.empty() ||
                          (rows.front() >= 0 && static_cast<std::size_t>(rows.back()) < shape[0])),
                 "load_state_dict: invalid row indices of '", name,
                 "', expected increasing indices from 0 to ", shape[0] - 1);
  return rows;
}

}  // namespace

void put_table(StateDict& state, const std::string& name, const Tensor& table) {
  if (table.dimension() != 2) return state.put(name, table);
  std::vector<std::int64_t> rows = nonzero_rows(table);
  if (!are_few(rows.size(), table.shape()[0], table.shape()[1] * sizeof(real)))
    return state.put(name, table);
  Tensor values = rows_at(table, rows);
  put_sparse_rows(state, name, table.shape(), {std::move(rows), std::move(values)});
}

void put_sparse_rows(StateDict& state, const std::string& name, const Shape& shape,
                     SparseRows sparse) {
  const std::vector<std::int64_t> kept = nonzero_rows(sparse.values);
  if (!are_few(kept.size(), shape[0], shape[1] * sizeof(real)))
    return state.put(name, whole_table(sparse, shape));
  if (kept.size() < sparse.rows.size()) {
    sparse.values = rows_at(sparse.values, kept);
    for (std::size_t i = 0; i < kept.size(); ++i)
      sparse.rows[i] = sparse.rows[static_cast<std::size_t>(kept[i])];
    sparse.rows.resize(kept.size());
  }
  state.put(name + ".rows", std::move(sparse.rows));
  state.put(name + ".values", std::move(sparse.values));
}

void put_sparse_integers(StateDict& state, const std::string& name, std::size_t count,
                         SparseIntegers sparse) {
  if (are_few(sparse.rows.size(), count, sizeof(std::int64_t))) {
    state.put(name + ".rows", std::move(sparse.rows));
    return state.put(name + ".values", std::move(sparse.values));
  }
  std::vector<std::int64_t> all(count);
  for (std::size_t i = 0; i < sparse.rows.size(); ++i)
    all[static_cast<std::size_t>(sparse.rows[i])] = sparse.values[i];
  state.put(name, std::move(all));
}

void put_integers(StateDict& state, const std::string& name, std::vector<std::int64_t> all) {
  SparseIntegers sparse;
  for (std::size_t row = 0; row < all.size(); ++row) {
    if (all[row] == 0) continue;
    sparse.rows.push_back(static_cast<std::int64_t>(row));
    sparse.values.push_back(all[row]);
  }
  put_sparse_integers(state, name, all.size(), std::move(sparse));
}

bool has_sparse_rows(const StateDict& state, const std::string& name) {
  return state.contains(name + ".rows") || state.contains(name + ".values");
}

bool has_table(const StateDict& state, const std::string& name) {
  return state.contains(name) || has_sparse_rows(state, name);
}

SparseRows get_sparse_rows(const StateDict& state, const std::string& name, const Shape& shape) {
  std::vector<std::int64_t> rows = row_indices_in(state, name, shape);
  Tensor values = state.tensor(name + ".values", {rows.size(), shape[1]});
  return {std::move(rows), std::move(values)};
}

Tensor get_table(const StateDict& state, const std::string& name, const Shape& shape) {
  if (!state.contains(name + ".rows")) return state.tensor(name, shape);
  return whole_table(get_sparse_rows(state, name, shape), shape);
}

std::vector<std::int64_t> get_integers(const StateDict& state, const std::string& name,
                                       std::size_t count) {
  if (!state.contains(name + ".rows")) return state.integers(name);
  const std::vector<std::int64_t> rows = row_indices_in(state, name, {count, 1});
  const std::vector<std::int64_t> values = state.integers(name + ".values");
  check_argument(values.size() == rows.size(), "load_state_dict: '", name, ".values' has ",
                 values.size(), " elements, expected ", rows.size());
  std::vector<std::int64_t> all(count);
  for (std::size_t i = 0; i < rows.size(); ++i) all[static_cast<std::size_t>(rows[i])] = values[i];
  return all;
}

}  // namespace rowgrad
