#!/usr/bin/env bash
# Tests that killed runs and failed writes do not damage files.
# Training runs that save after every step are killed (SIGKILL) at random moments. Each time, the checkpoint and
# the report must be complete. The resumed run must be bit-identical to an uninterrupted run, and its log must have
# all steps. This is repeated with a table in a file.
# Then writes fail: on a full disk, at a file size limit, in a folder that is or becomes read-only, and to
# /dev/full. Each failure must be reported and leave the old file unchanged. If two runs write the same file, the file
# must be complete.
#   tests/durability/run.sh [KILLS]    30 by default, and a third of them with a table in a file
# Some tests mount file systems, which needs root or user namespaces. Otherwise, they are skipped with a message.
# ROWGRAD_BUILD names another build folder.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../core/packaging/setup.sh"
kills=${1-30}
[[ $kills =~ ^[0-9]+$ ]] || { echo "usage: tests/durability/run.sh [KILLS]" >&2 && exit 2; }

# The script mounts file systems in a mount namespace of its own, so that they disappear when it ends.
if [[ -z ${ROWGRAD_DURABILITY_MOUNTS-} ]]; then
  configure
  compile rowgrad_program
  for as_root in "" --map-root-user; do
    # shellcheck disable=SC2086
    if unshare --mount $as_root mount -t tmpfs none /tmp 2>/dev/null; then
      # shellcheck disable=SC2086
      ROWGRAD_DURABILITY_MOUNTS=yes exec unshare --mount $as_root "${BASH_SOURCE[0]}" "$@"
    fi
  done
  ROWGRAD_DURABILITY_MOUNTS=no
fi

source "$root/tests/support/expect.sh"
source "$root/tests/support/checkpoints.sh"
trap 'umount --lazy "$scratch/disk" 2>/dev/null || true; finish' EXIT
PATH=$build/bin:$PATH
cd "$scratch"
mkdir runs disk

# A word vocabulary with momentum: most rows of the table are stale at any time.
run=(rowgrad train --corpus "$root/examples/data/the-slow-clock.txt"
  --tokenizer word --context 8 --stride 8 --batch 16 --width 8 --window 2 --hidden 8
  --optimizer rmsprop --momentum 0.5 --schedule cosine --sample-tokens 0 --threads 1)
short=("${run[@]}" --epochs 3)
endless=("${run[@]}" --epochs 1000000)

# expect_whole_page FILE: asserts that a report and the data in it are complete.
expect_whole_page() {
  [[ $(tail -n 1 "$1") == "</html>" ]] || fail "$1 is truncated"
  local data
  data=$(sed -n 's/.*<script type="application\/gzip" id="data">\([^<]*\).*/\1/p' "$1" | base64 -d | gunzip) ||
    fail "the data in $1 are damaged"
  [[ $data == "{"*"}" ]] || fail "the data in $1 are truncated"
}

# contents LOG: prints the curves, evaluations and rows of a log, without speeds.
contents() {
  rowgrad report "$1" --data /dev/stdout | sed -E 's/"run":\{.*"tables":/"tables":/; s/"speed":\[[^]]*\]//'
}

# expect_whole_log FILE: asserts that a log describes one run and has the contents of the reference log.
expect_whole_log() {
  equal "$(grep -c '^{"event":"run"' "$1")" 1
  contents "$1" >first.contents
  contents runs/reference.log >second.contents
  same first.contents second.contents
}

# expect_same_run FIRST SECOND: asserts that two checkpoints are equal, except for what --report keeps in them.
expect_same_run() {
  ok rowgrad compare "$1" "$2"
}

# run_and_kill MICROSECONDS COMMAND...: kills the command at a random moment within this time, unless it ends
# earlier. Sets `status` to its exit status.
run_and_kill() {
  local delay=$((SRANDOM % $1))
  shift
  "$@" >"$log" 2>&1 &
  sleep "$(printf '%d.%06d' $((delay / 1000000)) $((delay % 1000000)))"
  kill -9 $! 2>/dev/null || true
  status=0
  wait $! 2>/dev/null || status=$?
}

