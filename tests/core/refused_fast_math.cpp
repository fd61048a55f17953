// This file must not compile with -ffast-math, which breaks functions in rowgrad's headers.

#include <rowgrad/rowgrad.hpp>
