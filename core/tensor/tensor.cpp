#if __has_include(<xtensor/io/xio.hpp>)  // from xtensor 0.26 on
#include <xtensor/io/xio.hpp>
#else
#include <xtensor/xio.hpp>
#endif

#include <limits>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {
namespace link_check {

#if defined(ROWGRAD_DOUBLE)
extern const char numbers_are_double = 0;
#else
extern const char numbers_are_float = 0;
#endif

// Defined by both libraries, so that linking both into one program fails.
extern const char a_program_has_one_number_type = 0;

}  // namespace link_check

std::optional<std::size_t> checked_element_count(const Shape& shape) {
  constexpr std::size_t kMax = std::numeric_limits<std::ptrdiff_t>::max() / sizeof(double);
  std::size_t count = 1;
  bool none = false;
  for (const std::size_t extent : shape) {
    none |= extent == 0;
    if (extent == 0) continue;
    if (__builtin_mul_overflow(count, extent, &count) || count > kMax) return std::nullopt;
  }
  return none ? 0 : count;
}

std::size_t element_count(const Shape& shape, std::string_view caller) {
  const auto count = checked_element_count(shape);
  check_argument(count.has_value(), caller, ": shape ", bracketed(shape),
                 " has more elements than memory could ever hold");
  return *count;
}

Tensor empty(const Shape& shape) {
  element_count(shape);
  return Tensor::from_shape(shape);
}

Tensor full(const Shape& shape, real value) {
  element_count(shape);
  return Tensor(shape, value);
}

Tensor sparse_zeros(const Shape& shape) {
  Tensor result = empty(shape);
  BufferPool::clear(result.data(), result.size() * sizeof(real));
  return result;
}

Tensor reshaped(Tensor x, const Shape& shape) {
  check_argument(element_count(shape, "reshaped") == x.size(), "reshaped: cannot reshape ",
                 x.size(), " elements to shape ", bracketed(shape));
  x.reshape(shape);
  return x;
}

Shape index_at(const Shape& shape, std::size_t offset) {
  Shape index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = offset % shape[axis];
    offset /= shape[axis];
  }
  return index;
}

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) {
  return xt::operator<<(stream, tensor);
}

std::ostream& operator<<(std::ostream& stream, const Ids& ids) {
  return xt::operator<<(stream, ids.array());
}

}  // namespace rowgrad
