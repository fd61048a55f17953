#!/usr/bin/env bash
# Installs what is missing, builds everything, and runs every test.
#   tests/run.sh [-DOPTION=VALUE...] [options of ctest]
# ROWGRAD_BUILD names another build folder; ROWGRAD_DATA a folder with The Verdict and GPT-2's files.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../.setup.sh"

cmake_options=()
ctest_options=()
for option; do
  case $option in
    -D*) cmake_options+=("$option") ;;
    *) ctest_options+=("$option") ;;
  esac
done

install_packages
echo "Building rowgrad and its tests in $build"
configure "${cmake_options[@]}"
compile
exec ctest --test-dir "$build" --output-on-failure -j "$(nproc)" "${ctest_options[@]}"
