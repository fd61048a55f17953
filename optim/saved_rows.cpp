#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include <rowgrad/optim/saved_rows.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kLeastBytes = std::size_t{1} << 20;

// By their bits, so that -0 is kept.
std::vector<std::int64_t> rows_of_numbers(const Tensor& table) {
  const std::size_t width = table.shape()[1];
  const std::vector<real> zero(width);
  std::vector<std::int64_t> rows;
  for (std::size_t row = 0; row < table.shape()[0]; ++row)
    if (std::memcmp(table.data() + row * width, zero.data(), width * sizeof(real)) != 0)
      rows.push_back(static_cast<std::int64_t>(row));
  return rows;
}

void copy_row(const Tensor& from, std::size_t row, Tensor& to, std::size_t place) {
  const std::size_t width = from.shape()[1];
  std::copy_n(from.data() + row * width, width, to.data() + place * width);
}

}  // namespace

void put_rows(Checkpoint& state, const std::string& name, const Tensor& table) {
  const std::size_t bytes = table.size() * sizeof(real);
  if (table.dimension() != 2 || bytes < kLeastBytes) return state.put(name, table);
  std::vector<std::int64_t> rows = rows_of_numbers(table);
  const std::size_t width = table.shape()[1];
  if (2 * rows.size() * (width * sizeof(real) + sizeof rows[0]) > bytes)
    return state.put(name, table);
  Tensor values = empty({rows.size(), width});
  for (std::size_t i = 0; i < rows.size(); ++i)
    copy_row(table, static_cast<std::size_t>(rows[i]), values, i);
  state.put(name + ".rows", std::move(rows));
  state.put(name + ".values", std::move(values));
}

bool has_rows(const Checkpoint& state, const std::string& name) {
  return state.contains(name) || state.contains(name + ".rows") || state.contains(name + ".values");
}

Tensor rows_in(const Checkpoint& state, const std::string& name, const Shape& shape) {
  if (!state.contains(name + ".rows")) return state.tensor(name, shape);
  check_argument(!state.contains(name), "load_state_dict: '", name,
                 "' is there as a whole and in rows");
  check_argument(shape.size() == 2, "load_state_dict: '", name, "' is there in rows, expected ",
                 bracketed(shape));
  const std::vector<std::int64_t> rows = state.integers(name + ".rows");
  const Tensor values = state.tensor(name + ".values", {rows.size(), shape[1]});
  const bool rise = std::ranges::adjacent_find(rows, std::greater_equal<>()) == rows.end();
  check_argument(rise && (rows.empty() ||
                          (rows.front() >= 0 && static_cast<std::size_t>(rows.back()) < shape[0])),
                 "load_state_dict: the row numbers of '", name, "' do not rise from 0 to ",
                 shape[0] - 1, " at most");
  Tensor table = sparse_zeros(shape);
  for (std::size_t i = 0; i < rows.size(); ++i)
    copy_row(values, i, table, static_cast<std::size_t>(rows[i]));
  return table;
}

}  // namespace rowgrad
