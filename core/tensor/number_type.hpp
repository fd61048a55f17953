#pragma once

// The number type of tensors, one in a program.

namespace rowgrad {

/// The library `rowgrad` is built with float, `rowgrad_double` with double.
#if defined(ROWGRAD_DOUBLE)
using real = double;
#else
using real = float;
#endif

// The same names mean other types in the two libraries, so what was compiled for one must not be
// linked with the other. Everything that sees `real` asks the linker for the library's own mark.
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
