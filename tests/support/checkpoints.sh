# shellcheck shell=bash disable=SC2154
# Compares checkpoints of train; to be sourced after expect.sh.

# numbers FILE: all of a checkpoint but the times in its history, which no two runs share, and what it
# was computed with, and the checksum.
numbers() {
  local length header begin end
  length=$(od -A n -t u8 -N 8 "$1")
  header=$(head -c "$((8 + length))" "$1" | tail -c +9)
  read -r begin end < <(sed -nE 's/.*"history.tokens_per_second":\{[^}]*"data_offsets":\[([0-9]+),([0-9]+)\].*/\1 \2/p' \
    <<<"$header")
  sed -E 's/"(arithmetic|rowgrad_checksum)":"[^"]*",?//g; s/ *$//' <<<"$header"
  head -c "$((8 + length + begin))" "$1" | tail -c +"$((9 + length))"
  tail -c +"$((9 + length + end))" "$1"
}

expect_same_numbers() {
  numbers "$1" >"$scratch/first.numbers"
  numbers "$2" >"$scratch/second.numbers"
  same "$scratch/first.numbers" "$scratch/second.numbers"
}
