# shellcheck shell=bash
# For scripts that need what may not be installed; to be sourced.

# skip WHY: ends the script. In CI, where everything must run, that is a failure.
skip() {
  echo "$1" >&2
  exit "$([[ ${CI-} ]] && echo 1 || echo 0)"
}
