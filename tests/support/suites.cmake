# Included by ctest.

cmake_policy(VERSION 3.25)

# These start first, so that none of them is the last one to end.
set(LONG_SUITES Programs/Commands DeferredAdamSteps Golden/ToyParity GoldenInDouble/ToyParity Optimizers/ExactRows
                Safetensors RowsLeftBehind ExampleOrder TrainingRun)
# These run alone: they fail where a thread has to wait for a processor.
set(LONELY_SUITES SteadyStep)

# Adds a test for each gtest suite of a program, with a label and its name after `prefix`. GTEST_FILTER leaves tests
# out.
function(add_suites program label prefix)
  if(NOT EXISTS "${program}")
    add_test("${prefix}tests_are_not_built" "${program}")
    set_tests_properties("${prefix}tests_are_not_built" PROPERTIES LABELS ${label})
    return()
  endif()
  execute_process(COMMAND "${program}" --gtest_list_tests OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE " *#[^\n]*" "" lines "${lines}")  # what the cases are made of
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
    if(suite IN_LIST LONELY_SUITES)
      set_tests_properties("${prefix}${suite}" PROPERTIES RUN_SERIAL ON)
    endif()
  endforeach()
endfunction()
