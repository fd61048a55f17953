# The target rowgrad_reference runs doxygen on the public headers and writes reference/html in the build folder.
option(ROWGRAD_REFERENCE "Add the target rowgrad_reference (needs doxygen)" OFF)
if(NOT ROWGRAD_REFERENCE)
  return()
endif()
find_package(Doxygen 1.9.4 REQUIRED)

set(ROWGRAD_REFERENCE_INPUTS ${ROWGRAD_HEADERS} core/kernels/simd.hpp)
list(TRANSFORM ROWGRAD_REFERENCE_INPUTS REPLACE "(.+)" "\"${ROWGRAD_INCLUDES}/rowgrad/\\1\"")
list(APPEND ROWGRAD_REFERENCE_INPUTS "\"${PROJECT_SOURCE_DIR}/README.md\"")
list(JOIN ROWGRAD_REFERENCE_INPUTS " \\\n    " ROWGRAD_REFERENCE_INPUTS)
configure_file(${CMAKE_CURRENT_LIST_DIR}/Doxyfile.in reference/Doxyfile @ONLY)

set(reference ${PROJECT_BINARY_DIR}/reference)
add_custom_target(rowgrad_reference
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${reference}/html ${reference}/xml
  COMMAND Doxygen::doxygen ${reference}/Doxyfile
  COMMENT "Writing the reference: ${reference}/html/index.html" VERBATIM)
install(DIRECTORY ${reference}/html DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT doc OPTIONAL)
