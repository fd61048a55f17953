#!/usr/bin/env bash
# Runs, under ThreadSanitizer, the tests of what the headers call safe from several threads.
#   tests/thread_sanitizer.sh [-DOPTION=VALUE...]
# ROWGRAD_BUILD names another build folder.
set -euo pipefail
: "${ROWGRAD_BUILD:=$(dirname "${BASH_SOURCE[0]}")/../build-thread}"
source "$(dirname "${BASH_SOURCE[0]}")/../core/packaging/setup.sh"

install_packages
echo "Building rowgrad and the tests of threads in $build"
configure -DROWGRAD_SANITIZE=thread -DROWGRAD_UNITY=ON -DROWGRAD_EXAMPLES=OFF \
  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" "$@"
compile tests_threads

# The sanitizer wants memory where a kernel that places it at random may not put it, hence setarch.
# One test forks.
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:die_after_fork=0 ${TSAN_OPTIONS-}"
exec setarch --addr-no-randomize "$build/tests/tests_threads"
