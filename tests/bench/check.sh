#!/usr/bin/env bash
# Checks that bench_workloads, whose path is the argument, measures, writes its figures, and refuses
# wrong options. Takes a second or two; says nothing about speed.
set -euo pipefail

program=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "check.sh: $1" >&2
  exit 1
}

# refuses MESSAGE OPTION...: the program must end with an error that has this message.
refuses() {
  local message=$1
  shift
  if "$program" "$@" >"$scratch/output" 2>&1; then fail "$* was taken"; fi
  grep -qF -- "$message" "$scratch/output" || fail "$*: said $(<"$scratch/output")"
}

"$program" --workload vocabulary-1000 --repeats 1 --warm-up 0 --threads 1 --floor --json "$scratch/figures.json"
for key in name vocabulary threads median_us tokens_per_second start_bytes peak_bytes blas \
  floor_us bytes_per_second; do
  grep -q "\"$key\":" "$scratch/figures.json" || fail "figures.json lacks $key"
done

refuses "--workload is required" --floor
refuses "--workload W9: expected one of " --workload W9
refuses "--threads 4096: expected at most " --workload W1 --threads 4096
refuses '--repeats: got "0", expected a whole number from 1 to ' --repeats 0
refuses '--seconds: got "nan", expected a number from 0 to 3600' --seconds nan
refuses "--repeats excludes --seconds" --workload W1 --repeats 1 --seconds 1
refuses "there is no folder" --workload W1 --json "$scratch/none/figures.json"
echo "bench_workloads measures, writes and refuses as it should"
