#!/usr/bin/env bash
# The code in the READMEs is code that is compiled: each part of a program between two lines
# `// [name]` must stand in it to the letter, but for the indentation that the part shares.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readme=$(cat README.md ./*/README.md)
parts=0
for program in examples/{first_step,custom_layer,own_model,exact_rows,ngram_table}.cpp \
  tests/optim/{rule_optimizer_test,training/training_run_test}.cpp \
  tests/layers/{gpt_model_test,gpt2_weights_test}.cpp; do
  for name in $(sed -nE 's|^ *// \[([a-z]+)\]$|\1|p' "$program" | uniq); do
    part=$(awk -v mark="// [$name]" '{ line = $0; sub(/^ +/, "", line) }
      line == mark { inside = !inside; next }
      inside { if (!indent) indent = length($0) - length(line) + 1; print substr($0, indent) }' \
      "$program")
    if [[ $readme != *"$part"* ]]; then
      echo "No README.md has [$name] of $program:"
      echo "$part"
      exit 1
    fi
    parts=$((parts + 1))
  done
done
echo "The READMEs have all $parts parts of the programs"
((parts >= 18))

# Each expression of the table "From PyTorch" stands in the test that runs them.
program=$(tr -s ' \n' ' ' <tests/layers/pytorch_names_test.cpp)
expressions=0
# shellcheck disable=SC2016 # the table's own marks
while IFS= read -r expression; do
  if [[ $program != *"$expression"* ]]; then
    echo "tests/layers/pytorch_names_test.cpp does not have $expression"
    exit 1
  fi
  expressions=$((expressions + 1))
done < <(sed -n '/^## From PyTorch/,/^## A GPT/p' layers/README.md | grep '^| .*`' |
  sed 's/.* | //' | grep -o '`[^`]*`' | tr -d '`')
echo "All $expressions expressions for PyTorch's are run"
((expressions >= 60))

# The tables of ops and layers are complete.
tables=$(sed '/^## /q' layers/README.md)
names=$(sed -nE 's/^(Variable|Ids|RelativeRows) ([a-z0-9_]+)\(.*/\2/p' core/ops/*.hpp
  sed -nE 's/^class (\w+) : public (Layer|LanguageModel|Sequential) .*/\1/p' layers/*.hpp)
for name in $names; do
  if ! grep -qw "$name" <<<"$tables"; then
    echo "layers/README.md lists no $name"
    exit 1
  fi
done
