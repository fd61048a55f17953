#!/usr/bin/env bash
# What a crash leaves on the disk. Training runs that save after every step are killed (SIGKILL) at
# random moments: each time there must be a whole checkpoint and a whole report, and the run that goes
# on from it must end with the bits of one that was never stopped, and have one log of all its steps. So it
# is with a table in a file.
# Then what cannot be written: a full disk, a limit of sizes, a folder that is or becomes read-only,
# /dev/full. Each is to be a clear error that leaves the old file as it was. Of two writers, each file is
# whole.
#   tests/durability/run.sh [KILLS]    30 if not given, and a third as many of a table in a file
# As root, or where user namespaces are allowed, with file systems of its own; else these are left
# out, and it says so. ROWGRAD_BUILD names another build folder.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../core/packaging/setup.sh"
kills=${1-30}
[[ $kills =~ ^[0-9]+$ ]] || { echo "usage: tests/durability/run.sh [KILLS]" >&2 && exit 2; }

# Mounts are made in a name space that ends with this script, and with them all that they hold.
if [[ -z ${ROWGRAD_CRASH_MOUNTS-} ]]; then
  configure
  compile rowgrad_program
  for as_root in "" --map-root-user; do
    # shellcheck disable=SC2086
    if unshare --mount $as_root mount -t tmpfs none /tmp 2>/dev/null; then
      # shellcheck disable=SC2086
      ROWGRAD_CRASH_MOUNTS=yes exec unshare --mount $as_root "${BASH_SOURCE[0]}" "$@"
    fi
  done
  ROWGRAD_CRASH_MOUNTS=no
fi

source "$root/tests/support/expect.sh"
source "$root/tests/support/checkpoints.sh"
trap 'umount --lazy "$scratch/disk" 2>/dev/null || true; finish' EXIT
PATH=$build/bin:$PATH
cd "$scratch"
mkdir runs disk

# Words under momentum and decay: most rows of the table are stale at any time.
run=(rowgrad train --corpus "$root/examples/data/the-slow-clock.txt"
  --tokenizer word --context 8 --stride 8 --batch 16 --width 8 --window 2 --hidden 8
  --optimizer rmsprop --momentum 0.5 --schedule cosine --sample-tokens 0 --threads 1)
short=("${run[@]}" --epochs 3)
endless=("${run[@]}" --epochs 1000000)

# expect_whole_page FILE: it ends, and so do the data in it.
expect_whole_page() {
  [[ $(tail -n 1 "$1") == "</html>" ]] || fail "$1 is cut off"
  local data
  data=$(sed -n 's/.*<script type="application\/gzip" id="data">\([^<]*\).*/\1/p' "$1" | base64 -d | gunzip) ||
    fail "the data of $1 are not whole"
  [[ $data == "{"*"}" ]] || fail "the data of $1 are cut off"
}

# contents LOG: curves, evaluations and rows, without times.
contents() {
  rowgrad report "$1" --data /dev/stdout | sed -E 's/"run":\{.*"tables":/"tables":/; s/"speed":\[[^]]*\]//'
}

# expect_whole_log FILE: it is one log, with all that the reference has.
expect_whole_log() {
  equal "$(grep -c '^{"event":"run"' "$1")" 1
  contents "$1" >first.contents
  contents runs/reference.log >second.contents
  same first.contents second.contents
}

# expect_same_run FIRST SECOND: all but what --report keeps.
expect_same_run() {
  ok rowgrad compare "$1" "$2"
}

# run_and_kill MICROS COMMAND...: kills it within that time, unless it ends before; its status is in
# `status`.
run_and_kill() {
  local delay=$((SRANDOM % $1))
  shift
  "$@" >"$log" 2>&1 &
  sleep "$(printf '%d.%06d' $((delay / 1000000)) $((delay % 1000000)))"
  kill -9 $! 2>/dev/null || true
  status=0
  wait $! 2>/dev/null || status=$?
}

