#!/usr/bin/env bash
# Measures the workloads, medians of several runs, and PyTorch's beside them where it is installed
# (Debian: python3-torch). Nothing else should run on the machine.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../examples/setup.sh"

install_packages libbenchmark-dev
configure -DROWGRAD_BENCHMARKS=ON
compile bench_workloads
"$build/tests/bench/bench_workloads" --benchmark_repetitions=5 \
  --benchmark_report_aggregates_only=true "$@" 2>&1 | grep -E 'blas|median'
if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
  /usr/bin/python3 "$root/tests/bench/torch_workloads.py"
fi
