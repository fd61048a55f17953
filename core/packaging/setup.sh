# shellcheck shell=bash
# Functions that install packages and build; scripts source this file. ROWGRAD_BUILD is the build folder.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${ROWGRAD_BUILD:-$root/build}

packages=(
  g++ cmake ninja-build
  libxtensor-dev libxtensor-blas-dev libxsimd-dev libopenblas-openmp-dev
  libutf8proc-dev                            # tokenizers
  libxxhash-dev                              # checksums
  nlohmann-json3-dev                         # JSON in programs and tests
  libcli11-dev                               # program options
  libjs-dygraphs zlib1g-dev                  # reports: charts, compressed data
  curl ca-certificates                       # examples/texts.sh
  libgtest-dev
)

# is_configured: succeeds if CMake has configured the build folder.
is_configured() { [[ -f $build/build.ninja || -f $build/Makefile ]]; }

# install_packages [PACKAGE...]: installs missing packages among `packages` and the arguments. If it cannot, it prints
# their names and continues, because the libraries may be installed in another way. CMake reports missing libraries.
install_packages() {
  local package missing=()
  if ! command -v dpkg-query >/dev/null; then
    is_configured || printf '%s\n' "dpkg-query is not installed. rowgrad needs the contents of these Debian packages:" \
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
    printf '%s\n' "rowgrad needs these Debian packages, which apt-get can install as root:" \
      "  ${missing[*]}" >&2
    return
  fi
  echo "Installing packages: ${missing[*]}"
  quietly "${as_root[@]}" apt-get update || echo "Continuing with the existing package lists."
  # --no-remove: fails rather than removing an installed package.
  quietly "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-remove \
    --no-install-recommends -o DPkg::Lock::Timeout=120 "${missing[@]}" ||
    echo "Continuing without these packages." >&2
}

# configure [-DOPTION=VALUE...]: runs CMake in Release mode. Without options, does nothing if CMake has run before.
configure() {
  if is_configured && (($# == 0)); then return; fi
  local generator=()
  # An existing build folder cannot change its generator.
  if [[ ! -f $build/CMakeCache.txt ]] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
  quietly cmake -S "$root" -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release "$@"
}

# compile [TARGET...]: builds these targets, or all.
compile() {
  quietly cmake --build "$build" -j "$(nproc)" ${1:+--target "$@"}
}

# quietly COMMAND...: prints the command's output only if it fails.
quietly() {
  local output status=0
  output=$(mktemp)
  "$@" >"$output" 2>&1 || status=$?
  ((status == 0)) || cat "$output" >&2
  rm -f "$output"
  return "$status"
}
