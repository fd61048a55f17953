# pkg-config --cflags --libs rowgrad, rowgrad_double, rowgrad_parallel or rowgrad_parallel_double.

# A shared library records its own dependencies.
set(common_libraries "")
set(common_flags -DXTENSOR_USE_XSIMD)
if(ROWGRAD_LIBRARY_TYPE STREQUAL STATIC)
  set(common_libraries "-lopenblas -lutf8proc")
endif()

# Paths are relative to the .pc file, so an installation can be moved, unless the folder is absolute.
file(RELATIVE_PATH ROWGRAD_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" ROWGRAD_PC_PREFIX "\${pcfiledir}/${ROWGRAD_PC_PREFIX}")
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(ROWGRAD_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
endif()
foreach(folder INCLUDEDIR LIBDIR)
  set(ROWGRAD_PC_${folder} "\${prefix}/${CMAKE_INSTALL_${folder}}")
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${folder}}")
    set(ROWGRAD_PC_${folder} ${CMAKE_INSTALL_${folder}})
  endif()
endforeach()

set(xtensor "xtensor >= ${ROWGRAD_XTENSOR} xtensor < ${ROWGRAD_NEXT_XTENSOR}")

# rowgrad_pkgconfig(NAME ABOUT REQUIRES FLAGS LIBRARIES)
function(rowgrad_pkgconfig NAME ABOUT REQUIRES FLAGS LIBRARIES)
  configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/rowgrad.pc.in pkgconfig/${NAME}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/pkgconfig/${NAME}.pc
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endfunction()
rowgrad_pkgconfig(rowgrad "${PROJECT_DESCRIPTION}" "${xtensor} xsimd"
                  "${common_flags}" "-lrowgrad_common ${common_libraries}")
rowgrad_pkgconfig(rowgrad_double "${PROJECT_DESCRIPTION}, in double precision" "${xtensor} xsimd"
                  "${common_flags} -DROWGRAD_DOUBLE" "-lrowgrad_common ${common_libraries}")
foreach(number "" _double)
  rowgrad_pkgconfig(rowgrad_parallel${number} "Training of rowgrad's models in several processes" rowgrad${number} "" "")
endforeach()
