#!/usr/bin/env bash
# Generates the reference of the public headers. Fails and lists the names if a public name has no comment or a link
# of a README is dead.
set -euo pipefail
# shellcheck source=SCRIPTDIR/../core/packaging/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../core/packaging/setup.sh"

install_packages doxygen python3
configure -DROWGRAD_REFERENCE=ON
compile rowgrad_reference
"$root/tests/reference.py" "$build"
