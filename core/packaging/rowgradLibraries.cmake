# Targets for libraries without CMake modules. rowgrad's build and installed packages both include this file.

# Any build of OpenBLAS works, because rowgrad does not use its threads. Debian keeps each build in its own folder with
# the same soname. The folder is in the run path, so programs run with the build that they were linked with.
find_library(ROWGRAD_OPENBLAS_LIBRARY openblas
             PATH_SUFFIXES openblas-openmp HINTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp)
find_library(ROWGRAD_UTF8PROC_LIBRARY utf8proc)

set(rowgrad_missing "")
foreach(library OPENBLAS UTF8PROC)
  if(NOT ROWGRAD_${library}_LIBRARY)
    string(TOLOWER "lib${library}" rowgrad_missing)
    continue()
  endif()
  string(TOLOWER rowgrad::${library} target)
  if(NOT TARGET ${target})
    add_library(${target} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${ROWGRAD_${library}_LIBRARY})
  endif()
endforeach()
