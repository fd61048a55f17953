#!/usr/bin/env bash
# Whether a memory of n-grams helps a GPT on a real text, the King James Bible (Debian's
# bible-kjv-text, whose text is in the public domain): trains it without a memory, with memories of
# three sizes by two policies, and in PyTorch with dense AdamW. Half an hour or more on two cores.
#   tests/bench/ngram_memory.sh [--steps N] [--times]
# Writes results.json, table.md and losses.svg to build/ngram_memory; runs that are there already are
# not made again (--times measures the times of steps again; nothing else should run then).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../core/packaging/setup.sh"

install_packages bible-kjv bible-kjv-text python3-torch python3-numpy python3-matplotlib
configure -DROWGRAD_EXAMPLES=ON
compile rowgrad_program
output=$build/ngram_memory
mkdir -p "$output"
# Each verse stands after its number, as "Ge1:1 ", which goes.
bible -f gen1:1-rev22:21 | sed 's/^[^ ]* //' >"$output/kjv.txt"
[[ -e $output/kjv.bin ]] ||
  "$build/bin/rowgrad" tokenize --tokenizer bpe --vocabulary 2048 --corpus "$output/kjv.txt" \
    --save "$output/bpe.json" --output "$output/kjv.bin" "$output/kjv.txt"
# Python must not leave compiled scripts in the source folder.
export PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3 "$root/tests/bench/ngram_memory.py" --program "$build/bin/rowgrad" \
  --tokens "$output/kjv.bin" --tokenizer "$output/bpe.json" --output "$output" "$@"
