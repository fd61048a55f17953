# Chooses the target processors, and static or shared libraries.

set(ROWGRAD_LEVELS native CACHE STRING
    "Values for -march. One value builds a static library. Several values, such as x86-64;x86-64-v3;x86-64-v4, build \
a shared library each; the loader takes the last one that the processor supports")
if(DEFINED ROWGRAD_ARCH AND NOT ROWGRAD_ARCH STREQUAL native)
  message(FATAL_ERROR "ROWGRAD_ARCH is now ROWGRAD_LEVELS: pass -UROWGRAD_ARCH -DROWGRAD_LEVELS=${ROWGRAD_ARCH}")
endif()
list(LENGTH ROWGRAD_LEVELS levels)
if(levels EQUAL 1)
  include(CheckCXXCompilerFlag)
  string(MAKE_C_IDENTIFIER "ROWGRAD_KNOWS_${ROWGRAD_LEVELS}" known)
  check_cxx_compiler_flag("-march=${ROWGRAD_LEVELS}" ${known})
  if(NOT ${known})
    message(FATAL_ERROR "ROWGRAD_LEVELS is '${ROWGRAD_LEVELS}', which the compiler does not accept for -march, "
                        "expected a value such as native or x86-64-v3")
  endif()
else()  # levels that the loader knows, in increasing order
  string(REPLACE ";" "|" pattern "${ROWGRAD_LEVELS}")
  set(levels x86-64 x86-64-v2 x86-64-v3 x86-64-v4)
  list(FILTER levels INCLUDE REGEX "^(${pattern})$")
  if(NOT ROWGRAD_LEVELS STREQUAL levels OR NOT levels)
    message(FATAL_ERROR "ROWGRAD_LEVELS is '${ROWGRAD_LEVELS}', expected one value for -march, or several of "
                        "x86-64;x86-64-v2;x86-64-v3;x86-64-v4 in this order, each once")
  endif()
  list(LENGTH ROWGRAD_LEVELS levels)
endif()
if(CMAKE_CROSSCOMPILING AND ROWGRAD_LEVELS STREQUAL native)
  message(FATAL_ERROR "ROWGRAD_LEVELS is native, but this build is for another processor: "
                      "pass its -march value, such as armv8-a")
endif()

set(ROWGRAD_LIBRARY_TYPE STATIC)
set(ROWGRAD_TESTS_DEFAULT ${PROJECT_IS_TOP_LEVEL})
if(BUILD_SHARED_LIBS OR levels GREATER 1)
  set(ROWGRAD_LIBRARY_TYPE SHARED)
  set(ROWGRAD_TESTS_DEFAULT OFF)  # they need symbols that a shared library hides
  # Makes builds independent of their folders; the last matching prefix wins.
  add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}=rowgrad
                      -ffile-prefix-map=${PROJECT_BINARY_DIR}=build)
  set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
else()
  # Applies to rowgrad's own programs. Projects that use the library choose their own -march.
  add_compile_options(-march=${ROWGRAD_LEVELS})
  message(STATUS "rowgrad is compiled for the processor '${ROWGRAD_LEVELS}' (-DROWGRAD_LEVELS=…)")
endif()
list(GET ROWGRAD_LEVELS 0 ROWGRAD_LEVEL)  # level of the sources that are compiled once
