#!/usr/bin/env bash
# Counts the lines of C++ of each room, and the words of the READMEs, and fails if there are more than
# tests/budget.txt allows. Who needs more raises a number there, in a commit of its own that says why.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# count ROOM: the lines of a folder's own sources; ROOM/… has those of all folders below it, too.
count() {
  case $1 in
    READMEs) find . -name README.md -not -path './build*' -not -path '*/node_modules/*' -exec cat {} + | wc -w ;;
    */…) find "${1%/…}" -name '*.[ch]pp' -exec cat {} + | wc -l ;;
    *) find "$1" -maxdepth 1 -name '*.[ch]pp' -exec cat {} + | wc -l ;;
  esac
}

status=0
while read -r budget room; do
  [[ $budget =~ ^[0-9]+$ ]] || continue
  lines=$(count "$room")
  printf '%7d of %6d  %s' "$lines" "$budget" "$room"
  ((lines <= budget)) || { status=1 && printf ': %d too many' $((lines - budget)); }
  echo
done <tests/budget.txt
exit "$status"
