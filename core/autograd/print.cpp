#include <ostream>

#include <rowgrad/core/autograd/print.hpp>

namespace rowgrad {

std::ostream& operator<<(std::ostream& stream, const Variable& x) {
  return stream << x.name() << ' ' << bracketed(x.shape()) << ' ' << x.value();
}

}  // namespace rowgrad
