// -ffast-math makes functions of rowgrad's headers wrong: such a source must not compile.

#include <rowgrad/rowgrad.hpp>
