#!/usr/bin/env bash
# Checks and tests the page of examples/rowgrad/report/page in a headless Chromium:
#   tests/report/run.sh [options of node --test]
# It needs node, and Debian's chromium and libjs-dygraphs. If one is missing, it prints a message and skips the tests
# or, if CI is set, fails. CHROMIUM and DYGRAPHS set other paths.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ../support/expect.sh

missing=()
command -v npm >/dev/null || missing+=("node and npm")
[[ -x ${CHROMIUM:-/usr/bin/chromium} ]] || missing+=("chromium")
[[ -f ${DYGRAPHS:-/usr/share/javascript/dygraphs}/dygraph.min.js ]] || missing+=("libjs-dygraphs")
((!${#missing[@]})) || skip "The tests of the report are skipped: ${missing[*]} not installed"

npm ci --silent --no-audit --no-fund
npm run --silent lint
npm run --silent types
rm -rf out
npm run --silent test -- "$@"
