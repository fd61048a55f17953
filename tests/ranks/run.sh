#!/usr/bin/env bash
# Trains with mpirun on this machine. Tests that 1 to 4 ranks give the same bits as a single process,
# even if a run is resumed on another number of ranks. Tests ranks that die, hang or have different options.
#   tests/ranks/run.sh
# ROWGRAD_BUILD names another build folder. Without MPI, the script skips all tests; with CI set, it fails instead.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../core/packaging/setup.sh"
source "$root/tests/support/expect.sh"
source "$root/tests/support/checkpoints.sh"

command -v mpirun >/dev/null ||
  skip "Skipping the tests of ranks: mpirun is not installed (install libopenmpi-dev and openmpi-bin)"
configure
compile rowgrad_program rowgrad_mpi_program
PATH=$build/bin:$PATH
cd "$scratch"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

on_ranks() {
  local count=$1
  shift
  timeout -k 5 120 mpirun --oversubscribe -n "$count" "$@"
}

corpus=(--corpus "$root/examples/data/the-slow-clock.txt")
text=("${corpus[@]}" --sample-tokens 0)
verdict=(rowgrad train "${text[@]}")
small=(--tokenizer word --context 8 --stride 8 --batch 10 --width 8)
gpt=(rowgrad train --model gpt "${text[@]}" "${small[@]}" --heads 2 --layers 1 --dropout 0.2
  --evaluate-every 7 --evaluate-batches 2)

# --- Bit-identical results ----------------------------------------------------------------------
compared=0
# compare COMMAND...: compares a single process with one to four ranks.
compare() {
  ok "$@" --slices 4 --save alone
  local count
  rm -f table*
  for count in 1 2 3 4; do
    ok on_ranks "$count" "$@" --slices 4 --save ranks
    # A single process turns sharded tables into whole tables.
    if compgen -G "ranks.part-*" >/dev/null; then
      ok "$@" --resume ranks --save ranks
    fi
    expect_same_checkpoint alone ranks
    rm -f ranks ranks.part-* table*
    compared=$((compared + 1))
  done
}
compare "${verdict[@]}" --stop-after 20
compare "${verdict[@]}" --stop-after 12 "${small[@]}" --window 2 --hidden 8 --momentum 0.9 \
  --weight-decay 0.01 --dropout 0.3 --accumulate 2
compare "${gpt[@]}" --steps 12 --tie-weights --clip 0.5
compare rowgrad train "${corpus[@]}" --model skip-gram --min-count 2 --context 32 --batch 8 --steps 12
compare rowgrad train "${corpus[@]}" --model cbow --min-count 2 --context 32 --batch 8 --steps 12 \
  --shared-negatives 20 --validation 0.2
compare "${gpt[@]}" --steps 12 --sampled-softmax 9
compare "${gpt[@]}" --steps 12 --no-tie-weights --positions t5 --optimizer adamw --weight-decay 0.1
compare "${gpt[@]}" --steps 12 --no-tie-weights --optimizer adamw --ngrams 2,3 --ngram-rows 100 \
  --ngram-layers 0 --ngram-file table
sharded=("${gpt[@]}" --no-tie-weights --ngrams "2,3" --ngram-rows 100 --ngram-layers 0 --shard-tables)
compare "${sharded[@]}" --steps 12 --optimizer adamw --clip 0.5 --schedule cosine
compare "${sharded[@]}" --steps 12 --optimizer sgd --momentum 0.9 --weight-decay 0.01 --accumulate 2
compare "${sharded[@]}" --steps 12 --optimizer adagrad
echo "$compared runs on 1 to 4 ranks: the same bits as a single process"

# Only the first rank samples, during training (saved in the checkpoint) and at the end.
sampled=(rowgrad train "${corpus[@]}" "${small[@]}" --window 2 --hidden 8
  --slices 2 --epochs 2 --sample-tokens 9 --sample-every 7 --sample-epochs --temperature 0.5 --top-k 3)
ok "${sampled[@]}" --save alone
last=$(grep -A 1 "^Sample" log)
ok on_ranks 2 "${sampled[@]}" --save ranks
equal "$(grep -A 1 "^Sample" log)" "$last"
grep -aq '"samples":"\[{' ranks || fail "the checkpoint has no samples"
expect_same_checkpoint alone ranks
rm ranks
echo "samples during training and at the end: the same as from a single process"

