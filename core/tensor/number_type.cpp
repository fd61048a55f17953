#include <rowgrad/core/tensor/number_type.hpp>

namespace rowgrad::link_check {

#if defined(ROWGRAD_DOUBLE)
extern const char numbers_are_double = 0;
#else
extern const char numbers_are_float = 0;
#endif

// Defined in both libraries, so that linking both into one program fails.
extern const char a_program_has_one_number_type = 0;

}  // namespace rowgrad::link_check
