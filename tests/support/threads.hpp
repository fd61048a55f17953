#pragma once

#include <rowgrad/core/blas/openblas.hpp>

namespace rowgrad::testing {

/// Runs the rest of a scope on a number of threads, and then on as many as before.
class Threads {
 public:
  explicit Threads(int count) : before_(blas::info().threads) { blas::set_threads(count); }
  ~Threads() { blas::set_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

}  // namespace rowgrad::testing
