#!/usr/bin/env bash
# Counts the instructions of small fixed workloads. Fails if a workload needs over 5 % more instructions than
# instructions.txt has. Unlike times, these counts do not depend on the machine and its load.
#   tests/instruction_counts/run.sh [--update]    --update rewrites instructions.txt
# ROWGRAD_BUILD names another build folder; the script appends `-counts` to it. ROWGRAD_COUNTS_BUILD names an existing
# build for x86-64-v3 with ROWGRAD_INSTRUCTION_COUNTS=ON, which saves building the library again.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../core/packaging/setup.sh"
source "$root/tests/support/expect.sh"
build=${ROWGRAD_COUNTS_BUILD:-$build-counts}
stored=$root/tests/instruction_counts/instructions.txt
program=$build/tests/instruction_counts/counted_workloads
allowed=5  # percent

update=
case ${1-} in
  --update) update=yes ;;
  ?*) echo "usage: tests/instruction_counts/run.sh [--update]" >&2 && exit 2 ;;
esac

if [[ $(uname -m) != x86_64 ]] || ! grep -qw avx2 /proc/cpuinfo; then
  skip "Instructions are not counted: this needs an x86-64 processor with AVX2."
fi

# count WORKLOAD: counts the instructions of counted_work() in a workload, and writes the count to $scratch/WORKLOAD.
count() {
  # Uses one thread, because two would divide the work differently each time. Uses OpenBLAS's kernel for AVX without
  # FMA, because valgrind emulates FMA value by value: with the Haswell kernel, it takes fifteen times as long.
  if ! OPENBLAS_CORETYPE=Sandybridge OMP_NUM_THREADS=1 valgrind --tool=callgrind \
    --toggle-collect=counted_work --callgrind-out-file=/dev/null "$program" "$1" \
    >"$scratch/$1.log" 2>&1; then
    cat "$scratch/$1.log" >&2
    return 1
  fi
  sed -nE 's/^==[0-9]+== Collected : ([0-9]+)$/\1/p' "$scratch/$1.log" >"$scratch/$1"
}

install_packages valgrind
# Builds for x86-64-v3, because valgrind 3.19 does not support AVX-512.
if [[ -z ${ROWGRAD_COUNTS_BUILD-} ]]; then
  configure -DROWGRAD_LEVELS=x86-64-v3 -DROWGRAD_INSTRUCTION_COUNTS=ON -DROWGRAD_TESTS=OFF -DROWGRAD_EXAMPLES=OFF
fi
compile counted_workloads

version=$("$program" --version)
mapfile -t workloads < <("$program")
running=()
for workload in "${workloads[@]}"; do
  count "$workload" &
  running+=($!)
  if ((${#running[@]} == $(nproc))); then
    wait "${running[0]}"
    running=("${running[@]:1}")
  fi
done
for process in "${running[@]}"; do wait "$process"; done

if [[ $update ]]; then
  {
    echo "# Instructions of each workload of workloads.cpp. Written by tests/instruction_counts/run.sh --update"
    echo "# with $version"
    for workload in "${workloads[@]}"; do echo "$workload $(<"$scratch/$workload")"; done
  } >"$stored.new"
  mv "$stored.new" "$stored"
  cat "$stored"
  exit
fi

failed=
fewer=
printf '%-20s %14s %14s\n' workload instructions before
for workload in "${workloads[@]}"; do
  now=$(<"$scratch/$workload")
  before=$(awk -v name="$workload" '$1 == name { print $2 }' "$stored")
  if [[ ! $before ]]; then
    printf '%-20s %14d %14s\n' "$workload" "$now" "(use --update)"
    failed=yes
    continue
  fi
  percent=$(awk -v now="$now" -v before="$before" 'BEGIN { printf "%+.2f", 100 * (now / before - 1) }')
  verdict=
  if ((now * 100 > before * (100 + allowed))); then
    verdict="  over $allowed % more"
    failed=yes
  elif ((now * 100 < before * (100 - allowed))); then
    fewer=yes
  fi
  printf '%-20s %14d %14d %8s %%%s\n' "$workload" "$now" "$before" "$percent" "$verdict"
done

[[ ! $fewer ]] || echo "A workload needs over $allowed % fewer instructions: store the counts with --update."
[[ $failed ]] || exit 0
if ! grep -qxF "# with $version" "$stored"; then
  echo "This is not a failure, because the versions differ: the counts were stored $(sed -n 's/^# with/with/p' "$stored")"
  echo "and this is $version."
  exit 0
fi
exit 1