# --- Killed -------------------------------------------------------------------------------------
# kill_runs KILLS COMMAND...: three epochs, from where the run before was killed, until so many were. The
# fourth one reads all that they have left, each row of a table, too.
kill_runs() {
  local kills=$1 started=${EPOCHREALTIME/./} micros resume left
  shift
  ok "$@" --epochs 3 --save runs/reference
  micros=$((${EPOCHREALTIME/./} - started))
  [[ ! -e runs/page.log ]] || cp runs/page.log runs/reference.log
  ok "$@" --epochs 4 --resume runs/reference --save runs/longer
  rm -f runs/table* runs/page*
  killed=0 in_a_save=0 ended=0 pages=0
  while ((killed < kills)); do
    resume=()
    [[ ! -e runs/ck ]] || resume=(--resume runs/ck)
    run_and_kill "$micros" "$@" --epochs 3 --save runs/ck "${resume[@]}"
    case $status in
      0)  # it was faster
        ended=$((ended + 1))
        expect_same_run runs/reference runs/ck
        left=$(find runs -type f ! -name ck ! -name 'page*' ! -name 'reference*' ! -name longer ! -name table \
          ! -name 'table.undo-*'; find runs -name 'table.undo-*' | tail -n +3)
        [[ ! $left ]] || fail "there are files left: $left"
        if [[ " $* " == *" --report "* ]]; then
          expect_whole_page runs/page
          expect_whole_log runs/page.log
        fi
        rm -f runs/ck runs/table* runs/page*
        ;;
      137)
        killed=$((killed + 1))
        [[ -z $(find runs -name '*.tmp') ]] || in_a_save=$((in_a_save + 1))
        # A table would be taken back here, where nothing kills that.
        [[ ! -e runs/ck || -e runs/table ]] || ok rowgrad train --resume runs/ck --stop-after 1 --sample-tokens 0
        if [[ -e runs/page ]]; then
          expect_whole_page runs/page
          pages=$((pages + 1))
        fi
        ;;
      *) fail "status $status after kill $killed" ;;
    esac
  done
  resume=()
  [[ ! -e runs/ck ]] || resume=(--resume runs/ck)
  ok "$@" --epochs 3 --save runs/ck "${resume[@]}"
  expect_same_run runs/reference runs/ck
  [[ " $* " != *" --report "* ]] || expect_whole_log runs/page.log
  ok "$@" --epochs 4 --save runs/ck --resume runs/ck
  expect_same_run runs/longer runs/ck
  echo "$killed kills, $in_a_save of them in the midst of a save, $ended runs to their end:"
  rm -rf runs/*
}

kill_runs "$kills" "${run[@]}" --save-every 1 --report runs/page
echo "always a whole checkpoint, always the bits of a run that was never stopped; $pages whole reports"

# Larger than the memory that the process may have. Most of its rows have deferred updates at any time, too.
ngrams=(bash -c 'ulimit -d 500000; exec "$@"' limited rowgrad train --model gpt
  --corpus "$root/examples/data/the-slow-clock.txt" --context 32 --stride 32 --batch 32 --width 32 --heads 1
  --layers 1 --ngrams '1,2,3' --ngram-heads 1 --ngram-width 32 --ngram-layers 0 --validation 0
  --evaluate-every 0 --sample-tokens 0 --save-every 5)
kill_runs $(((kills + 2) / 3)) "${ngrams[@]}" --ngram-rows 33333333 --ngram-file runs/table
echo "always the bits of a run that was never stopped, and of its table in a file, of 42 GB"

# --- What cannot be written ---------------------------------------------------------------------
# expect_old_file FILE: it is what it was, and the only one in its folder but for what filled that.
expect_old_file() {
  same "$1" old
  local file
  for file in "$(dirname "$1")"/*; do
    [[ $file == "$1" || $file == */filler ]] || fail "$file is left"
  done
}

ok "${run[@]}" --stop-after 2 --save old

