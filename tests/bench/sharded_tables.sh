#!/usr/bin/env bash
# Measures sharded tables on ranks of this machine. Their network is a private loopback device, unlimited and limited
# to 1 Gbit/s. Compares W5 with a whole and with a sharded table, and a single table with the prediction of scaling.py.
#   tests/bench/sharded_tables.sh [ROWS]     rows of each head of W5's memory; 1000000 by default
# Must run as root. Nothing else should run on the machine. ROWGRAD_BUILD names another build folder.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../core/packaging/setup.sh"
configure -DROWGRAD_BENCHMARKS=ON
compile bench_sharded_table
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# on_ranks COUNT LIMIT ARGUMENT...: runs bench_sharded_table on COUNT ranks. LIMIT is a bandwidth such as 1gbit, or
# none.
on_ranks() {
  # shellcheck disable=SC2016
  unshare -n bash -c 'ip link set lo up
    [[ $2 == none ]] || tc qdisc add dev lo root tbf rate "$2" burst 256k latency 100ms
    exec mpirun --oversubscribe -n "$1" --mca btl tcp,self --mca btl_tcp_if_include lo "${@:3}"' \
    bash "$1" "$2" "$build/tests/bench/bench_sharded_table" "${@:3}"
}

# measured COUNT LIMIT: measures a single table, and prints the milliseconds of the fastest step.
measured() {
  on_ranks "$1" "$2" 1000000 | sed -n '1s/.*; \([0-9.e+]*\) ms.*/\1/p'
}

one=$(measured 1 none)
echo "A table of a million rows on one rank: $one ms per step"
for limit in none 1gbit; do
  on_ranks 2 "$limit" w5 "${1:-1000000}" | sed "s/^/limit $limit: /"
  bandwidth=125e6
  [[ $limit != none ]] || bandwidth=2e9
  for count in 2 3 4; do
    echo "limit $limit, $count ranks: $(measured "$count" "$limit") ms per step; predicted for" \
      "$(python3 "$root/tests/bench/scaling.py" --one-rank "$one" --bandwidth "$bandwidth" --latency 2e-5 |
        grep "^$count ")"
  done
done
