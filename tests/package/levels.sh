#!/usr/bin/env bash
# One program on the levels of a shared library: the loader takes the best that the processor has, or
# is said to have, and each level trains; the first on an emulated processor that has no more.
#   tests/package/levels.sh [FOLDER]       a build of core/packaging/make.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../core/packaging/setup.sh"
source "$root/tests/support/expect.sh"

install_packages qemu-user
folder=${1:-$root/build-packages}
program=$folder/bin/rowgrad

# Every function of the library that programs may call is there, too.
hidden=$(comm -23 \
  <(find "$folder"/CMakeFiles/rowgrad.dir -name '*.o' -exec nm --defined-only {} + |
    awk '$2 == "T" && $3 ~ /7rowgrad/ { print $3 }' | sort -u) \
  <(nm --dynamic --defined-only "$folder/librowgrad.so" | awk '{ print $3 }' | sort -u) | c++filt)
[[ ! $hidden ]] || fail "the library does not export $hidden"

# train LEVEL COMMAND...: checks the level, shows the validation loss after 3 steps, and compares it.
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
  awk -v a="$first" -v b="$loss" 'BEGIN { exit !((a - b) ^ 2 < 1e-6) }' || fail "the first was $first"
}

# has LEVEL FLAG: of the build, and of this processor.
has() { [[ -d $folder/glibc-hwcaps/$1 ]] && grep -qw "$2" /proc/cpuinfo; }
train x86-64 env GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-AVX512F "$program"
if has x86-64-v3 avx2; then train x86-64-v3 env GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F "$program"; fi
if has x86-64-v4 avx512bw; then train x86-64-v4 "$program"; fi
# OpenBLAS would take its kernel for an Opteron, with instructions that the emulator does not have.
train x86-64 env OPENBLAS_CORETYPE=Prescott qemu-x86_64 -cpu qemu64 "$program"
