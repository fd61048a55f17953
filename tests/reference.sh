#!/usr/bin/env bash
# Makes the reference of the public headers. A comment must be about every public name, and every link of a README
# must lead somewhere: what is not so is listed.
set -euo pipefail
# shellcheck source=SCRIPTDIR/../core/packaging/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../core/packaging/setup.sh"

install_packages doxygen python3
configure -DROWGRAD_REFERENCE=ON
compile rowgrad_reference
"$root/tests/reference.py" "$build"
