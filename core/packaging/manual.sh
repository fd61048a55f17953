#!/usr/bin/env bash
# Writes the manual page of rowgrad or of a subcommand (rowgrad-train) with help2man, from its --help and manual.h2m,
# which refers to the other pages.
#   manual.sh FOLDER NAME VERSION PAGE [OTHER...]
set -euo pipefail

export PATH=$1:$PATH
command=${2/-/ }
about=$($command --help | sed -n '1s/[.:,].*//; 1p')
others=
for other in "${@:5}"; do
  [[ $other == "$2" ]] || others+=".BR $other (1),\\n"
done
more=$(dirname "${BASH_SOURCE[0]}")/manual.h2m
help2man --no-info --name "${about,}" --version-string "$3" --manual "rowgrad" --source "rowgrad $3" \
  --include <(sed "s/^@PROGRAMS@$/${others%\\n}/" "$more") --output "$4" "$command"
# help2man uses the first word as the title, and both words as the name.
sed -i -E "s/^\.TH \S+/.TH ${2^^}/; s/^$command \\\\- /$2 \\\\- /" "$4"
