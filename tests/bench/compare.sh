#!/usr/bin/env bash
# Compares the speed of rowgrad and PyTorch. Builds, installs PyTorch and matplotlib if they are missing, and runs
# each workload alternately with rowgrad, PyTorch as installed, and PyTorch with its best settings.
#   tests/bench/compare.sh [--rounds N] [--workload NAME] [--output FOLDER] …; --help lists the options
# --alone measures only rowgrad and its floor (the time of the bare work), without PyTorch.
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
# Keeps Python from writing compiled scripts to the source folder.
export PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3 "$root/tests/bench/compare.py" \
  --program "$build/tests/bench/bench_workloads" --output "$build/bench" "$@"
