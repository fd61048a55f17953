#!/usr/bin/env bash
# Makes all packages, in build-packages: Debian's, a .tar.xz, and one of the sources.
#   .packaging/make.sh [-DOPTION=VALUE...]
# ROWGRAD_BUILD names another build folder. $SOURCE_DATE_EPOCH dates the packages, or the last commit.
set -euo pipefail
ROWGRAD_BUILD=${ROWGRAD_BUILD:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build-packages}
source "$(dirname "${BASH_SOURCE[0]}")/../.setup.sh"

levels=("-DROWGRAD_LEVELS=x86-64;x86-64-v3;x86-64-v4")
[[ $(uname -m) == x86_64 ]] || levels=(-DBUILD_SHARED_LIBS=ON "-DROWGRAD_LEVELS=armv8-a")
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

# MPI has the static libraries of ranks and the programs; what the packages need is found with dpkg-dev.
install_packages libopenmpi-dev help2man dpkg-dev file doxygen
configure -DCMAKE_INSTALL_PREFIX=/usr "${levels[@]}" -DROWGRAD_REFERENCE=ON "$@"
compile all rowgrad_manuals rowgrad_reference
rm -f "$build"/*.deb "$build"/*.tar.xz
(cd "$build" && quietly cpack && quietly cpack --config CPackSourceConfig.cmake)
ls "$build"/*.deb "$build"/*.tar.xz
