#!/usr/bin/env bash
# Measures rowgrad and PyTorch side by side: builds, installs PyTorch and matplotlib if need be, and
# runs each workload in turn with rowgrad, with PyTorch as installed, and with PyTorch at its best.
#   tests/bench/compare.sh [--rounds N] [--workload NAME] [--output FOLDER] …; --help lists them
# With --alone, rowgrad and its floor only, and PyTorch is not needed.
# Writes a table, a JSON file and a plot. Nothing else should run on the machine.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../core/packaging/setup.sh"

torch=python3-torch
for option; do
  [[ $option != --alone ]] || torch=
done
install_packages ${torch:+"$torch"} python3-matplotlib
configure -DROWGRAD_BENCHMARKS=ON -DROWGRAD_EXAMPLES=ON
compile bench_workloads
# Python must not leave compiled scripts in the source folder.
export PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3 "$root/tests/bench/compare.py" \
  --program "$build/tests/bench/bench_workloads" --output "$build/bench" "$@"
