#!/usr/bin/env bash
# Builds all packages in build-packages: the Debian packages, a .tar.xz, and the sources.
#   core/packaging/make.sh [-DOPTION=VALUE...]
# ROWGRAD_BUILD is the build folder. The packages are dated $SOURCE_DATE_EPOCH or, by default, the last commit.
set -euo pipefail
ROWGRAD_BUILD=${ROWGRAD_BUILD:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build-packages}
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

levels=("-DROWGRAD_LEVELS=x86-64;x86-64-v3;x86-64-v4")
[[ $(uname -m) == x86_64 ]] || levels=(-DBUILD_SHARED_LIBS=ON "-DROWGRAD_LEVELS=armv8-a")
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

# rowgrad-mpi needs MPI; dpkg-dev finds the packages' dependencies.
install_packages libopenmpi-dev help2man dpkg-dev file doxygen
configure -DCMAKE_INSTALL_PREFIX=/usr "${levels[@]}" -DROWGRAD_REFERENCE=ON "$@"
compile all rowgrad_manuals rowgrad_reference
rm -f "$build"/*rowgrad*.deb "$build"/rowgrad-*.tar.xz
(cd "$build" && quietly cpack)

# Archives the sources: the files in git or, without git, all files except builds. The archive is reproducible.
version=$(sed -n 's/^project(rowgrad VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
list_sources() {
  if [[ -e $root/.git ]]; then
    git -C "$root" ls-files -z
  else
    (cd "$root" && find . -type f -not -path './build*' -not -path '*/__pycache__/*' -printf '%P\0')
  fi
}
list_sources | LC_ALL=C sort -z |
  tar -C "$root" --null --files-from=- --transform "s,^,rowgrad-$version/," --mtime="@$SOURCE_DATE_EPOCH" \
    --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --format=gnu -cJf "$build/rowgrad-$version.tar.xz"
ls "$build"/*rowgrad*.deb "$build"/rowgrad-*.tar.xz
