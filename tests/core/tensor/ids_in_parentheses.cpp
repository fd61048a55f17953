// Does not compile: readers would take the numbers for a shape.

#include <rowgrad/core/tensor/tensor.hpp>

rowgrad::Ids wrong([[maybe_unused]] std::size_t batch, [[maybe_unused]] std::size_t context) {
#if FORM == 1
  return rowgrad::Ids({64, 6});
#elif FORM == 2
  rowgrad::Ids ids({batch, context});
  return ids;
#elif FORM == 3
  return rowgrad::Ids({{64, 6}});
#elif FORM == 4
  return rowgrad::Ids({64});
#elif FORM == 5
  return rowgrad::Ids({});
#endif
}
