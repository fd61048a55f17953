#!/usr/bin/env bash
# Writes the manual page of a program, made from its --help, with help2man.
#   manual.sh FOLDER PROGRAM VERSION PAGE
set -euo pipefail

export PATH=$1:$PATH
about=$("$2" --help | sed -n '1s/[.:,].*//; 1p')
help2man --no-info --name "${about,}" --version-string "$3" --manual "rowgrad" --source "rowgrad $3" \
  --output "$4" "$2"
