# The reference of the public headers, which doxygen makes of their comments and of the READMEs:
# the target rowgrad_reference, into reference/html of the build. Fails with a list of the public
# names that have no documentation, and of links that lead nowhere.
option(ROWGRAD_REFERENCE "Offer the target rowgrad_reference, which needs doxygen" OFF)
if(NOT ROWGRAD_REFERENCE)
  return()
endif()
find_package(Doxygen 1.9.4 REQUIRED)

function(rowgrad_reference)
  set(folder ${PROJECT_SOURCE_DIR}/core/packaging/reference)
  set(output ${PROJECT_BINARY_DIR}/reference)
  file(MAKE_DIRECTORY ${output})

  # Pages in the order in which they are listed.
  set(pages README.md layers/README.md optim/README.md optim/OWED_STEPS.md optim/report/README.md
      core/README.md core/parallel/README.md examples/README.md examples/data/README.md
      tests/README.md tests/bench/README.md)

  # Sources that pages point to, and the programs, are examples: doxygen shows them with links.
  file(GLOB examples CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} examples/*.cpp)
  foreach(page IN LISTS pages)
    cmake_path(GET page PARENT_PATH room)
    file(READ ${page} text)
    string(REPLACE "](" "link(" text "${text}")  # no brackets, which would join entries of a list
    string(REGEX MATCHALL "link\\([^()#: ]+\\.(cpp|py|txt)\\)" links "${text}")
    foreach(link IN LISTS links)
      string(REGEX REPLACE "link\\((.*)\\)" "\\1" file ${link})
      cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/${room} NORMALIZE)
      cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
      list(APPEND examples ${file})
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES examples)
  list(SORT examples)
  set(text "")
  foreach(example IN LISTS examples)
    string(APPEND text "/** @example ${example} */\n")
  endforeach()
  file(CONFIGURE OUTPUT ${output}/examples.dox CONTENT "${text}" @ONLY)

  set(inputs ${ROWGRAD_HEADERS} core/kernels/simd.hpp optim/report/run_report.hpp)
  list(REMOVE_DUPLICATES inputs)
  list(TRANSFORM inputs PREPEND "${ROWGRAD_INCLUDES}/rowgrad/")
  list(TRANSFORM pages PREPEND "${PROJECT_SOURCE_DIR}/" OUTPUT_VARIABLE guides)
  list(APPEND inputs ${guides})
  list(PREPEND inputs ${folder}/rooms.dox)
  list(APPEND inputs ${output}/examples.dox)
  list(TRANSFORM inputs REPLACE "(.+)" "\"\\1\"" OUTPUT_VARIABLE ROWGRAD_REFERENCE_INPUTS)
  list(JOIN ROWGRAD_REFERENCE_INPUTS " \\\n    " ROWGRAD_REFERENCE_INPUTS)

  # Doxygen renamed the list of groups, and has dark colours of its own, which ours do not suit.
  set(ROWGRAD_REFERENCE_GROUPS modules)
  set(ROWGRAD_REFERENCE_COLORS "")
  if(DOXYGEN_VERSION VERSION_GREATER_EQUAL 1.9.8)
    set(ROWGRAD_REFERENCE_GROUPS topics)
  endif()
  if(DOXYGEN_VERSION VERSION_GREATER_EQUAL 1.9.5)
    set(ROWGRAD_REFERENCE_COLORS "HTML_COLORSTYLE        = LIGHT")
  endif()
  configure_file(${folder}/layout.xml.in ${output}/layout.xml @ONLY)
  configure_file(${folder}/Doxyfile.in ${output}/Doxyfile @ONLY)

  add_custom_target(rowgrad_reference
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${output}/html
    COMMAND Doxygen::doxygen ${output}/Doxyfile
    COMMENT "Making the reference: ${output}/html/index.html" VERBATIM)
  install(DIRECTORY ${output}/html DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT doc OPTIONAL)
endfunction()
rowgrad_reference()
