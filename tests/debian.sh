#!/usr/bin/env bash
# Both commands of the README on another Debian release, in a system of its own made by debootstrap:
# trains for a few steps, then builds and runs every test.
#   tests/debian.sh RELEASE [FOLDER]       e.g. trixie; FOLDER keeps the system for the next time
# CXX names another compiler, whose packages PACKAGES installs:
#   CXX=clang++-14 PACKAGES="clang-14 libomp-14-dev" tests/debian.sh bookworm
# Must be root, for chroot. The sources are those of HEAD.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../.setup.sh"

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

if [[ ! -d $system/usr ]]; then
  packages=(debootstrap)
  install_packages
  quietly debootstrap --variant=minbase "$release" "$system" http://deb.debian.org/debian
fi
cp /etc/resolv.conf "$system/etc/"
rm -rf "$system/rowgrad" "$system/data"
mkdir "$system/rowgrad" "$system/data"
git -C "$root" archive HEAD | tar x -C "$system/rowgrad"
if [[ ${ROWGRAD_DATA-} ]]; then cp "$ROWGRAD_DATA"/* "$system/data/"; fi

# What is mounted there is so for the command alone, in a view of the file system of its own.
inside() {
  # shellcheck disable=SC2016
  unshare --mount sh -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"' \
    "$system" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    ROWGRAD_DATA=/data ${CXX:+CXX="$CXX"} "$@"
}

if [[ ${PACKAGES-} ]]; then
  read -ra extra <<<"$PACKAGES"
  quietly inside apt-get update
  quietly inside env DEBIAN_FRONTEND=noninteractive apt-get install --yes \
    --no-install-recommends "${extra[@]}"
fi
inside /rowgrad/examples/train.sh --max-steps 300 --sample 40
inside /rowgrad/tests/run.sh
echo "Debian $release: both commands work, with $(inside "${CXX:-c++}" --version | head -n 1)"
