#!/usr/bin/env bash
# Tests that bench_workloads, whose path is the argument, measures, writes its results, and rejects invalid options.
# Takes a second or two. Does not test speed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../support/expect.sh"
program=$1

ok "$program" --workload vocabulary-1000 --repeats 1 --warm-up 0 --threads 1 --floor --json "$scratch/figures.json"
for key in name vocabulary threads median_us tokens_per_second start_bytes peak_bytes blas \
  floor_us bytes_per_second; do
  grep -q "\"$key\":" "$scratch/figures.json" || fail "figures.json lacks $key"
done

rejects 1 "--workload is missing" "$program" --floor
rejects 1 "--workload W9: expected one of " "$program" --workload W9
rejects 1 "--threads 4096: expected at most " "$program" --workload W1 --threads 4096
rejects 1 '--repeats: got "0", expected a whole number from 1 to ' "$program" --repeats 0
rejects 1 '--seconds: got "nan", expected a number from 0 to 3600' "$program" --seconds nan
rejects 1 "--seconds cannot be used with --repeats" "$program" --workload W1 --repeats 1 --seconds 1
rejects 1 "there is no folder" "$program" --workload W1 --json "$scratch/none/figures.json"
echo "bench_workloads measures, writes its results, and rejects invalid options"
