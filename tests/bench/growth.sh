#!/usr/bin/env bash
# Measures how the cost of a step grows with the vocabulary, the tokens of a step, the width and the
# threads: compare.sh without PyTorch, with its options, for each of the four sweeps. (With PyTorch:
# compare.sh --sweep NAME.)
set -euo pipefail

for sweep in vocabulary tokens width threads; do
  "$(dirname "${BASH_SOURCE[0]}")/compare.sh" "$@" --alone --sweep "$sweep"
  echo
done
