#!/usr/bin/env bash
# Runs the tests of functions that the headers call thread-safe, under ThreadSanitizer.
#   tests/thread_sanitizer.sh [-DOPTION=VALUE...]
# ROWGRAD_BUILD names another build folder.
set -euo pipefail
: "${ROWGRAD_BUILD:=$(dirname "${BASH_SOURCE[0]}")/../build-thread}"
source "$(dirname "${BASH_SOURCE[0]}")/../core/packaging/setup.sh"

install_packages
echo "Building rowgrad and its thread tests in $build"
configure -DROWGRAD_SANITIZE=thread -DROWGRAD_UNITY=ON -DROWGRAD_EXAMPLES=OFF \
  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" "$@"
compile tests_threads

# ThreadSanitizer needs a memory layout that address space randomization may prevent, hence setarch. One test forks,
# hence die_after_fork=0.
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:die_after_fork=0 ${TSAN_OPTIONS-}"
exec setarch --addr-no-randomize "$build/tests/tests_threads"
