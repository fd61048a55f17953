#!/usr/bin/env bash
# Counts the instructions of small fixed workloads, and fails if one needs over 5 % more than
# instructions.txt says. Times depend on the machine and on what else it does; these counts do not.
#   tests/instruction_counts/run.sh [--update]    --update writes instructions.txt anew
# ROWGRAD_BUILD names another build folder; `-counts` is added to it. ROWGRAD_COUNTS_BUILD names one that
# has been configured with the two options below, to save a build of the library.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../core/packaging/setup.sh"
source "$root/tests/support/expect.sh"
build=${ROWGRAD_COUNTS_BUILD:-$build-counts}
numbers=$root/tests/instruction_counts/instructions.txt
program=$build/tests/instruction_counts/counted_workloads
allowed=5  # percent

update=
case ${1-} in
  --update) update=yes ;;
  ?*) echo "usage: tests/instruction_counts/run.sh [--update]" >&2 && exit 2 ;;
esac

if [[ $(uname -m) != x86_64 ]] || ! grep -qw avx2 /proc/cpuinfo; then
  skip "Not counted: the numbers are those of an x86-64 processor with AVX2."
fi

# count WORKLOAD: the instructions of its counted_work(), into the file of its name.
count() {
  # Two threads would share the work differently every time. OpenBLAS's kernel is the one for AVX
  # without FMA, which valgrind computes number by number: Haswell's takes it fifteen times as long.
  if ! OPENBLAS_CORETYPE=Sandybridge OMP_NUM_THREADS=1 valgrind --tool=callgrind \
    --toggle-collect=counted_work --callgrind-out-file=/dev/null "$program" "$1" \
    >"$scratch/$1.log" 2>&1; then
    cat "$scratch/$1.log" >&2
    return 1
  fi
  sed -nE 's/^==[0-9]+== Collected : ([0-9]+)$/\1/p' "$scratch/$1.log" >"$scratch/$1"
}

install_packages valgrind
# x86-64-v3, for valgrind 3.19 knows no AVX-512.
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
  } >"$numbers.new"
  mv "$numbers.new" "$numbers"
  cat "$numbers"
  exit
fi

failed=
fewer=
printf '%-20s %14s %14s\n' workload instructions before
for workload in "${workloads[@]}"; do
  now=$(<"$scratch/$workload")
  before=$(awk -v name="$workload" '$1 == name { print $2 }' "$numbers")
  if [[ ! $before ]]; then
    printf '%-20s %14d %14s\n' "$workload" "$now" "none: run --update"
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

[[ ! $fewer ]] || echo "Over $allowed % fewer somewhere: tests/instruction_counts/run.sh --update would keep it so."
[[ $failed ]] || exit 0
if ! grep -qxF "# with $version" "$numbers"; then
  echo "That is no failure here, as the numbers were written $(sed -n 's/^# with/with/p' "$numbers")"
  echo "and this is $version."
  exit 0
fi
exit 1
