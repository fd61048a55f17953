#!/usr/bin/env bash
# Builds the tests with AddressSanitizer and UndefinedBehaviorSanitizer, and runs them.
#   tests/sanitized.sh            all tests except those that would take hours; a part of campaign.sh
#   tests/sanitized.sh --core     the tests of core/ and of the fuzzing corpora; a part of .ci/run
# ROWGRAD_BUILD names another build folder; the script appends `-sanitized` to it.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../core/packaging/setup.sh"
source "$root/tests/support/clang.sh"

case ${1-} in
  "") target=tests_float ;;
  --core) target=tests_core ;;
  *) echo "usage: tests/sanitized.sh [--core]" >&2 && exit 2 ;;
esac
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export ASAN_OPTIONS=exitcode=99  # differs from the exit status of a program that rejects its input

build=$build-sanitized
find_clang
CXX=$compiler configure -DCMAKE_BUILD_TYPE=Debug -DROWGRAD_SANITIZE=ON \
  -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1 -D_GLIBCXX_ASSERTIONS -fno-sanitize-recover=all"
compile "$target"

# Tests that measure time, and a test in which sizes in xtensor overflow. With --core, also the longest tests.
left_out=(IsCheckedForTensorsPassed RejectsValuesThatItCouldNot InProportion InLinear)
if [[ $target == tests_core ]]; then
  left_out+=(UsesNoListForMoreExamples DetectsEveryFlippedBit)
else
  # The longest runs repeat the same step, and their large buffers take minutes. Other tests limit the memory of a
  # program.
  left_out+=(toy_gpt2 RowsLeftBehind AreExactAfterAnyAbsence AnUntrainedGpt AwayFor100000 AStepCostsTheRowsLookedUp
    ExitIfMemoryRunsOut Too_little_memory The_programs_of_the_READMEs)
fi
program=$build/tests/$target
for name in "${left_out[@]}"; do
  [[ $("$program" --gtest_list_tests --gtest_filter="*$name*") == *" "* ]] ||
    { echo "sanitized.sh leaves out a test that does not exist: $name" >&2 && exit 1; }
done
filter=-$(printf '*%s*:' "${left_out[@]}")
if [[ $target == tests_float ]]; then
  GTEST_FILTER=$filter ctest --test-dir "$build" --output-on-failure --no-tests=error -j "$(nproc)" -L '^float$'
  exit
fi
shards=()
for ((shard = 0; shard < $(nproc); ++shard)); do
  GTEST_TOTAL_SHARDS=$(nproc) GTEST_SHARD_INDEX=$shard "$program" --gtest_brief=1 --gtest_filter="$filter" &
  shards+=($!)
done
for shard in "${shards[@]}"; do wait "$shard"; done
