#!/usr/bin/env bash
# Writes the manual page of a program with help2man, made from its --help and from manual.h2m.
#   manual.sh FOLDER PROGRAM VERSION PAGE
set -euo pipefail

export PATH=$1:$PATH
about=$("$2" --help | sed -n '1s/[.:,].*//; 1p')
more=$(dirname "${BASH_SOURCE[0]}")/manual.h2m
help2man --no-info --name "${about,}" --version-string "$3" --manual "rowgrad" --source "rowgrad $3" \
  --include <(sed "/^\.BR $2 (1),$/d" "$more") --output "$4" "$2"
