#!/usr/bin/env bash
# Measures how much an n-gram memory helps a GPT on a real text, the King James Bible (in the public domain; Debian's
# bible-kjv-text). Trains the GPT without a memory, with memories of three sizes and two update policies, and in
# PyTorch with dense AdamW. Takes half an hour or more on two cores.
#   tests/bench/ngram_memory.sh [--steps N] [--times]
# Writes results.json, table.md and losses.svg to build/ngram_memory. Runs with results in results.json are not
# repeated; --times only measures their times per step again. Nothing else should run on the machine.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../core/packaging/setup.sh"

install_packages bible-kjv bible-kjv-text python3-torch python3-numpy python3-matplotlib
configure -DROWGRAD_EXAMPLES=ON
compile rowgrad_program
output=$build/ngram_memory
mkdir -p "$output"
# Removes the number before each verse, such as "Ge1:1 ".
bible -f gen1:1-rev22:21 | sed 's/^[^ ]* //' >"$output/kjv.txt"
[[ -e $output/kjv.bin ]] ||
  "$build/bin/rowgrad" tokenize --tokenizer bpe --vocabulary 2048 --corpus "$output/kjv.txt" \
    --save "$output/bpe.json" --output "$output/kjv.bin" "$output/kjv.txt"
# Keeps Python from writing compiled scripts to the source folder.
export PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3 "$root/tests/bench/ngram_memory.py" --program "$build/bin/rowgrad" \
  --tokens "$output/kjv.bin" --tokenizer "$output/bpe.json" --output "$output" "$@"
