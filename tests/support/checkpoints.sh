# shellcheck shell=bash disable=SC2154
# Compares checkpoints of rowgrad train; source it after expect.sh.

# comparable FILE: prints a checkpoint without the parts that differ between equal runs: the speeds in its history, the
# hardware and libraries that computed it, and the checksum.
comparable() {
  local length header begin end
  length=$(od -A n -t u8 -N 8 "$1")
  header=$(head -c "$((8 + length))" "$1" | tail -c +9)
  read -r begin end < <(sed -nE 's/.*"history.tokens_per_second":\{[^}]*"data_offsets":\[([0-9]+),([0-9]+)\].*/\1 \2/p' \
    <<<"$header")
  sed -E 's/"(arithmetic|rowgrad_checksum)":"[^"]*",?//g; s/ *$//' <<<"$header"
  head -c "$((8 + length + begin))" "$1" | tail -c +"$((9 + length))"
  tail -c +"$((9 + length + end))" "$1"
}

# expect_same_checkpoint FIRST SECOND: expects two checkpoints of equal runs.
expect_same_checkpoint() {
  comparable "$1" >"$scratch/first.comparable"
  comparable "$2" >"$scratch/second.comparable"
  same "$scratch/first.comparable" "$scratch/second.comparable"
}
