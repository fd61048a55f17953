# Functions that define the libraries and programs of rowgrad.

function(rowgrad_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow)
  # False positives: with much inlining, GCC warns about the inline storage of xtensor's shapes, and GCC 12
  # also about its own AVX-512 intrinsics.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
    if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
      target_compile_options(${target} PRIVATE -Wno-uninitialized -Wno-restrict -Wno-stringop-overflow)
    endif()
  endif()
  if(ROWGRAD_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()

# Disables floating-point contraction: only an explicit fma rounds once. With contraction, results would depend on the
# compiler, and on which copy of an inline function the linker keeps.
function(rowgrad_arithmetic target)
  target_compile_options(${target} PRIVATE -ffp-contract=off -fno-math-errno -fno-trapping-math)
endfunction()

# Compiles the sources of each folder in groups of at least `bytes` bytes, because headers dominate the compile time.
# Groups are small enough for a change to compile quickly. The files of a folder must not define the same name twice.
function(rowgrad_compile_together bytes)
  foreach(source IN LISTS ARGN)
    cmake_path(GET source PARENT_PATH folder)
    string(REPLACE "/" "_" folder "${folder}")
    file(SIZE ${CMAKE_CURRENT_SOURCE_DIR}/${source} size)
    list(APPEND folders ${folder})
    list(APPEND sources_of_${folder} ${source})
    math(EXPR size_of_${folder} "0${size_of_${folder}} + ${size}")
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    set(before 0)
    foreach(source IN LISTS sources_of_${folder})
      math(EXPR group "${before} * (${size_of_${folder}} / ${bytes}) / ${size_of_${folder}}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${group})
      file(SIZE ${CMAKE_CURRENT_SOURCE_DIR}/${source} size)
      math(EXPR before "${before} + ${size}")
    endforeach()
  endforeach()
endfunction()

# Compiles a program or test with less optimization, because it spends its time in the library.
function(rowgrad_compile_quickly target)
  if(ROWGRAD_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  rowgrad_arithmetic(${target})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)  # false positives about strings at -O1
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)
  endif()
endfunction()

# Adds a library. A shared library exports only the namespace rowgrad (core/packaging/exports.map) and calls its own
# functions directly.
function(rowgrad_library target)
  set(type ${ROWGRAD_LIBRARY_TYPE})
  cmake_parse_arguments(PARSE_ARGV 1 arg STATIC "" "")
  if(arg_STATIC)
    set(type STATIC)
  endif()
  add_library(${target} ${type} ${arg_UNPARSED_ARGUMENTS})
  add_library(rowgrad::${target} ALIAS ${target})
  set_target_properties(${target} PROPERTIES ROWGRAD_LEVEL ${ROWGRAD_LEVEL})
  target_include_directories(${target} SYSTEM PRIVATE
    ${XTENSOR_BLAS_INCLUDE_DIR} ${OPENBLAS_INCLUDE_DIR} ${UTF8PROC_INCLUDE_DIR}
    ${XXHASH_INCLUDE_DIR}
    ${NLOHMANN_JSON_INCLUDE_DIR})
  rowgrad_arithmetic(${target})
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)  # the default of a build without a type
    target_compile_options(${target} PRIVATE -O3)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ROWGRAD_UNITY} UNITY_BUILD_MODE GROUP)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)  # keeps inlining in large groups: 8 % of a small step
    target_compile_options(${target} PRIVATE --param=large-unit-insns=1000000)
  endif()
  rowgrad_warnings(${target})
  if(type STREQUAL SHARED)  # built for its level, regardless of the programs' flags
    target_compile_options(${target} PRIVATE -march=${ROWGRAD_LEVEL} -fvisibility-inlines-hidden
                                             -fno-semantic-interposition)
    target_link_options(${target} PRIVATE LINKER:-Bsymbolic-functions
                                          LINKER:--version-script=${PROJECT_SOURCE_DIR}/core/packaging/exports.map)
    set_target_properties(${target} PROPERTIES
      CXX_VISIBILITY_PRESET default POSITION_INDEPENDENT_CODE ON
      VERSION ${PROJECT_VERSION} SOVERSION ${ROWGRAD_ABI} INSTALL_RPATH $ORIGIN
      LINK_DEPENDS ${PROJECT_SOURCE_DIR}/core/packaging/exports.map LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  endif()
endfunction()

# Adds the tensor library with elements of type `number` for ROWGRAD_LEVEL. Levels after the first are in the folders
# that the dynamic loader searches (glibc 2.33 or later).
function(rowgrad_tensor_library name number)
  set(target ${name})
  if(TARGET ${name})
    set(target ${name}.level-${ROWGRAD_LEVEL})
  endif()
  rowgrad_library(${target} ${ROWGRAD_SOURCES})
  target_precompile_headers(${target} PRIVATE <rowgrad/core/tensor/xtensor.hpp>)
  target_link_libraries(${target} PUBLIC rowgrad_common PRIVATE rowgrad::openblas)
  set_target_properties(${target} PROPERTIES INTERFACE_rowgrad_number_type ${number})
  set_property(TARGET ${target} PROPERTY COMPATIBLE_INTERFACE_STRING rowgrad_number_type)
  if(number STREQUAL double)
    target_compile_definitions(${target} PUBLIC ROWGRAD_DOUBLE)
  endif()
  if(NOT target STREQUAL name)
    set(folder glibc-hwcaps/${ROWGRAD_LEVEL})
    set_target_properties(${target} PROPERTIES
      OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${folder}
      INSTALL_RPATH $ORIGIN/../..)
  endif()
endfunction()
