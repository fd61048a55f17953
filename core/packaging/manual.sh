#!/usr/bin/env bash
# Writes the manual page of a program with help2man, made from its --help and from manual.h2m, which names the
# other programs.
#   manual.sh FOLDER PROGRAM VERSION PAGE [OTHER...]
set -euo pipefail

export PATH=$1:$PATH
about=$("$2" --help | sed -n '1s/[.:,].*//; 1p')
others=
for other in "${@:5}"; do
  [[ $other == "$2" ]] || others+=".BR $other (1),\\n"
done
more=$(dirname "${BASH_SOURCE[0]}")/manual.h2m
help2man --no-info --name "${about,}" --version-string "$3" --manual "rowgrad" --source "rowgrad $3" \
  --include <(sed "s/^@PROGRAMS@$/${others%\\n}/" "$more") --output "$4" "$2"
