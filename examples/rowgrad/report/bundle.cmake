# Joins the page, its style, its modules and dygraphs into one file without references:
#   cmake -DOUT=page.html -DDYGRAPHS=/usr/share/javascript/dygraphs -P bundle.cmake
# The licence of dygraphs is next to it or in Debian's documentation folder.
# Programs replace @DATA@, between two tags of the result, by the data.

set(modules format dom colour data cell_map scatter charts
    glance run curves vocabulary why rows text embeddings attention samples main)

# Fails if a script contains a tag that would end it early.
function(check_script name script)
  string(TOLOWER "${script}" lower)
  if(lower MATCHES "</script|<!--")
    message(FATAL_ERROR "${name} has a tag that would end the page's script: '${CMAKE_MATCH_0}'")
  endif()
endfunction()

# All modules share one scope: their names must be unique, and imports, one on each line, are removed.
set(scripts "")
foreach(module ${modules})
  file(READ ${CMAKE_CURRENT_LIST_DIR}/page/${module}.js script)
  string(REGEX REPLACE "\nimport [^\n]*" "" script "\n${script}")
  string(REGEX REPLACE "\nexport " "\n" script "${script}")
  check_script(${module}.js "${script}")
  string(APPEND scripts "${script}")
endforeach()

file(READ ${DYGRAPHS}/dygraph.min.js library)
string(REGEX REPLACE "\n//# sourceMappingURL=[^\n]*" "" library "${library}")
check_script(dygraph.min.js "${library}")
find_file(LICENCE NAMES LICENSE.txt copyright REQUIRED NO_DEFAULT_PATH
          PATHS ${DYGRAPHS} ${DYGRAPHS}/../../doc/libjs-dygraphs)
file(READ ${LICENCE} licence)
file(READ ${DYGRAPHS}/dygraph.min.css library_style)
string(REGEX REPLACE "/\\*# sourceMappingURL=[^\n]*" "" library_style "${library_style}")
file(READ ${CMAKE_CURRENT_LIST_DIR}/page/report.css style)

file(READ ${CMAKE_CURRENT_LIST_DIR}/page/report.html page)
string(REPLACE "@STYLE@" "${library_style}\n${style}" page "${page}")
string(REPLACE "@LIBRARY@" "/*!\n${licence}*/\n${library}" page "${page}")
string(REPLACE "@SCRIPTS@" "${scripts}" page "${page}")
file(WRITE ${OUT} "${page}")