# Only the first rank writes a log. At the end it reads the corpus, with table rows from other ranks.
logged=("${sharded[@]}" --slices 4 --steps 12)
ok "${logged[@]}" --save alone
for option in --report --log; do
  ok on_ranks 2 "${logged[@]}" --stop-after 5 $option watched$option --save ranks
  ok on_ranks 2 "${logged[@]}" --resume ranks $option watched$option --save ranks
  ok "${logged[@]}" --resume ranks --save ranks
  expect_same_checkpoint alone ranks
  rm -f ranks ranks.part-*
done
for file in watched--report.log watched--log; do
  grep -q '^{"event":"text"' $file || fail "$file has no text event"
  equal "$(grep -c '^{"event":"run"' $file)" 1
  ! grep '^{"event":"fault"' $file || fail "$file has a fault event"
done
rm watched*
echo "reports and logs of sharded tables: the same bits as a single process, one log with a text event"

# Tests a rank whose OpenBLAS uses a different kernel, if this OpenBLAS has one.
mixed=("${verdict[@]}" --hidden "3000,1000" --stop-after 1)
ok on_ranks 1 "${mixed[@]}" : -n 1 env OPENBLAS_CORETYPE=Sandybridge "${mixed[@]}"
if OPENBLAS_CORETYPE=Sandybridge "${mixed[@]}" --version | grep -q Sandybridge; then
  says "^Rank 1 computes with .*Sandybridge.*, rank 0 with "
  echo "a rank with other kernels: named in a warning"
fi

# Tests a launcher that only supports PMIx.
pmix=(env)
for name in RANK SIZE LOCAL_RANK LOCAL_SIZE; do pmix+=(-u "OMPI_COMM_WORLD_$name"); done
ok "${verdict[@]}" "${small[@]}" --stop-after 3 --slices 2 --save alone
ok on_ranks 2 "${pmix[@]}" "${verdict[@]}" "${small[@]}" --stop-after 3 --save ranks
says "sent by each of 2 ranks"
expect_same_checkpoint alone ranks
rm ranks
echo "a launcher that only supports PMIx: two ranks, not two runs"

run=("${verdict[@]}" "${small[@]}" --window 2 --hidden 8 --momentum 0.9 --dropout 0.3)
ok "${run[@]}" --slices 4 --stop-after 30 --save alone
ok on_ranks 3 "${run[@]}" --slices 4 --stop-after 11 --save ranks
ok on_ranks 2 "${run[@]}" --resume ranks --stop-after 19 --save ranks
ok "${run[@]}" --resume ranks --stop-after 30 --save ranks
expect_same_checkpoint alone ranks
echo "resumed on another number of ranks: bit-identical"

# Tests sharded tables: after a kill at any moment, the previous checkpoint is complete, and other numbers of
# ranks can resume from it. ROWGRAD_KILLS is the number of kills.
kills=${ROWGRAD_KILLS:-3}
long=("${sharded[@]}" --optimizer adamw --slices 4 --steps $((150 * (kills + 1))))
ok "${long[@]}" --save alone
ok on_ranks 2 "${long[@]}" --stop-after 1 --save ranks
hits=0
for ((i = 0; i < kills; ++i)); do
  timeout 120 mpirun --oversubscribe -n $((1 + RANDOM % 4)) "${long[@]}" --resume ranks --save ranks \
    --save-every 1 >log 2>&1 &
  job=$!
  sleep "$((RANDOM % 3)).$((RANDOM % 1000))"
  pkill -9 -P "$(pgrep -P "$job" || echo "$job")" 2>/dev/null || true
  status=0
  wait "$job" || status=$?
  case $status in
    0) ;;
    137) hits=$((hits + 1)) ;;  # SIGKILL of mpirun or of a rank
    *) fail "status $status after kill $i" ;;
  esac
done
((kills == 0 || hits > 0)) || fail "every run ended before it was killed"
ok on_ranks 3 "${long[@]}" --resume ranks --save ranks
ok "${long[@]}" --resume ranks --save ranks
expect_same_checkpoint alone ranks
rm -f ranks ranks.part-*
echo "$hits kills with sharded tables: the same bits as an uninterrupted run"

ok on_ranks 2 "${sharded[@]}" --slices 4 --steps 12 --save ranks
rm ranks.part-*-1
rejects 1 "is missing on all ranks: it has the rows of rank 1 of 2" \
  on_ranks 3 "${sharded[@]}" --resume ranks --save ranks
rm -f ranks ranks.part-*
ok on_ranks 2 "${sharded[@]}" --ngram-file table --steps 3 --save ranks
rejects 1 "got mpirun -n 3, expected -n 2, because its sharded tables are in files" \
  on_ranks 3 "${sharded[@]}" --ngram-file table --resume ranks
