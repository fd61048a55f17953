#!/usr/bin/env bash
set -euxo pipefail

# A report's page has dygraphs in it, and its license.
cp dygraphs/LICENSE.txt dygraphs/dist/

# The levels stand behind conda's own -march, and so prevail.
# shellcheck disable=SC2086  # CMAKE_ARGS are several
cmake -S . -B build -G Ninja ${CMAKE_ARGS:-} \
  -DCMAKE_BUILD_TYPE=Release \
  "-DROWGRAD_LEVELS=x86-64;x86-64-v3;x86-64-v4" \
  -DROWGRAD_TESTS=OFF \
  -DROWGRAD_EXAMPLES=ON \
  -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON \
  -DCMAKE_REQUIRE_FIND_PACKAGE_ZLIB=ON \
  -DDYGRAPHS_FOLDER="$SRC_DIR/dygraphs/dist" \
  -DOPENBLAS_INCLUDE_DIR="$PREFIX/include"
cmake --build build --parallel "${CPU_COUNT:-1}"
cmake --install build
