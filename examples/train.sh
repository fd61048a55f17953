#!/usr/bin/env bash
# Installs what is missing, builds, and trains a next-token model on The Verdict.
# Takes the options of train_verdict; --help lists them.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../.setup.sh"

install_packages
[[ -x $build/examples/train_verdict ]] || echo "Building rowgrad; the first time takes about a minute on two cores."
configure
compile train_verdict
# Threads that spin while they wait slow each other down if the machine has other work.
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT-10000}
exec "$build/examples/train_verdict" "$@"
