#!/usr/bin/env bash
# Runs both commands of the README on another Debian release, in a system made by debootstrap: trains for a few
# steps, then builds and runs every test. Uses the sources of HEAD.
#   tests/debian.sh RELEASE [FOLDER]       e.g. trixie; FOLDER keeps the system for the next run
# CXX names another compiler, and PACKAGES the packages to install for it:
#   CXX=clang++-14 PACKAGES="clang-14 libomp-14-dev" tests/debian.sh bookworm
# Must run as root, for chroot.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../core/packaging/setup.sh"
source "$(dirname "${BASH_SOURCE[0]}")/chroot.sh"

if (($# < 1 || $# > 2)) || ((EUID != 0)); then
  echo "usage, as root: tests/debian.sh RELEASE [FOLDER]" >&2
  exit 2
fi
release=$1
system=${2-}
if [[ ! $system ]]; then
  system=$(mktemp -d)
  trap 'rm -rf --one-file-system "$system"' EXIT
fi

make_system "$release"
copy_sources
if [[ ${PACKAGES-} ]]; then
  read -ra extra <<<"$PACKAGES"
  quietly inside apt-get update
  quietly inside apt-get install --yes \
    --no-install-recommends "${extra[@]}"
fi
inside /rowgrad/examples/train.sh --stop-after 300 --sample-tokens 40
inside /rowgrad/tests/run.sh
if [[ ${ROWGRAD_DATA-} ]]; then  # again, without the published texts
  rm -rf "$system/data" "$system/rowgrad/build/texts" "$system/root/.cache"
  inside env ROWGRAD_OFFLINE=1 /rowgrad/tests/run.sh
fi
echo "Debian $release: both commands work, with $(inside "${CXX:-c++}" --version | head -n 1)"
