#!/usr/bin/env bash
# Makes the reference of the public headers. Every public name must be documented, and every link
# must lead somewhere: what is not so is listed.
set -euo pipefail
# shellcheck source=SCRIPTDIR/../core/packaging/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../core/packaging/setup.sh"

install_packages doxygen
configure -DROWGRAD_REFERENCE=ON
compile rowgrad_reference

# Doxygen says nothing about values of enumerations.
cd "$build/reference"
awk '
  FNR == 1 { skipped = FILENAME ~ /(index|_8[a-z]+|dir_[0-9a-f]+)\.xml$/ }
  skipped { next }
  /<compounddef / { hidden = /prot="private"/; kind = /kind="(class|struct|concept)"/ }
  /<compounddef / && kind && !hidden { ++names }
  /<compoundname>/ { scope = $0; gsub(/ *<[^>]*>/, "", scope) }
  /<memberdef / {
    match($0, /id="[^"]*"/)
    id = substr($0, RSTART, RLENGTH)
    counts = !hidden && !/prot="private"/ && !(id in seen)
    seen[id] = 1
    names += counts
  }
  /<enumvalue / { value = 1; documented = 0; names += counts }
  value && /<name>/ { name = $0; gsub(/ *<[^>]*>/, "", name) }
  value && /<para>/ { documented = 1 }
  /<\/enumvalue>/ {
    value = 0
    if (counts && !documented) { print scope "::" name " is not documented"; ++missing }
  }
  END {
    print "The reference has " names " names, " missing + 0 " values of enumerations without documentation"
    exit missing > 0
  }' xml/*.xml

# Links within the reference, those in code and in lists, too.
dead=$(grep -oh 'href="[^"#:]*\.html' html/*.html | sort -u | cut -d'"' -f2 |
  while IFS= read -r page; do [[ -e html/$page ]] || echo "$page"; done)
if [[ $dead ]]; then
  echo "There is a link, but no page: $dead"
  exit 1
fi
