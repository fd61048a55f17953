#!/usr/bin/env bash
# Installs what is missing, builds, and trains a model on The Verdict:
#   examples/train.sh [options of train_verdict]   a next-token model
#   examples/train.sh --gpt [options of train_gpt]   a GPT
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../.setup.sh"

program=train_verdict
options=()
for option; do
  if [[ $option == --gpt ]]; then
    program=train_gpt
  else
    options+=("$option")
  fi
done

install_packages
[[ -x $build/examples/$program ]] || echo "Building rowgrad; the first time takes about a minute on two cores."
configure
compile "$program"
# Threads that spin while they wait slow each other down if the machine has other work.
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT-10000}
exec "$build/examples/$program" "${options[@]}"
