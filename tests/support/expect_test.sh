#!/usr/bin/env bash
# Tests expect.sh: each script below must exit with the status before it; failing scripts must end at once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

while read -r expected script; do
  status=0
  output=$(bash -c "set -euo pipefail; source ./expect.sh; $script; echo the end" 2>&1) || status=$?
  [[ $status == "$expected" ]] || { echo "status $status, expected $expected: $script: $output" && exit 1; }
  [[ $expected == 0 ]] || [[ $output != *"the end" ]] || { echo "continues after a failure: $script" && exit 1; }
done <<'END'
0 ok true; rejects 3 "some words" bash -c "echo some; echo words; exit 3"; says "^some"; equal a a; same expect.sh ./expect.sh
1 ok false
143 ok missing
1 rejects 1 "" true
143 rejects 1 "" missing
1 rejects 1 "" ./missing
1 rejects 1 other bash -c "echo words; exit 1"
1 equal a b
1 same expect.sh /dev/null
1 same /dev/null /dev/null
1 rejects 127 "" timeout 3 missing
1 rejects 126 "" ./clang.sh
143 ! missing
143 missing | cat
143 true && missing || true
143 (missing) || true
143 echo "$(missing)"
143 missing 2>/dev/null || true
END
echo "failed expectations end a script"