cp old runs/ck
# Past the limit a write fails like that on a full disk, if the signal is ignored.
rejects 1 "cannot write .*File too large" \
  bash -c 'trap "" XFSZ; ulimit -f 64; exec "$@"' limited "${short[@]}" --save runs/ck
expect_old_file runs/ck
echo "a limit of sizes: an error, the old file intact"

for option in --save --metrics --json; do
  rejects 1 "cannot write /dev/full: No space left" "${run[@]}" --stop-after 2 $option /dev/full
done
rejects 1 "cannot write to standard output" \
  bash -c '"$@" >/dev/full' full "${run[@]}" --stop-after 2
echo "/dev/full: errors"

"${endless[@]}" --save runs/ck --save-every 1 >first 2>&1 &
first=$!
"${endless[@]}" --save runs/ck --save-every 1 >second 2>&1 &
second=$!
sleep 2
kill -KILL "$first" && kill -INT "$second"
wait "$first" "$second" 2>/dev/null || true
cat first second >"$log"
ok "${run[@]}" --resume runs/ck --stop-after 1
# What the killed one had begun to write goes with the next save, if not with the last one of the other.
ok "${short[@]}" --save runs/ck
[[ $(echo runs/*) == runs/ck ]] || fail "there are files left: $(echo runs/*)"
echo "two writers, one of them killed: a whole file"

if [[ $ROWGRAD_CRASH_MOUNTS == no ]]; then
  skip "a full disk, a read-only folder: skipped, mounting is not allowed here"
fi

mount -t tmpfs -o size=1m none disk
cp old disk/ck
head -c 1m /dev/zero >disk/filler 2>/dev/null || true
rejects 1 "cannot write .*No space left" "${short[@]}" --save disk/ck
expect_old_file disk/ck
rm disk/filler
ok "${short[@]}" --resume disk/ck --save disk/ck
echo "a full disk: an error, the old file intact"

head -c 1m /dev/zero >disk/filler 2>/dev/null || true
rejects 1 "the report is incomplete: .*No space left" "${short[@]}" --save runs/logged --log disk/run.log
ok "${short[@]}" --save runs/ck
expect_same_run runs/ck runs/logged
rm -f disk/filler disk/run.log
echo "a log on a full disk: the run goes on, an error at its end"

cp old disk/ck
"${endless[@]}" --save disk/ck --save-every 1 >"$log" 2>&1 &
await() {  # await COMMAND...: repeats it until it succeeds, as long as the run goes on
  until "$@" 2>/dev/null; do
    kill -0 $! 2>/dev/null || fail "the run ended before: $*"
    sleep 0.01
  done
}
has_saved() { ! cmp -s old disk/ck; }
await has_saved
await mount -o remount,ro none disk  # busy in the midst of a save
cp disk/ck old
status=0
wait $! || status=$?
equal "$status" 1
says "cannot write .*Read-only file system"
expect_old_file disk/ck
rejects 1 "is not writable" "${short[@]}" --save disk/ck
rejects 1 "is not writable" "${short[@]}" --json disk/new
expect_old_file disk/ck
echo "a folder that becomes or is read-only: errors, the old file intact"
umount disk

# A file system on a disk, as a table's is: in memory, even a page without rows takes space.
truncate -s 64M image
if ! mkfs.ext4 -q -m 0 -b 4096 image 2>/dev/null || ! mount -o loop image disk 2>/dev/null; then
  skip "a table on a full disk: skipped, there is no loop device here"
fi
small=("${ngrams[@]}" --ngram-rows 6666 --ngram-file disk/table --epochs 3)
ok "${small[@]}" --save reference
rm disk/table*
left=$(df --output=avail -k disk | tail -n 1)
head -c "$((left - 4000))K" /dev/zero >disk/filler
rejects 1 "cannot write .*No space left" "${small[@]}" --save ck
rm disk/filler
ok "${small[@]}" --resume ck --save ck
expect_same_numbers reference ck
echo "a table on a full disk: an error, and with space again the same numbers"
