# shellcheck shell=bash
# What every script does first; to be sourced. Callers may set ROWGRAD_BUILD, the build folder.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${ROWGRAD_BUILD:-$root/build}

packages=(
  g++ cmake ninja-build
  libxtensor-dev libxtensor-blas-dev libxsimd-dev libopenblas-openmp-dev
  libutf8proc-dev                            # tokenizers
  libxxhash-dev                              # checksums
  nlohmann-json3-dev                         # JSON of the programs and the tests
  libcli11-dev                               # the programs' options
  libjs-dygraphs zlib1g-dev                  # the programs' reports: charts, and data in the page
  curl ca-certificates                       # examples/texts.sh
  libgtest-dev
)

# is_configured: true if CMake has made the build folder.
is_configured() { [[ -f $build/build.ninja || -f $build/Makefile ]]; }

# install_packages [PACKAGE...]: installs those of `packages` and of the arguments that are missing. Where it cannot, it
# names them: others may have come without a package, and CMake says what it does not find.
install_packages() {
  local package missing=()
  if ! command -v dpkg-query >/dev/null; then
    is_configured || printf '%s\n' "This system has no Debian packages. rowgrad needs what is in these:" \
      "  ${packages[*]} $*" >&2
    return
  fi
  for package in "${packages[@]}" "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
      missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  local as_root=()
  ((EUID == 0)) || as_root=(sudo)
  if ! command -v apt-get >/dev/null || ! command -v "${as_root[@]:-true}" >/dev/null; then
    printf '%s\n' "rowgrad needs these Debian packages, which apt-get as root would install:" \
      "  ${missing[*]}" >&2
    return
  fi
  echo "Installing what rowgrad needs: ${missing[*]}"
  quietly "${as_root[@]}" apt-get update || echo "Going on with the package lists that are there."
  # --no-remove: rather fail than take away a package that somebody wants.
  quietly "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-remove \
    --no-install-recommends -o DPkg::Lock::Timeout=120 "${missing[@]}" ||
    echo "Going on without these packages." >&2
}

# configure [-DOPTION=VALUE...]: in Release, unless that was done before and there are no options.
configure() {
  if is_configured && (($# == 0)); then return; fi
  local generator=()
  # A build folder that exists cannot change its generator.
  if [[ ! -f $build/CMakeCache.txt ]] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
  quietly cmake -S "$root" -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release "$@"
}

# compile [TARGET...]: brings those targets up to date, or all of them.
compile() {
  quietly cmake --build "$build" -j "$(nproc)" ${1:+--target "$@"}
}

# quietly COMMAND...: shows the command's output only if it fails.
quietly() {
  local output status=0
  output=$(mktemp)
  "$@" >"$output" 2>&1 || status=$?
  ((status == 0)) || cat "$output" >&2
  rm -f "$output"
  return "$status"
}
