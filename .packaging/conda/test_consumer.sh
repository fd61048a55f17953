#!/usr/bin/env bash
# Builds the program of somebody who has rowgrad installed, by CMake and by pkg-config, for each type
# of numbers, and runs it.
set -euxo pipefail

# shellcheck disable=SC2086  # CMAKE_ARGS are several
cmake -S consumer -B build -G Ninja ${CMAKE_ARGS:-} -DCMAKE_BUILD_TYPE=Release \
  "-DPROGRAM=$PWD/tests/package/main.cpp"
cmake --build build
for library in rowgrad rowgrad_double; do
  "build/with_$library"

  read -ra flags <<<"$(pkg-config --cflags --libs "$library")"
  # shellcheck disable=SC2086  # so are conda's flags
  "$CXX" ${CXXFLAGS:-} -std=c++20 tests/package/main.cpp -o "with_$library" "${flags[@]}" ${LDFLAGS:-}
  "./with_$library"
done
