#!/usr/bin/env bash
# Compares the speed of packages at each processor level with a build for this processor. Prints medians of
# alternating rounds.
#   tests/bench/levels.sh [WORKLOAD...]      W1, W2-1k, W2-50k and W3 by default
# Builds native programs in build, and packages in build-packages with core/packaging/make.sh. Nothing else should run
# on the machine.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../core/packaging/setup.sh"

rounds=5
workloads=("$@")
(($#)) || workloads=(W1 W2-1k W2-50k W3)
for workload in "${workloads[@]}"; do
  grep -q "\"name\": \"$workload\"" "$root/tests/bench/workloads.json" ||
    { echo "levels.sh: $workload: expected a workload of tests/bench/workloads.json" >&2 && exit 2; }
done

configure -DROWGRAD_BENCHMARKS=ON
compile bench_workloads rowgrad_program
native=$build
ROWGRAD_BUILD=$root/build-packages "$root/core/packaging/make.sh" -DROWGRAD_BENCHMARKS=ON >/dev/null

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# run LEVEL PROGRAM [OPTION...]: runs the program at the level.
run() {
  local folder=$root/build-packages
  case $1 in
    native) folder=$native ;;
    x86-64-v3) export GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F ;;
    x86-64) export GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-AVX512F ;;
  esac
  "$folder/$2" "${@:3}"
}

# measure NAME LEVEL: measures one round, and prints its time in microseconds.
measure() {
  if [[ $1 == train ]]; then
    TIMEFORMAT=%R
    { time run "$2" bin/rowgrad train --sample-tokens 0 >/dev/null; } 2>&1 | awk '{ print $1 * 1e6 }'
  else
    run "$2" tests/bench/bench_workloads --workload "$1" --seconds 0.4 --json "$scratch/figures" >/dev/null
    sed -n 's/.*"median_us": \([0-9.e+]*\).*/\1/p' "$scratch/figures"
  fi
}

levels=(native x86-64-v4 x86-64-v3 x86-64)
grep -qw avx512bw /proc/cpuinfo || levels=(native x86-64-v3 x86-64)
echo "median of $rounds rounds; $(run native bin/rowgrad --version)"
for workload in "${workloads[@]}" train; do
  for ((round = 0; round < rounds; ++round)); do
    for level in "${levels[@]}"; do
      (measure "$workload" "$level" >>"$scratch/$workload-$level")
    done
  done
  for level in "${levels[@]}"; do
    sort -g "$scratch/$workload-$level" | sed -n "$(((rounds + 1) / 2))p"
  done | paste -sd ' ' | awk -v name="$workload" -v levels="${levels[*]}" '{
    split(levels, level, " ")
    printf "%-14s %s %.4g us", name, level[1], $1
    for (i = 2; i <= NF; ++i) printf ", %s %.3f x", level[i], $i / $1
    print ""
  }'
done
