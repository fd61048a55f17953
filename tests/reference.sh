#!/usr/bin/env bash
# Generates the reference of the public headers. Fails if public names have no comment or links of READMEs are dead, and
# lists them.
set -euo pipefail
# shellcheck source=SCRIPTDIR/../core/packaging/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../core/packaging/setup.sh"

install_packages doxygen python3
configure -DROWGRAD_REFERENCE=ON
compile rowgrad_reference
"$root/tests/reference.py" "$build"
