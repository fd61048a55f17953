#!/usr/bin/env bash
# Runs the tests that take too long for CI: long searches for faults, other systems, and packages as users install them.
# Meant to run overnight: if one part fails, the others still run. At the end, prints a table with the time and result
# of each part; the logs are in build-campaign.
#   tests/campaign.sh [PART...]    a part is a function below; all parts if none is named
# ROWGRAD_CAMPAIGN_SHARE=10 reduces the number of kills and the fuzzing time to a tenth. The parts that use chroot
# (packages, bookworm, trixie) must run as root.
# shellcheck disable=SC2317 # parts are called by name
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../core/packaging/setup.sh"
set +e
cd "$root" || exit

share=${ROWGRAD_CAMPAIGN_SHARE-100}
if [[ ! $share =~ ^[1-9][0-9]*$ ]]; then
  echo "ROWGRAD_CAMPAIGN_SHARE: got \"$share\", expected a whole number of percent >= 1" >&2
  exit 2
fi
export DEBEMAIL=${DEBEMAIL-packages@debian.org}  # lintian requires a maintainer

durability() { tests/durability/run.sh $((10 * share)); }
ranks() {
  install_packages libopenmpi-dev openmpi-bin
  ROWGRAD_KILLS=$share tests/ranks/run.sh
}
page() {
  install_packages chromium libjs-dygraphs
  tests/report/run.sh
}
threads() { tests/thread_sanitizer.sh; }
sanitized() { tests/sanitized.sh; }
textbook() { ROWGRAD_TEXTBOOK=1 tests/run.sh -R Textbook; }
instruction_counts() { tests/instruction_counts/run.sh; }
golden() {
  install_packages python3-torch python3-numpy python3-regex
  examples/texts.sh build-campaign/texts
  ROWGRAD_DATA=build-campaign/texts tests/golden/check.py
}
levels() {
  core/packaging/make.sh
  tests/package/levels.sh
}
fuzz() { tests/fuzz/run.sh $((9 * share)); }
packages() {
  tests/package/reproduce.sh
  tests/package/chroot.sh bookworm build-packages
  tests/package/chroot.sh trixie
}
bookworm() { tests/debian.sh bookworm; }
trixie() { tests/debian.sh trixie; }
mutation() { tests/mutation/run.py build-mutation --jobs "$(nproc)"; }

all=(durability ranks page threads sanitized textbook instruction_counts golden levels fuzz packages bookworm trixie mutation)
parts=("$@")
((${#parts[@]})) || parts=("${all[@]}")
for part in "${parts[@]}"; do
  [[ " ${all[*]} " == *" $part "* ]] || { echo "usage: tests/campaign.sh [${all[*]}]..." >&2 && exit 2; }
done

mkdir -p build-campaign
table=()
failed=0
list() { printf '%s\n' "" "    minutes  part       result" "${table[@]}"; }
trap list EXIT
for part in "${parts[@]}"; do
  log=build-campaign/$part.log
  echo "$part: see $log"
  begin=$SECONDS
  (set -e && "$part") >"$log" 2>&1
  status=$?
  ((status == 0)) || failed=1
  result=$(tail -n 1 "$log")
  ((status == 0)) || result="FAILED with status $status: $result"
  table+=("$(printf '%11d  %-9s  %s' $(((SECONDS - begin) / 60)) "$part" "$result")")
done
exit "$failed"
