# The libraries that rowgrad needs.

find_package(Threads REQUIRED)
find_package(xtensor 0.24...<0.28 REQUIRED)  # tested versions
# xtensor's types are in the public headers, so programs must be built with rowgrad's version of xtensor.
string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" ROWGRAD_XTENSOR "${xtensor_VERSION}")
math(EXPR ROWGRAD_NEXT_XTENSOR "${CMAKE_MATCH_2} + 1")
set(ROWGRAD_NEXT_XTENSOR ${CMAKE_MATCH_1}.${ROWGRAD_NEXT_XTENSOR})
find_package(xsimd REQUIRED)
find_path(XTENSOR_BLAS_INCLUDE_DIR xtensor-blas/xblas.hpp REQUIRED)  # headers only; rowgrad chooses the BLAS
find_path(UTF8PROC_INCLUDE_DIR utf8proc.h REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)  # headers only
find_path(NLOHMANN_JSON_INCLUDE_DIR nlohmann/json.hpp REQUIRED)

include(core/packaging/rowgradLibraries.cmake)
if(rowgrad_missing)
  message(FATAL_ERROR "${rowgrad_missing} was not found, but rowgrad needs it (on Debian, install ${rowgrad_missing}-dev)")
endif()
find_path(OPENBLAS_INCLUDE_DIR cblas.h REQUIRED PATH_SUFFIXES openblas
          HINTS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp)
