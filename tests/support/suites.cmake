# Adds the tests of the test programs. ctest includes this file when it starts.

cmake_policy(VERSION 3.25)

# Long suites start first, so that the run does not end with only one of them still running.
set(LONG_SUITES Programs/Commands DeferredAdamSteps Golden/ToyParity GoldenInDouble/ToyParity Optimizers/ExactRows
                Safetensors RowsLeftBehind ExampleOrder TrainingRun)
# These suites run alone: they fail if a thread has to wait for a processor.
set(SERIAL_SUITES SteadyStep)

# Adds a test called PREFIX + SUITE, with a label, for each gtest suite of a program. GTEST_FILTER selects tests.
function(add_suites program label prefix)
  if(NOT EXISTS "${program}")
    add_test("${prefix}tests_are_not_built" "${program}")
    set_tests_properties("${prefix}tests_are_not_built" PROPERTIES LABELS ${label})
    return()
  endif()
  execute_process(COMMAND "${program}" --gtest_list_tests OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE " *#[^\n]*" "" lines "${lines}")  # removes descriptions of parameters
  string(REPLACE "\n" ";" lines "${lines}")
  set(suites)
  foreach(line IN LISTS lines)
    if(line MATCHES "^([^ ]+)\\.$")
      set(suite ${CMAKE_MATCH_1})
      list(APPEND suites ${suite})
    elseif(line MATCHES "^  ([^ ]+)$")
      string(APPEND tests_of_${suite} "${suite}.${CMAKE_MATCH_1}:")
    endif()
  endforeach()
  foreach(suite IN LISTS suites)
    set(filter "${suite}.*")
    if(DEFINED ENV{GTEST_FILTER})
      set(filter "${tests_of_${suite}}")
    endif()
    add_test("${prefix}${suite}" "${program}" --gtest_brief=1 "--gtest_filter=${filter}")
    set_tests_properties("${prefix}${suite}" PROPERTIES LABELS ${label})
    if(suite IN_LIST LONG_SUITES)
      set_tests_properties("${prefix}${suite}" PROPERTIES COST 100)
    endif()
    if(suite IN_LIST SERIAL_SUITES)
      set_tests_properties("${prefix}${suite}" PROPERTIES RUN_SERIAL ON)
    endif()
  endforeach()
endfunction()
