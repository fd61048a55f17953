#!/usr/bin/env bash
# Measures how the time of a step depends on the vocabulary, the tokens per step, the width, the classes of a sampled
# softmax, and the threads. Runs compare.sh without PyTorch for each of these sweeps, and passes its options on to
# compare.sh. (compare.sh --sweep NAME also measures PyTorch, which has no sampled softmax.)
set -euo pipefail

for sweep in vocabulary tokens width classes threads; do
  "$(dirname "${BASH_SOURCE[0]}")/compare.sh" "$@" --alone --sweep "$sweep"
  echo
done
