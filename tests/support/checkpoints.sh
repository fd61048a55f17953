# shellcheck shell=bash
# Compares checkpoints of train; to be sourced after expect.sh.

# numbers FILE: all of a checkpoint but the times in its history, which no two runs share, and what it
# was computed with, and the checksum.
numbers() {
  local length header begin end
  length=$(od -A n -t u8 -N 8 "$1")
  header=$(tail -c +9 "$1" | head -c "$length")
  read -r begin end < <(sed -nE 's/.*"history.tokens_per_second":\{[^}]*"data_offsets":\[([0-9]+),([0-9]+)\].*/\1 \2/p' \
    <<<"$header")
  sed -E 's/"(arithmetic|rowgrad_checksum)":"[^"]*",?//g; s/ *$//' <<<"$header"
  tail -c +"$((9 + length))" "$1" | head -c "$begin"
  tail -c +"$((9 + length + end))" "$1"
}

expect_same_numbers() {
  same <(numbers "$1") <(numbers "$2")
}
