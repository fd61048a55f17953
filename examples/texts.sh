#!/usr/bin/env bash
# Downloads published files for programs and tests: The Verdict, GPT-2's vocabulary, and GPT-2's weights.
#   examples/texts.sh                 to the cache, $XDG_CACHE_HOME/rowgrad or ~/.cache/rowgrad, where programs
#                                     find them; skips files in $ROWGRAD_DATA
#   examples/texts.sh FOLDER          to FOLDER, from $ROWGRAD_DATA, the cache or the network
#   examples/texts.sh --gpt2 FOLDER   GPT-2's weights (548 MB) to FOLDER, for the option --gpt2 FOLDER
# Existing files are used, and downloads are kept, if their SHA-256 matches. ROWGRAD_OFFLINE=1 prevents downloads. A
# failed download is not repeated for ten minutes, so that programs do not wait for a missing network again.
set -euo pipefail

fail() {
  printf 'texts.sh: %s\n' "$1" >&2
  exit 1
}

# is_file PATH SHA256: succeeds if the file exists and has this checksum.
is_file() { [[ -f $1 && $(sha256sum <"$1") == "$2 "* ]]; }

# download TITLE PATH URL SHA256: downloads a file to PATH, or fails if its checksum differs.
download() {
  local reason part=$2.$$.tmp unavailable="$1 is neither in \$ROWGRAD_DATA nor in ${2%/*}:"
  [[ ${ROWGRAD_OFFLINE:-0} == 0 ]] || fail "$unavailable ROWGRAD_OFFLINE prevents its download"
  [[ ! $(find "$2.failed" -mmin -10 2>/dev/null) ]] ||
    fail "$unavailable its download failed less than ten minutes ago ($(<"$2.failed"))"
  command -v curl >/dev/null || fail "$unavailable curl is not installed"
  mkdir -p "${2%/*}"
  if ! reason=$(curl --fail --silent --show-error --location --proto =https --max-redirs 5 --connect-timeout 3 \
    --speed-limit 100 --speed-time 10 --output "$part" "$3" 2>&1); then
    reason=${reason:-curl failed}
  elif ! is_file "$part" "$4"; then
    reason="$3 no longer has the expected SHA-256"
  else
    mv "$part" "$2"
    rm -f "$2.failed"
    echo "$1, downloaded from $3, saved as $2"
    return
  fi
  rm -f "$part"
  echo "$reason" >"$2.failed"
  fail "$unavailable its download failed ($reason)"
}

if [[ ${1-} == --gpt2 && ${2-} ]]; then
  sha256=248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707
  is_file "$2/model.safetensors" $sha256 || download "GPT-2's weights" "$2/model.safetensors" \
    https://huggingface.co/openai-community/gpt2/resolve/607a30d783dfa663caf39e06633721c8d4cfcd7e/model.safetensors \
    $sha256
  exit
fi
if [[ ${1-} == --help ]]; then
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit
fi
folder=${1-}
[[ $folder != -* && ! ${2-} ]] || fail "usage: texts.sh [FOLDER], or texts.sh --gpt2 FOLDER"
[[ -z ${ROWGRAD_DATA-} || -d $ROWGRAD_DATA ]] || fail "\$ROWGRAD_DATA: got $ROWGRAD_DATA, expected a folder"

cache=${HOME:+$HOME/.cache/rowgrad}
[[ ${XDG_CACHE_HOME-} != /* ]] || cache=$XDG_CACHE_HOME/rowgrad
cache=${cache:-$folder}
[[ $cache ]] || fail "without \$HOME, there is no cache; pass a folder"

# provide TITLE NAME URL SHA256: ensures that the folder or the cache has a file, and downloads it if necessary.
provide() {
  local path=${ROWGRAD_DATA:-$cache}/$2
  if [[ ! $folder && ${ROWGRAD_DATA-} && -s $path ]]; then return; fi
  is_file "$path" "$4" || path=$cache/$2
  is_file "$path" "$4" || download "$1" "$path" "$3" "$4"
  if [[ $folder && ! $path -ef $folder/$2 ]]; then
    mkdir -p "$folder"
    cp "$path" "$folder/$2"
    echo "$1, from $path"
  fi
}
provide "The Verdict" the-verdict.txt \
  https://raw.githubusercontent.com/rasbt/LLMs-from-scratch/main/ch02/01_main-chapter-code/the-verdict.txt \
  b41e41a68f0398a3154ae69e2e4c0e2694e17fe0d66730536837f1b01935b31f
provide "GPT-2's vocab.bpe" vocab.bpe \
  https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/vocab.bpe \
  1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5
provide "GPT-2's encoder.json" encoder.json \
  https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/encoder.json \
  196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783
