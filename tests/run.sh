#!/usr/bin/env bash
# Installs missing packages, builds everything, and runs every test.
#   tests/run.sh [-DOPTION=VALUE...] [options of ctest]
# -R Softmax runs the suites whose names match Softmax; GTEST_FILTER='*/softmax:Schedule.*' selects single tests.
# ROWGRAD_BUILD names another build folder. examples/texts.sh provides the texts of the tests, The Verdict and
# GPT-2's vocabulary, from $ROWGRAD_DATA, the cache or the network.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../core/packaging/setup.sh"

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

if reason=$("$root/examples/texts.sh" "$build/texts" 2>&1 >/dev/null); then
  export ROWGRAD_DATA=$build/texts
else
  echo "Tests that need published texts are skipped: ${reason#texts.sh: }"
  unset ROWGRAD_DATA
fi

if [[ ${GTEST_FILTER-} ]] && ctest --test-dir "$build" -N -L '^(float|double)$' | grep -q '^Total Tests: 0$'; then
  echo "GTEST_FILTER: \"$GTEST_FILTER\" selects no tests" >&2
  exit 1
fi
log=$build/Testing/Temporary/LastTest.log
rm -f "$log"
status=0
ctest --test-dir "$build" --output-on-failure --no-tests=error -j "$(nproc)" "${ctest_options[@]}" || status=$?
[[ ! -f $log ]] || awk '
  /: Skipped$/ { getline reason; ++skipped[reason]; ++all }
  END {
    if (!all) exit
    printf "%d tests were skipped:", all
    for (reason in skipped) { printf "%s %d (%s)", separator, skipped[reason], reason; separator = ";" }
    print ""
  }' "$log"
exit "$status"
