# Installation: find_package(rowgrad), then link rowgrad::rowgrad or rowgrad::rowgrad_double.
# Components, each a package: runtime (to run programs), dev (to build programs), tools (the program rowgrad),
# mpi (everything that needs MPI), doc (documentation).
set(ROWGRAD_CMAKE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/rowgrad)
set(ROWGRAD_TARGETS rowgrad_common rowgrad rowgrad_double rowgrad_parallel rowgrad_parallel_double)
install(TARGETS ${ROWGRAD_TARGETS} EXPORT rowgradTargets
        LIBRARY COMPONENT runtime NAMELINK_COMPONENT dev ARCHIVE COMPONENT dev)
foreach(level IN LISTS ROWGRAD_LEVELS)
  if(TARGET rowgrad.level-${level})
    install(TARGETS rowgrad.level-${level} rowgrad_double.level-${level} COMPONENT runtime
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/glibc-hwcaps/${level} NAMELINK_SKIP)
  endif()
endforeach()
if(MPI_FOUND)
  install(TARGETS rowgrad_mpi EXPORT rowgradMpiTargets ARCHIVE COMPONENT mpi)
  install(EXPORT rowgradMpiTargets NAMESPACE rowgrad:: DESTINATION ${ROWGRAD_CMAKE_FOLDER} COMPONENT mpi)
endif()

# Programs find the shared libraries relative to themselves, and the OpenBLAS that they were linked with.
if(ROWGRAD_EXAMPLES)
  file(RELATIVE_PATH to_libraries /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(rowgrad_program PROPERTIES INSTALL_RPATH $ORIGIN/${to_libraries})
  install(TARGETS rowgrad_program RUNTIME COMPONENT tools)
  set(programs rowgrad_program)
  if(MPI_FOUND)  # main.cpp looks for the program in this folder
    set_target_properties(rowgrad_mpi_program PROPERTIES INSTALL_RPATH $ORIGIN/../${to_libraries})
    install(TARGETS rowgrad_mpi_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}/../libexec/rowgrad COMPONENT mpi)
    list(APPEND programs rowgrad_mpi_program)
  endif()
  if(ROWGRAD_LIBRARY_TYPE STREQUAL STATIC)
    set_target_properties(${programs} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  endif()
  install(PROGRAMS examples/texts.sh DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT tools)
  install(DIRECTORY examples/textbook DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT tools)
endif()

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME dev)
foreach(header IN LISTS ROWGRAD_INSTALLED_HEADERS)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rowgrad/${folder})
endforeach()
install(FILES ${ROWGRAD_INCLUDES}/rowgrad/rowgrad.hpp ${ROWGRAD_INCLUDES}/rowgrad/version.hpp
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rowgrad)
install(EXPORT rowgradTargets NAMESPACE rowgrad:: DESTINATION ${ROWGRAD_CMAKE_FOLDER})
configure_package_config_file(core/packaging/rowgradConfig.cmake.in rowgradConfig.cmake
                              INSTALL_DESTINATION ${ROWGRAD_CMAKE_FOLDER})
write_basic_package_version_file(rowgradConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES core/packaging/rowgradLibraries.cmake ${PROJECT_BINARY_DIR}/rowgradConfig.cmake
              ${PROJECT_BINARY_DIR}/rowgradConfigVersion.cmake
        DESTINATION ${ROWGRAD_CMAKE_FOLDER})
# Documentation: the changelog, the READMEs, and the sources of the programs.
install(FILES LICENSE core/packaging/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT doc)
file(GLOB ROWGRAD_DOCS RELATIVE ${PROJECT_SOURCE_DIR}
     README.md */README.md */*/README.md examples/rowgrad/report/README.md core/tables/FORMAT.md
     examples/rowgrad/report/FORMAT.md examples/rowgrad/report/page/types.d.ts examples/rowgrad/report/pictures/*
     layers/EMBEDDINGS.md optim/DEFERRED_STEPS.md tests/bench/ngram_memory.svg
     examples/*.cpp examples/rowgrad/*.[ch]pp examples/rowgrad/*/*.[ch]pp)
foreach(file IN LISTS ROWGRAD_DOCS)
  cmake_path(GET file PARENT_PATH folder)
  install(FILES ${file} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder} COMPONENT doc)
endforeach()

include(core/packaging/reference/reference.cmake)
include(core/packaging/pkgconfig/pkgconfig.cmake)
if(PROJECT_IS_TOP_LEVEL)
  include(core/packaging/packages.cmake)
endif()
