#if __has_include(<xtensor/io/xio.hpp>)  // from xtensor 0.26 on
#include <xtensor/io/xio.hpp>
#else
#include <xtensor/xio.hpp>
#endif

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {
namespace link_check {

#if defined(ROWGRAD_DOUBLE)
extern const char numbers_are_double = 0;
#else
extern const char numbers_are_float = 0;
#endif

// Defined in both libraries, so that linking both into one program fails.
extern const char a_program_has_one_number_type = 0;

}  // namespace link_check

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) {
  return xt::operator<<(stream, tensor);
}

std::ostream& operator<<(std::ostream& stream, const Ids& ids) {
  return xt::operator<<(stream, ids.array());
}

}  // namespace rowgrad
