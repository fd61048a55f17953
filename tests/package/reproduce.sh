#!/usr/bin/env bash
# Tests that builds are reproducible: builds the packages with core/packaging/make.sh, then again from their source
# archive in another folder, without git and without a compiler cache. Libraries and packages must be the same, except
# rowgrad-doc, where doxygen names pages after the path of the folder.
# Also runs lintian, which must find no errors. lintian requires a maintainer, which $DEBEMAIL names.
#   tests/package/reproduce.sh [-DOPTION=VALUE...]     options for both builds
# ROWGRAD_BUILD names the first build folder; build-packages by default.
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
echo "Builds in two folders have the same libraries and packages"
install_packages lintian
lintian --allow-root --fail-on error "$first"/*.deb
