#include <algorithm>
#include <iomanip>
#include <ostream>

#include <rowgrad/core/tensor/print.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kMostNumbers = 1000;
constexpr std::size_t kEdge = 3;

// Calls visit(i) for each index along an axis that is printed, and visit(extent) where indices are
// left out.
template <class Visit>
void visit_places(std::size_t extent, bool cut, const Visit& visit) {
  for (std::size_t i = 0; i < extent; ++i) {
    if (cut && extent > 2 * kEdge && i == kEdge) {
      visit(extent);
      i = extent - kEdge;
    }
    visit(i);
  }
}

struct Printer {
  std::ostream& stream;
  const Tensor& tensor;
  bool cut;
  std::size_t width = 0;  // of the widest value

  void measure(std::size_t axis, std::size_t offset) {
    if (axis == tensor.dimension()) {
      width = std::max(width, concat(tensor.data()[offset]).size());
      return;
    }
    const std::size_t extent = tensor.shape()[axis];
    visit_places(extent, cut, [&](std::size_t i) {
      if (i < extent) measure(axis + 1, offset * extent + i);
    });
  }

  void print(std::size_t axis, std::size_t offset) const {
    if (axis == tensor.dimension()) {
      stream << std::setw(static_cast<int>(width)) << concat(tensor.data()[offset]);
      return;
    }
    const std::size_t extent = tensor.shape()[axis];
    const bool innermost = axis + 1 == tensor.dimension();
    stream << '[';
    visit_places(extent, cut, [&](std::size_t i) {
      if (i > 0) stream << (innermost ? ", " : ",\n" + std::string(axis + 1, ' '));
      if (i < extent) {
        print(axis + 1, offset * extent + i);
      } else {
        stream << "...";
      }
    });
    stream << ']';
  }
};

}  // namespace

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) {
  Printer printer{stream, tensor, tensor.size() > kMostNumbers};
  printer.measure(0, 0);
  printer.print(0, 0);
  return stream;
}

}  // namespace rowgrad
