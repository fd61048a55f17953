#pragma once

// The type of the values in tensors. A program has only one.

namespace rowgrad {

/// The library `rowgrad` is built with float, `rowgrad_double` with double.
#if defined(ROWGRAD_DOUBLE)
using real = double;
#else
using real = float;
#endif

// The two libraries give the same names to different types, so their object files must not be
// mixed. Code that sees `real` refers to a symbol that only its own library defines.
namespace link_check {
#if defined(ROWGRAD_DOUBLE)
extern const char numbers_are_double;
[[gnu::used]] static const char* const mark = &numbers_are_double;
#else
extern const char numbers_are_float;
[[gnu::used]] static const char* const mark = &numbers_are_float;
#endif
}  // namespace link_check

}  // namespace rowgrad
