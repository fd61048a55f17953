#!/usr/bin/env bash
# What CI cannot afford: everything that looks for faults, for as long as it is worth, and all packages
# as users install them. Each part ends at the first fault, and says what it has done; tests/README.md
# has a table of what was run.
#   tests/campaign.sh [PART...]    crash, fuzz, threads, guard, packages, mutants; all of them if none is
#                                  named
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

crash() { tests/crash/run.sh 1000; }
fuzz() { tests/fuzz/run.sh 900; }
threads() { tests/thread_sanitizer.sh; }
guard() { tests/guard/run.sh; }
packages() {
  tests/package/reproduce.sh
  tests/package/levels.sh
  tests/package/chroot.sh bookworm build-packages
  tests/package/chroot.sh trixie
}

mutants() { tests/mutants/run.py build-mutants --jobs "$(nproc)"; }

all=(crash fuzz threads guard packages mutants)
parts=("$@")
((${#parts[@]})) || parts=("${all[@]}")
for part in "${parts[@]}"; do
  [[ " ${all[*]} " == *" $part "* ]] || { echo "usage: tests/campaign.sh [${all[*]}]..." >&2 && exit 2; }
done
for part in "${parts[@]}"; do
  printf '\n--- %s (after %d s)\n' "$part" "$SECONDS"
  "$part"
done
printf '\n--- all is well (after %d s)\n' "$SECONDS"