# --- Killed runs --------------------------------------------------------------------------------
# kill_runs KILLS COMMAND...: trains for three epochs, resuming after each kill, until KILLS runs have been killed. Then
# compares with an uninterrupted run. A fourth epoch reads all files that the runs left, and every row of a table.
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
      0)  # the run ended before the kill
        ended=$((ended + 1))
        expect_same_run runs/reference runs/ck
        left=$(find runs -type f ! -name ck ! -name 'page*' ! -name 'reference*' ! -name longer ! -name table \
          ! -name 'table.undo-*'; find runs -name 'table.undo-*' | tail -n +3)
        [[ ! $left ]] || fail "files were left behind: $left"
        if [[ " $* " == *" --report "* ]]; then
          expect_whole_page runs/page
          expect_whole_log runs/page.log
        fi
        rm -f runs/ck runs/table* runs/page*
        ;;
      137)
        killed=$((killed + 1))
        [[ -z $(find runs -name '*.tmp') ]] || in_a_save=$((in_a_save + 1))
        # Skipped with a table in a file: this run would roll the table back, but kills must also hit the rollback.
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
  echo "$killed kills, $in_a_save of them during a save; $ended runs ended before the kill:"
  rm -rf runs/*
}

kill_runs "$kills" "${run[@]}" --save-every 1 --report runs/page
echo "complete checkpoints, bit-identical to an uninterrupted run, and $pages complete reports"

# A table that is larger than the memory of the process. Most of its rows are stale at any time.
ngrams=(bash -c 'ulimit -d 500000; exec "$@"' limited rowgrad train --model gpt
  --corpus "$root/examples/data/the-slow-clock.txt" --context 32 --stride 32 --batch 32 --width 32 --heads 1
  --layers 1 --ngrams '1,2,3' --ngram-heads 1 --ngram-width 32 --ngram-layers 0 --validation 0
  --evaluate-every 0 --sample-tokens 0 --save-every 5)
kill_runs $(((kills + 2) / 3)) "${ngrams[@]}" --ngram-rows 33333333 --ngram-file runs/table
echo "bit-identical to an uninterrupted run, with a table file of 42 GB"

# --- Failed writes ------------------------------------------------------------------------------
# expect_old_file FILE: asserts that the file equals `old`, and that its folder has no other file, except the filler of
# a full disk.
expect_old_file() {
  same "$1" old
  local file
  for file in "$(dirname "$1")"/*; do
    [[ $file == "$1" || $file == */filler ]] || fail "$file was left behind"
  done
}

ok "${run[@]}" --stop-after 2 --save old

cp old runs/ck
# If the signal SIGXFSZ is ignored, a write beyond the limit fails, like a write to a full disk.
rejects 1 "cannot write .*File too large" \
  bash -c 'trap "" XFSZ; ulimit -f 64; exec "$@"' limited "${short[@]}" --save runs/ck
expect_old_file runs/ck
echo "a file size limit: an error, the old file intact"

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
# The next save removes what the killed run left, unless the other run's last save already has.
ok "${short[@]}" --save runs/ck
[[ $(echo runs/*) == runs/ck ]] || fail "files were left behind: $(echo runs/*)"
echo "two writers, one of them killed: a complete file"

if [[ $ROWGRAD_DURABILITY_MOUNTS == no ]]; then
  skip "a full disk, a read-only folder: skipped, because mounting is not allowed here"
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
echo "a log on a full disk: the run continues and ends with an error"

cp old disk/ck
"${endless[@]}" --save disk/ck --save-every 1 >"$log" 2>&1 &
# await COMMAND...: repeats the command until it succeeds. Fails if the run ends first.
await() {
  until "$@" 2>/dev/null; do
    kill -0 $! 2>/dev/null || fail "the run ended before this command succeeded: $*"
    sleep 0.01
  done
}
has_saved() { ! cmp -s old disk/ck; }
await has_saved
await mount -o remount,ro none disk  # fails as busy during a save
cp disk/ck old
status=0
wait $! || status=$?
equal "$status" 1
says "cannot write .*Read-only file system"
expect_old_file disk/ck
rejects 1 "is not writable" "${short[@]}" --save disk/ck
rejects 1 "is not writable" "${short[@]}" --json disk/new
expect_old_file disk/ck
echo "a folder that is or becomes read-only: errors, the old file intact"
umount disk

# A table is tested on a disk's file system: in tmpfs, even a page without rows takes space.
truncate -s 64M image
if ! mkfs.ext4 -q -m 0 -b 4096 image 2>/dev/null || ! mount -o loop image disk 2>/dev/null; then
  skip "a table on a full disk: skipped, because there is no loop device here"
fi
small=("${ngrams[@]}" --ngram-rows 6666 --ngram-file disk/table --epochs 3)
ok "${small[@]}" --save reference
rm disk/table*
left=$(df --output=avail -k disk | tail -n 1)
head -c "$((left - 4000))K" /dev/zero >disk/filler
rejects 1 "cannot write .*No space left" "${small[@]}" --save ck
rm disk/filler
ok "${small[@]}" --resume ck --save ck
expect_same_checkpoint reference ck
echo "a table on a full disk: an error, and the same result once there is space again"
