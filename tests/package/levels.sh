#!/usr/bin/env bash
# Tests the shared library's builds for different processor levels. The loader must choose the best level that the
# processor has (or glibc's tunables allow), and training must give the same loss on each. The lowest level also runs on
# an emulated processor that lacks newer instructions.
#   tests/package/levels.sh [FOLDER]       a build by core/packaging/make.sh; build-packages by default
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../core/packaging/setup.sh"
source "$root/tests/support/expect.sh"

install_packages qemu-user
folder=${1:-$root/build-packages}
program=$folder/bin/rowgrad

# The shared library must export every public function.
hidden=$(comm -23 \
  <(find "$folder"/CMakeFiles/rowgrad.dir -name '*.o' -exec nm --defined-only {} + |
    awk '$2 == "T" && $3 ~ /7rowgrad/ { print $3 }' | sort -u) \
  <(nm --dynamic --defined-only "$folder/librowgrad.so" | awk '{ print $3 }' | sort -u) | c++filt)
[[ ! $hidden ]] || fail "the library does not export $hidden"

# train LEVEL COMMAND...: checks the level, and compares the validation loss after 3 steps with the first run's.
first=
train() {
  local level=$1 loss
  shift
  ok "$@" --version
  says "level $level,"
  ok "$@" train --stop-after 3 --sample-tokens 0 --hidden 32 --validation 0.02
  says "^Validation *[0-9.]* nats"
  loss=$(sed -n 's/^Validation *\([0-9.]*\) nats.*/\1/p' "$log")
  echo "$level: loss $loss"
  : "${first:=$loss}"
  awk -v a="$first" -v b="$loss" 'BEGIN { exit !((a - b) ^ 2 < 1e-6) }' || fail "$level: loss $loss, expected $first as in the first run"
}

# has LEVEL FLAG: succeeds if the build has the level and this processor has the flag.
has() { [[ -d $folder/glibc-hwcaps/$1 ]] && grep -qw "$2" /proc/cpuinfo; }
train x86-64 env GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-AVX512F "$program"
if has x86-64-v3 avx2; then train x86-64-v3 env GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F "$program"; fi
if has x86-64-v4 avx512bw; then train x86-64-v4 "$program"; fi
# Without OPENBLAS_CORETYPE, OpenBLAS would choose its kernel for an Opteron, whose instructions the emulator lacks.
train x86-64 env OPENBLAS_CORETYPE=Prescott qemu-x86_64 -cpu qemu64 "$program"
