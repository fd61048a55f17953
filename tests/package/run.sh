#!/usr/bin/env bash
# Uses rowgrad as other projects do: installed and moved to another folder, and as a subdirectory of their sources;
# with and without MPI.
#   tests/package/run.sh
# ROWGRAD_BUILD names another build folder, in which everything must be built already.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../core/packaging/setup.sh"
source "$root/tests/support/expect.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

quietly cmake --install "$build" --prefix "$scratch/first"
mv "$scratch/first" "$scratch/installed"
for file in README.md core/README.md examples/first_step.cpp; do
  [[ -f $scratch/installed/share/doc/rowgrad/$file ]] || fail "$file is not installed"
done
equal "$(ls "$scratch/installed/bin")" rowgrad
# Public headers must be installed, with all headers that they include; internal headers must not.
include=$scratch/installed/include
[[ ! -e $include/rowgrad/core/kernels/attention.hpp ]] || fail "internal headers are installed"
while IFS= read -r header; do
  [[ -f $include/$header ]] || fail "$header is included, but not installed"
done < <(grep -rhoE '^#include <rowgrad/[^>]+' "$include" | cut -d'<' -f2 | sort -u)
# The CMake targets must name the libraries that they need without paths of this machine.
targets=$(dirname "$scratch"/installed/lib*/cmake/rowgrad/rowgradTargets.cmake)
if grep -nE "/lib[a-z0-9-]*\.(so|a)|$scratch/first" "$targets"/*.cmake |
  grep -vF "\${_IMPORT_PREFIX}"; then
  fail "the CMake targets have absolute paths"
fi
# The CMake targets and pkg-config files must not set -march or run paths for other projects.
if grep -rnE -e '-march|rpath' "$targets" "$targets/../../pkgconfig"; then
  fail "the CMake targets or pkg-config files set -march or run paths"
fi

consumer=(cmake -S "$root/tests/package" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/installed")
mpi=
[[ ! -e $targets/rowgradMpiTargets.cmake ]] || mpi=mpi
quietly "${consumer[@]}" -B "$scratch/consumer" -DCMAKE_BUILD_TYPE=Release "-DROWGRAD_COMPONENTS=$mpi"
quietly cmake --build "$scratch/consumer"
"$scratch/consumer/consumer_rowgrad"
"$scratch/consumer/consumer_rowgrad_double"
"$scratch/consumer/consumer_log" "$scratch/run.log"
"$scratch/installed/bin/rowgrad" report "$scratch/run.log"
if [[ -x ${CHROMIUM:=/usr/bin/chromium} ]]; then
  "$CHROMIUM" --headless --no-sandbox --disable-gpu --virtual-time-budget=20000 --dump-dom \
    "file://$scratch/run.html" >"$scratch/shown.html" 2>/dev/null || fail "the browser failed to open the report"
  grep -q 'user.weight' "$scratch/shown.html" || fail "the report does not show the table"
  grep -q 'with a gradient moved it by [0-9]' "$scratch/shown.html" || fail "the report does not show why a row moved"
  ! grep -q '<p class="notice">This report cannot' "$scratch/shown.html" || fail "the report shows an error"
  echo "the report of a custom model opens in a browser"
elif [[ ${CI-} ]]; then
  fail "$CHROMIUM is not installed"
fi
if [[ $mpi ]]; then
  mpirun --oversubscribe -n 2 "$scratch/consumer/consumer_mpi"
  rejects 134 "started as rank 1, but MPI says it is rank 0 of 1" \
    env PMIX_RANK=1 "$scratch/consumer/consumer_mpi"
  for launcher in PMI OMPI_COMM_WORLD; do
    rejects 134 "started as rank 0 of 2, but MPI says it is rank 0 of 1" \
      env "${launcher}_RANK=0" "${launcher}_SIZE=2" "$scratch/consumer/consumer_mpi"
  done
  rejects 1 "rowgrad was built with MPI, which is not installed" \
    "${consumer[@]}" -B "$scratch/without" -DROWGRAD_COMPONENTS=mpi -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON
  rm "$targets"/rowgradMpiTargets*
  rejects 1 "rowgrad::mpi is not installed" "${consumer[@]}" -B "$scratch/without" -DROWGRAD_COMPONENTS=mpi
fi

for levels in "x86-64-v4;x86-64" nonsense; do
  rejects 1 "ROWGRAD_LEVELS is '$levels'" \
    cmake -S "$root" -B "$scratch/levels" -G Ninja "-DROWGRAD_LEVELS=$levels"
done

# Only campaign.sh builds packages, but their configuration must work.
quietly cmake -S "$root" -B "$scratch/packages" -G Ninja -DBUILD_SHARED_LIBS=ON -DCMAKE_INSTALL_PREFIX=/usr

quietly cmake -S "$root/tests/package/subdirectory" -B "$scratch/parent" -G Ninja
quietly cmake --build "$scratch/parent" --target one_rank
quietly cmake --install "$scratch/parent" --prefix "$scratch/parents"
[[ ! -e $scratch/parents ]] || fail "a project with rowgrad as a subdirectory installs rowgrad, expected only its own files"
ok "$scratch/parent/one_rank"
equal "$(<"$log")" "rowgrad 0.2.0, 1 process"
rejects 1 "this program was built without MPI" env PMIX_RANK=0 "$scratch/parent/one_rank"
rejects 1 "this program was built without MPI" env PMI_RANK=0 PMI_SIZE=2 "$scratch/parent/one_rank"
ok env PMI_RANK=0 PMI_SIZE=1 "$scratch/parent/one_rank"
echo "a project with rowgrad as a subdirectory, without MPI: runs alone, and fails under mpirun"
