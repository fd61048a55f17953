#!/usr/bin/env bash
# Installs missing packages, builds, and trains a model on The Verdict:
#   examples/train.sh [options of rowgrad train]   a next-token model, or with --model gpt a GPT
#   examples/train.sh --ranks N …                  in N processes on this machine
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../core/packaging/setup.sh"

ranks=0
options=()
while (($#)); do
  case $1 in
    --ranks)
      ranks=${2-}
      [[ $ranks =~ ^[1-9][0-9]{0,3}$ ]] || { echo "--ranks: got \"$ranks\", expected a whole number from 1 to 9999" >&2 && exit 2; }
      shift
      ;;
    *) options+=("$1") ;;
  esac
  shift
done

if ((ranks)); then
  install_packages libopenmpi-dev openmpi-bin
  [[ ! -f $build/CMakeCache.txt ]] || quietly cmake "$build"  # the folder may have been configured without MPI
else
  install_packages
fi
[[ -x $build/bin/rowgrad ]] || echo "Building rowgrad; the first time takes two to three minutes on two cores."
configure
compile rowgrad_program
# A user's own text with a tokenizer other than GPT-2's needs no download. Programs report missing files.
all=" ${options[*]} "
[[ $all == *" --corpus"* && $all == *" --tokenizer"* && $all != *gpt2* ]] || "$root/examples/texts.sh" || true
command=("$build/bin/rowgrad" train "${options[@]}")
if ((ranks)); then
  # Containers often have only root, and there may be fewer cores than ranks.
  ((EUID)) || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  compile rowgrad_mpi_program
  command=(mpirun --oversubscribe -n "$ranks" "${command[@]}")
fi
exec "${command[@]}"
