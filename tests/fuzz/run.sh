#!/usr/bin/env bash
# Fuzzes the readers of files with libFuzzer, under AddressSanitizer and UndefinedBehaviorSanitizer. Fails at the
# first finding.
#   tests/fuzz/run.sh [SECONDS [TARGET...]]    10 seconds for each target by default; one target per processor
# Findings are crashes, unexpected exceptions, long messages, inputs that take more than a second, memory use above a
# small multiple of the input (fuzzing.cpp), and differences that a target detects.
# The first inputs are in tests/fuzz/corpus. The build folder keeps inputs that reach new code.
# CXX selects another clang. ROWGRAD_BUILD names another build folder; the script appends `-fuzz` to it.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../core/packaging/setup.sh"
source "$root/tests/support/clang.sh"
build=$build-fuzz

seconds=${1:-10}
if [[ ! $seconds =~ ^[0-9]+$ ]]; then
  echo "usage: tests/fuzz/run.sh [SECONDS [TARGET...]]" >&2
  exit 2
fi
targets=("${@:2}")
if ((${#targets[@]} == 0)); then
  for corpus in "$root"/tests/fuzz/corpus/*; do targets+=("${corpus##*/}"); done
fi

install_packages
find_clang
CXX=$compiler configure -DROWGRAD_FUZZ=ON -DROWGRAD_TESTS=OFF -DROWGRAD_EXAMPLES=ON -DROWGRAD_SANITIZE=ON \
  -DROWGRAD_UNITY=ON -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1 -D_GLIBCXX_ASSERTIONS -fsanitize=fuzzer-no-link -fno-sanitize-recover=all"
compile fuzz_targets

# These limits stop inputs that hang or use all memory; the targets have lower limits.
options=(-timeout=60 -rss_limit_mb=2048 -malloc_limit_mb=64 -print_final_stats=1 -len_control=20
  -dict="$root/tests/fuzz/json.dict" -max_total_time="$seconds")
export OMP_NUM_THREADS=1 UBSAN_OPTIONS=print_stacktrace=1
export ASAN_OPTIONS=quarantine_size_mb=16:allocator_release_to_os_interval_ms=-1
printf '%-16s %12s %9s\n' target inputs "a second"
fuzz() {
  local target=$1 folder=$build/fuzz/$1 input
  mkdir -p "$folder/corpus"
  if ! "$build/tests/fuzz/fuzz_$target" "${options[@]}" -artifact_prefix="$folder/" \
    "$folder/corpus" "$root/tests/fuzz/corpus/$target" >"$folder/log" 2>&1; then
    grep -vE '^#[0-9]' "$folder/log" | tail -n 60 >&2
    input=$(sed -n 's/.*Test unit written to //p' "$folder/log")
    echo "fuzz_$target failed${input:+ with the input $input}; see $folder/log" >&2
    return 1
  fi
  awk -v target="$target" '$1 ~ /number_of_executed_units/ { inputs = $2 }
    $1 ~ /average_exec_per_sec/ { rate = $2 }
    END { printf "%-16s %12d %9d\n", target, inputs, rate }' "$folder/log"
}
# Runs one target per processor; the next target starts when one ends.
running=0
for target in "${targets[@]}"; do
  if ((running++ >= $(nproc))); then wait -n; fi
  fuzz "$target" &
done
while ((running-- > 0)) && [[ $(jobs -p) ]]; do wait -n; done
