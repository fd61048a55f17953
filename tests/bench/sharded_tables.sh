#!/usr/bin/env bash
# Sharded tables over ranks of this machine, whose network is a loopback of its own, without a limit and with 1 Gbit/s:
# W5 with a whole table and a sharded one, and a table alone beside what scaling.py expects. As root, and best alone.
#   tests/bench/sharded_tables.sh [ROWS]     # of each head of W5's memory: 1000000
# ROWGRAD_BUILD names another build folder.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../core/packaging/setup.sh"
configure -DROWGRAD_BENCHMARKS=ON
compile bench_sharded_table
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# on_ranks COUNT LIMIT ARGUMENT...: with a limit such as 1gbit, or none
on_ranks() {
  # shellcheck disable=SC2016
  unshare -n bash -c 'ip link set lo up
    [[ $2 == none ]] || tc qdisc add dev lo root tbf rate "$2" burst 256k latency 100ms
    exec mpirun --oversubscribe -n "$1" --mca btl tcp,self --mca btl_tcp_if_include lo "${@:3}"' \
    bash "$1" "$2" "$build/tests/bench/bench_sharded_table" "${@:3}"
}

# measured COUNT LIMIT: milliseconds of the fastest step of a table alone
measured() {
  on_ranks "$1" "$2" 1000000 | sed -n '1s/.*; \([0-9.e+]*\) ms.*/\1/p'
}

one=$(measured 1 none)
echo "A table of a million rows, on one rank: $one ms a step"
for limit in none 1gbit; do
  on_ranks 2 "$limit" w5 "${1:-1000000}" | sed "s/^/limit $limit: /"
  bandwidth=125e6
  [[ $limit != none ]] || bandwidth=2e9
  for count in 2 3 4; do
    echo "limit $limit, $count ranks: $(measured "$count" "$limit") ms a step; on paper" \
      "$(python3 "$root/tests/bench/scaling.py" --one-rank "$one" --bandwidth "$bandwidth" --latency 2e-5 |
        grep "^$count ")"
  done
done
