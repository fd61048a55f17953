#!/usr/bin/env bash
# Whether libraries, programs and headers are the same wherever they are made: the packages of
# core/packaging/make.sh, and those that their archive of the sources makes in another folder, without git
# and without a compiler cache. (The reference is not: doxygen names the pages of folders by their path.)
# Lintian finds no errors in them, if $DEBEMAIL says who answers for them.
#   tests/package/reproduce.sh [-DOPTION=VALUE...]     with these options, both times
# ROWGRAD_BUILD names the first build folder, or it is build-packages.
set -euo pipefail
ROWGRAD_BUILD=${ROWGRAD_BUILD:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build-packages}
source "$(dirname "${BASH_SOURCE[0]}")/../../core/packaging/setup.sh"
source "$root/tests/support/expect.sh"
export CCACHE_DISABLE=1
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

first=$build
ROWGRAD_BUILD=$first "$root/core/packaging/make.sh" "$@"
mkdir "$scratch/elsewhere"
sources=$(find "$first" -maxdepth 1 -name 'rowgrad-*.tar.xz' -not -name "*-$(uname -s)-*")
tar x -J -C "$scratch/elsewhere" --strip-components 1 -f "$sources"
second=$scratch/other-build
ROWGRAD_BUILD=$second "$scratch/elsewhere/core/packaging/make.sh" "$@"

while read -r file; do
  echo "$file"
  same "$first/$file" "$second/$file"
done < <(cd "$first" && find . -maxdepth 3 \( -name '*.so.*.*' -o -name '*.deb' -o -name "${sources##*/}" \) \
  -not -name 'rowgrad-doc*' -not -path './_CPack*' -type f | sort)
echo "two builds in two folders: the same libraries and packages"
install_packages lintian
lintian --allow-root --fail-on error "$first"/*.deb
