#if __has_include(<xtensor/io/xio.hpp>)  // from xtensor 0.26 on
#include <xtensor/io/xio.hpp>
#else
#include <xtensor/xio.hpp>
#endif

#include <rowgrad/core/tensor/print.hpp>

namespace rowgrad {

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) {
  return xt::operator<<(stream, tensor);
}

std::ostream& operator<<(std::ostream& stream, const Ids& ids) {
  return xt::operator<<(stream, ids.array());
}

}  // namespace rowgrad
