# Libraries that CMake's modules do not know, as targets: for rowgrad itself, and on each machine where
# an installed rowgrad is used.

# Any build of OpenBLAS serves, as its own threads are not used. Debian keeps each build in a folder
# of its own behind one shared soname; the folder is named here and in the run path, so that
# programs run with the build that they were linked with.
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
