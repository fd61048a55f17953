#!/usr/bin/env bash
# What CI cannot afford: everything that looks for faults, for as long as it is worth. Each part ends
# at the first fault, and says what it has done; tests/README.md has a table of what was run.
#   tests/campaign.sh [PART...]    crash, fuzz, threads; all of them if none is named
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

crash() { tests/crash/run.sh 1000; }
fuzz() { tests/fuzz/run.sh 900; }
threads() { tests/thread_sanitizer.sh; }

parts=("$@")
((${#parts[@]})) || parts=(crash fuzz threads)
for part in "${parts[@]}"; do
  case $part in
    crash | fuzz | threads) ;;
    *) echo "usage: tests/campaign.sh [crash] [fuzz] [threads]" >&2 && exit 2 ;;
  esac
done
for part in "${parts[@]}"; do
  printf '\n--- %s (after %d s)\n' "$part" "$SECONDS"
  "$part"
done
printf '\n--- all is well (after %d s)\n' "$SECONDS"