rm -f table*
echo "a missing part, and table files of another number of ranks: rejected"

# --- Faults -------------------------------------------------------------------------------------
# rejects_once PATTERN COMMAND...: expects an error on three ranks, which only the first rank prints.
rejects_once() {
  rejects 1 "^rowgrad train: rank 0 on $(hostname): .*$1" on_ranks 3 "${@:2}"
  equal "$(grep -c -- "$1" log)" 1
}
rejects_once "2 slices for 3 ranks" "${run[@]}" --slices 2 --stop-after 2
rejects_once "cannot read none: No such file or directory" "${run[@]}" --resume none
echo "an error on all ranks: printed once"

mkdir -p here/sub there
for table in "" "--ngram-file sub/table"; do
  # shellcheck disable=SC2086
  rejects 1 "^rowgrad train: rank 1 on $(hostname): sub/.*: there is no folder " \
    on_ranks 1 bash -c 'cd here; exec "$@"' here "${sharded[@]}" $table --steps 9 --save sub/run : \
    -n 1 bash -c 'cd there; exec "$@"' there "${sharded[@]}" $table --steps 9 --save sub/run
  ! grep "^step" log || fail "the error came after the first step"
done
rm -rf here there
echo "a folder that does not exist on one rank: an error before training that names rank and host"

mkdir bin
cp "$build/bin/rowgrad" bin/  # without the MPI program next to it
rejects 1 "this program was built without MPI, .*; install the package rowgrad-mpi" \
  on_ranks 2 bin/rowgrad train "${text[@]}" --stop-after 2
echo "a program without MPI: an error instead of independent runs"

rejects 1 "rank 1 and rank 0 have different values of seed: got 5, expected 123" \
  on_ranks 1 "${run[@]}" --stop-after 2 : -n 1 "${run[@]}" --stop-after 2 --seed 5
echo "different options: an error that names rank and option"

# endless COUNT COMMAND...: starts an endless run on COUNT ranks and waits for its first checkpoint.
endless() {
  rm -f ranks ranks.part-*
  timeout 120 mpirun --oversubscribe -n "$1" "${@:2}" --save ranks --save-every 1 >log 2>&1 &
  job=$!
  until [[ -e ranks ]]; do
    kill -0 "$job" 2>/dev/null || fail "the run ended before it saved a checkpoint"
    sleep 0.05
  done
  launcher=$(pgrep -P "$job")
  second=$(pgrep -P "$launcher" | sed -n 2p)
}

long=("${run[@]}" --epochs 1000000)
long_sharded=("${sharded[@]}" --optimizer adamw --slices 4 --steps 1000000)
# end_by SIGNAL STATUS PATTERN COUNT COMMAND...: sends a signal to the second rank of an endless run. Expects the exit
# status and an output that matches the pattern.
end_by() {
  endless "${@:4}"
  kill "$1" "$second"
  local status=0
  wait "$job" || status=$?
  kill -9 "$second" 2>/dev/null || true
  equal "$status" "$2"
  says "$3"
  ok "${@:5}" --resume ranks --stop-after 1
}

end_by -9 137 "rank 1 .*exited on signal 9" 2 "${long[@]}"
end_by -9 137 "rank 1 .*exited on signal 9" 3 "${long_sharded[@]}"
echo "a rank that dies, also with sharded tables: all ranks end, the rank is named, the checkpoint is complete"

end_by -STOP 1 "rank 1 has not answered for 2 seconds" 2 "${long[@]}" --rank-timeout 2
end_by -STOP 1 "rank 1 .*has not answered for 2 seconds" 3 "${long_sharded[@]}" --rank-timeout 2
echo "a rank that hangs, also with sharded tables: all ranks end, the rank is named, the checkpoint is complete"

# Tests a rank that stops before MPI starts. MPI cannot start without it.
rejects 1 "MPI has not started after 3 seconds: a rank hangs" \
  on_ranks 1 "${run[@]}" --rank-timeout 3 : \
  -n 1 bash -c 'kill -STOP $$; exec "$@"' stopped "${run[@]}" --rank-timeout 3
echo "a rank that hangs before MPI has started: all ranks end with a message"

endless 2 "${long[@]}"
kill -INT "$launcher"
wait "$job" || true
says "Stopped by"
ok "${run[@]}" --resume ranks --stop-after 1
echo "Ctrl-C: all ranks stop and save"
