#include <algorithm>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/tensor/ids.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

Ids::Ids(const std::vector<std::int32_t>& ids) : array_(Array::from_shape({ids.size()})) {
  std::copy(ids.begin(), ids.end(), data());
}

Ids::Array Ids::array_of(std::initializer_list<std::initializer_list<std::int32_t>> rows) {
  const std::size_t width = rows.size() > 0 ? rows.begin()->size() : 0;
  Array array = Array::from_shape({rows.size(), width});
  std::int32_t* to = array.data();
  for (const auto& row : rows) {
    check_argument(row.size() == width, "Ids: a row has ", row.size(), " ids, expected ", width,
                   ", as in the first row");
    to = std::copy(row.begin(), row.end(), to);
  }
  return array;
}

Ids Ids::from_shape(const shape_type& shape) {
  element_count(shape, "Ids::from_shape");
  return Ids(Array(shape, 0));
}

void Ids::reshape(const shape_type& shape) {
  check_argument(element_count(shape, "Ids::reshape") == size(), "Ids::reshape: cannot reshape ",
                 size(), " ids to shape ", bracketed(shape));
  array_.reshape(shape);
}

}  // namespace rowgrad
