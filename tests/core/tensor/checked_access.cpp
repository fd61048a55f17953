// Checks that programs compiled without NDEBUG throw for indices out of range, even if the library
// was compiled with NDEBUG.

#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>

#include <rowgrad/core/tensor/tensor.hpp>

using namespace rowgrad;

int main() {
  Ids ids{64, 6};
  Ids batch{{1, 2}, {3, 4}};
  Tensor tensor = zeros({2, 3});
  const std::map<std::string, std::function<void()>> wrong{
      {"ids[2]", [&] { ids[2] = 1; }},
      {"const ids[-1]", [&] { std::cout << std::as_const(ids)[static_cast<std::size_t>(-1)]; }},
      {"Ids()[0]", [] { Ids()[0] = 1; }},
      {"batch(2, 0)", [&] { batch(2, 0) = 1; }},
      {"const batch(0, 2)", [&] { std::cout << std::as_const(batch)(0, 2); }},
      {"tensor(0, 3)", [&] { tensor(0, 3) = 1; }},
      {"tensor(2, 0)", [&] { tensor(2, 0) = 1; }}};
  int status = 0;
  for (const auto& [access, attempt] : wrong) {
    try {
      attempt();
      std::cout << access << " does not throw\n";
      status = 1;
    } catch (const std::exception&) {
    }
  }
  ids[1] = batch(1, 1) = 7;
  tensor(1, 2) = 8;
  return ids[1] == 7 && batch[3] == 7 && tensor.data()[5] == 8 ? status : 1;
}
