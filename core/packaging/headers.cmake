# The public headers.

# Links in the build tree make <rowgrad/core/...> work as in an installation.
set(ROWGRAD_INCLUDES ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${ROWGRAD_INCLUDES}/rowgrad)
foreach(folder core layers optim examples)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${ROWGRAD_INCLUDES}/rowgrad/${folder} SYMBOLIC)
endforeach()

# Generates <rowgrad/rowgrad.hpp>, which includes every public header.
file(GLOB ROWGRAD_HEADERS CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
     core/base/*.hpp core/tensor/*.hpp core/blas/*.hpp core/autograd/*.hpp core/tables/*.hpp core/ops/*.hpp core/data/*.hpp
     core/data/tokenizers/*.hpp core/parallel/*.hpp layers/*.hpp layers/gpt/*.hpp optim/*.hpp optim/slots/*.hpp optim/training/*.hpp
     optim/callbacks/*.hpp)
list(APPEND ROWGRAD_HEADERS core/kernels/broadcast.hpp)  # for custom backward rules

# Installed headers: the public ones, and the kernel headers that they include, which authors of ops may use.
set(ROWGRAD_INSTALLED_HEADERS ${ROWGRAD_HEADERS})
foreach(kernel elementwise parallel rows simd)
  list(APPEND ROWGRAD_INSTALLED_HEADERS core/kernels/${kernel}.hpp)
endforeach()

list(TRANSFORM ROWGRAD_HEADERS REPLACE "(.+)" "#include <rowgrad/\\1>\n" OUTPUT_VARIABLE ROWGRAD_INCLUDE_LINES)
list(JOIN ROWGRAD_INCLUDE_LINES "" ROWGRAD_INCLUDE_LINES)
configure_file(core/packaging/version.hpp.in ${ROWGRAD_INCLUDES}/rowgrad/version.hpp @ONLY)
file(CONFIGURE OUTPUT ${ROWGRAD_INCLUDES}/rowgrad/rowgrad.hpp
     CONTENT "#pragma once\n\n// Includes all public headers of rowgrad.\n\n#if __cplusplus < 202002L\n#error \"rowgrad needs C++20 (-std=c++20)\"\n#endif\n\n@ROWGRAD_INCLUDE_LINES@#include <rowgrad/version.hpp>\n" @ONLY)
