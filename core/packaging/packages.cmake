# Packages: `cpack` writes a .tar.xz of everything and one Debian package per component. make.sh runs it.

# --- Manual pages and bash completion -------------------------------------------------------------
# The target `rowgrad_manuals` writes the pages rowgrad(1), rowgrad-train(1) …; existing pages are installed.
if(ROWGRAD_EXAMPLES)
  find_program(HELP2MAN help2man)
  if(HELP2MAN)
    set(pages rowgrad)
    foreach(subcommand train generate rows finetune tokenize compare report)
      list(APPEND pages rowgrad-${subcommand})
    endforeach()
    add_custom_target(rowgrad_manuals DEPENDS rowgrad_program COMMENT "Writing the manual pages")
    foreach(page IN LISTS pages)
      add_custom_command(TARGET rowgrad_manuals POST_BUILD VERBATIM
        COMMAND ${CMAKE_CURRENT_LIST_DIR}/manual.sh $<TARGET_FILE_DIR:rowgrad_program> ${page}
                ${PROJECT_VERSION} ${PROJECT_BINARY_DIR}/${page}.1 ${pages})
      install(FILES ${PROJECT_BINARY_DIR}/${page}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
              COMPONENT tools OPTIONAL)
    endforeach()
  endif()
  install(FILES core/packaging/completion.bash RENAME rowgrad COMPONENT tools
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endif()

# --- CPack ----------------------------------------------------------------------------------------
# The maintainer is the person who builds the packages: $DEBFULLNAME <$DEBEMAIL>, as in Debian's tools.
set(maintainer "$ENV{DEBFULLNAME}")
set(address "$ENV{DEBEMAIL}")
if(NOT maintainer)
  set(maintainer "the rowgrad authors")
endif()
if(NOT address)
  set(address packages@rowgrad.invalid)
endif()
set(CPACK_PACKAGE_CONTACT "${maintainer} <${address}>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${CMAKE_PROJECT_NAME} built using CMake")  # the default text, which CPack treats as unset
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
set(CPACK_SYSTEM_NAME ${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_GENERATOR TXZ DEB)
set(CPACK_COMPONENTS_ALL runtime dev tools doc)
if(MPI_FOUND)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(release "${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")
set(library librowgrad${ROWGRAD_ABI})
set(about
"rowgrad trains language models on a CPU, from toy models to GPTs. Its embedding
layers have sparse row gradients, and its optimizers are exact on them: a step
gives the result of dense gradients, also with momentum, weight decay and Adam.
")
function(rowgrad_package component name section depends summary contents)
  string(TOUPPER CPACK_DEBIAN_${component} prefix)
  set(${prefix}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(${prefix}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(${prefix}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)
  set(${prefix}_DESCRIPTION "autograd with sparse row gradients - ${summary}\n${about}\n${contents}" PARENT_SCOPE)
endfunction()
rowgrad_package(runtime ${library} libs "" "shared libraries"
  "This package has the libraries, for several levels of processors.")
rowgrad_package(dev librowgrad-dev libdevel "${library} (= ${release}), \
libxtensor-dev (>= ${ROWGRAD_XTENSOR}), libxtensor-dev (<< ${ROWGRAD_NEXT_XTENSOR}~), libxsimd-dev"
  "development files" "This package has the headers and CMake files for building programs with\nrowgrad.")
rowgrad_package(tools rowgrad-tools science "${library} (= ${release})" "programs"
  "This package has the program rowgrad, which trains models and shows which rows\nhad gradients.")
rowgrad_package(mpi rowgrad-mpi science "${library} (= ${release})" "training in several processes"
  "With this package, rowgrad trains in several processes under mpirun. It also has\nthe library for building other programs with MPI.")
rowgrad_package(doc rowgrad-doc doc "" "documentation"
  "This package has the API reference, guides, and the sources of example\nprograms.")
set(CPACK_DEBIAN_DOC_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "rowgrad-doc, rowgrad-mpi")
set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS "curl, ca-certificates")  # for examples/texts.sh
set(CPACK_DEBIAN_MPI_PACKAGE_RECOMMENDS openmpi-bin)
set(CPACK_DEBIAN_MPI_PACKAGE_SUGGESTS "librowgrad-dev (= ${release}), libopenmpi-dev")

# Writes shlibs, which names the package that programs linked with the libraries depend on, and a trigger that renews
# the loader's cache. (CPack would list the libraries of each level.)
set(shlibs "")
foreach(target IN LISTS ROWGRAD_TARGETS)
  string(APPEND shlibs "lib${target} ${ROWGRAD_ABI} ${library} (>= ${PROJECT_VERSION})\n")
endforeach()
file(WRITE ${PROJECT_BINARY_DIR}/debian/shlibs "${shlibs}")
file(WRITE ${PROJECT_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/shlibs
                                               ${PROJECT_BINARY_DIR}/debian/triggers)

configure_file(${CMAKE_CURRENT_LIST_DIR}/debian/finish.cmake.in debian/finish.cmake @ONLY)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_BINARY_DIR}/debian/finish.cmake)
include(CPack)
