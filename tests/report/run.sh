#!/usr/bin/env bash
# Checks and tests the page of optim/report/page in a headless Chromium:
#   tests/report/run.sh [options of node --test]
# It needs node, and Debian's chromium and libjs-dygraphs; where one is missing, it says so and does nothing.
# CHROMIUM and DYGRAPHS name other places of these.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

missing=()
command -v npm >/dev/null || missing+=("node and npm")
[[ -x ${CHROMIUM:-/usr/bin/chromium} ]] || missing+=("chromium")
[[ -f ${DYGRAPHS:-/usr/share/javascript/dygraphs}/dygraph.min.js ]] || missing+=("libjs-dygraphs")
if ((${#missing[@]})); then
  printf 'The tests of the report are skipped: %s is not here\n' "${missing[@]}"
  exit 0
fi

npm ci --silent --no-audit --no-fund
npm run --silent lint
npm run --silent types
rm -rf out
exec npm run --silent test -- "$@"
