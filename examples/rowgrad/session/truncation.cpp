#include <iostream>

#include <rowgrad/examples/rowgrad/session/truncation.hpp>

namespace rowgrad {

void warn_of_cut(const std::string& what, const char* end, std::size_t context) {
  std::cerr << "warning: " << what << "; only the " << end << ' ' << context
            << " (the context) are read" << std::endl;
}

}  // namespace rowgrad
