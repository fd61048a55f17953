# The processors that rowgrad is compiled for, and whether its libraries are static or shared.

set(ROWGRAD_LEVELS native CACHE STRING
    "What -march gets. One: a static library. Several, as x86-64;x86-64-v3;x86-64-v4: \
a shared library for each, of which the loader takes the last that the processor can run")
if(DEFINED ROWGRAD_ARCH AND NOT ROWGRAD_ARCH STREQUAL native)
  message(FATAL_ERROR "ROWGRAD_ARCH is now called ROWGRAD_LEVELS: give -UROWGRAD_ARCH -DROWGRAD_LEVELS=${ROWGRAD_ARCH}")
endif()
list(LENGTH ROWGRAD_LEVELS levels)
if(levels EQUAL 1)
  include(CheckCXXCompilerFlag)
  string(MAKE_C_IDENTIFIER "ROWGRAD_KNOWS_${ROWGRAD_LEVELS}" known)
  check_cxx_compiler_flag("-march=${ROWGRAD_LEVELS}" ${known})
  if(NOT ${known})
    message(FATAL_ERROR "ROWGRAD_LEVELS is '${ROWGRAD_LEVELS}', which the compiler does not know as -march, "
                        "expected native, x86-64-v3 or the like")
  endif()
else()  # those that the loader knows, from the lowest on
  string(REPLACE ";" "|" pattern "${ROWGRAD_LEVELS}")
  set(levels x86-64 x86-64-v2 x86-64-v3 x86-64-v4)
  list(FILTER levels INCLUDE REGEX "^(${pattern})$")
  if(NOT ROWGRAD_LEVELS STREQUAL levels OR NOT levels)
    message(FATAL_ERROR "ROWGRAD_LEVELS is '${ROWGRAD_LEVELS}', expected one name for -march, or several of "
                        "x86-64;x86-64-v2;x86-64-v3;x86-64-v4, in this order and each once")
  endif()
  list(LENGTH ROWGRAD_LEVELS levels)
endif()
if(CMAKE_CROSSCOMPILING AND ROWGRAD_LEVELS STREQUAL native)
  message(FATAL_ERROR "ROWGRAD_LEVELS is native, but this is not the processor that is compiled for: "
                      "give its name for -march, armv8-a for example")
endif()

set(ROWGRAD_LIBRARY_TYPE STATIC)
set(ROWGRAD_TESTS_DEFAULT ${PROJECT_IS_TOP_LEVEL})
if(BUILD_SHARED_LIBS OR levels GREATER 1)
  set(ROWGRAD_LIBRARY_TYPE SHARED)
  set(ROWGRAD_TESTS_DEFAULT OFF)  # they reach for what a shared library hides
  # The same libraries and programs, whichever folders they are built in; the last that fits counts.
  add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}=rowgrad
                      -ffile-prefix-map=${PROJECT_BINARY_DIR}=build)
  set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
else()
  # The programs of this folder as well, but not those of others, which are compiled for what they like.
  add_compile_options(-march=${ROWGRAD_LEVELS})
  message(STATUS "rowgrad is compiled for the processor '${ROWGRAD_LEVELS}' (-DROWGRAD_LEVELS=…)")
endif()
list(GET ROWGRAD_LEVELS 0 ROWGRAD_LEVEL)  # of what is compiled once
