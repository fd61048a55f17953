#!/usr/bin/env bash
# Checks the READMEs. Their code is compiled elsewhere: each part of a program or test between two lines
# `// [name]` must occur in a README or in layers/EMBEDDINGS.md unchanged, except for its common indentation.
#   tests/readme.sh [ROWGRAD]    also compares the output of this program with examples/README.md
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tests/support/expect.sh
program=${1-}

readme=$(find . -name README.md -not -path './build*' -not -path '*/node_modules/*' -exec cat {} +)
words=$(wc -w <<<"$readme")
((words <= 12000)) || { echo "The READMEs have $words words, expected at most 12,000" && exit 1; }
pages=$readme$(<layers/EMBEDDINGS.md)
parts=0
for source in examples/{first_step,custom_layer,own_model,word_vectors}.cpp \
  tests/package/log.cpp tests/examples/rowgrad/report/run_report_test.cpp \
  tests/optim/rule_optimizer_test.cpp tests/optim/training/{training_run_test.cpp,table_file_run_test.cpp,bags_test.cpp,runs.hpp} \
  tests/layers/{gpt_model_test,gpt2_weights_test,fine_tune_test,nearest_test}.cpp; do
  for name in $(sed -nE 's|^ *// \[([a-z]+)\]$|\1|p' "$source" | uniq); do
    part=$(awk -v mark="// [$name]" '{ line = $0; sub(/^ +/, "", line) }
      line == mark { inside = !inside; next }
      inside { if (!indent) indent = length($0) - length(line) + 1; print substr($0, indent) }' \
      "$source")
    if [[ $pages != *"$part"* ]]; then
      echo "No README.md, nor layers/EMBEDDINGS.md, contains [$name] of $source:"
      echo "$part"
      exit 1
    fi
    parts=$((parts + 1))
  done
done
echo "The pages contain all $parts parts of programs and tests"
((parts >= 20))

# Each expression of the table "From PyTorch" must occur in the test that runs them.
tested=$(tr -s ' \n' ' ' <tests/layers/pytorch_names_test.cpp)
expressions=0
# shellcheck disable=SC2016 # the backquotes of Markdown
while IFS= read -r expression; do
  if [[ $tested != *"$expression"* ]]; then
    echo "tests/layers/pytorch_names_test.cpp lacks $expression"
    exit 1
  fi
  expressions=$((expressions + 1))
done < <(sed -n '/^## From PyTorch/,/^## A GPT/p' layers/README.md | grep '^| .*`' |
  sed 's/.* | //' | grep -o '`[^`]*`' | tr -d '`')
echo "All $expressions expressions of the table \"From PyTorch\" are tested"
((expressions >= 60))

# The tables of ops and layers must be complete.
tables=$(sed -n '/^## What there is/,/^## From PyTorch/p' layers/README.md)
names=$(sed -nE 's/^(Variable|Ids|RelativeRows) ([a-z0-9_]+)\(.*/\2/p' core/ops/*.hpp
  sed -nE 's/^class (\w+) : public (Layer|Model|Classifier|TextModel|LanguageModel|Sequential) .*/\1/p' layers/*.hpp layers/gpt/*.hpp)
for name in $names; do
  if ! grep -qw "$name" <<<"$tables"; then
    echo "layers/README.md does not list $name"
    exit 1
  fi
done

# count_path NUMBER: checks the length of a reading path of core/README.md. It counts the files that the path lists,
# without the parts that it skips.
count_path() {
  local path=$1 limit lines=0 file
  limit=$(grep -o 'path: at most [0-9]*' core/README.md | sed -n "${path}s/.* //p")
  while IFS= read -r file; do
    lines=$((lines + $(sed '/^\/\/ --- \(Checks of a rule\|Saving and loading\|A long history\|Values for which\)/,$d' "core/$file" | wc -l)))
  done < <(awk -v path="$path" '/<!-- path:/ { inside = ++count == path } /<!-- end/ { inside = 0 }
    inside' core/README.md | grep -v 'skipped' | grep -o '([^ ()]*[.][ch]pp)' | tr -d '()')
  echo "Path $path of core/README.md has $lines lines, expected at most $limit"
  ((lines > 0 && lines <= limit))
}
count_path 1
count_path 2

# Compares the blocks of output in examples/README.md. Processors round differently, and training amplifies the
# differences, so numbers with a decimal point may differ by 2 %.
if [[ ! $program || $(uname -m) != x86_64 ]]; then exit; fi
if [[ ! -f ${ROWGRAD_DATA-}/the-verdict.txt || ! -f ${ROWGRAD_DATA-}/vocab.bpe ]]; then
  skip "Output is not compared: \$ROWGRAD_DATA is not a folder with The Verdict and GPT-2's vocabulary"
fi
# shows FIRST LAST COMMAND...: checks that the command prints the lines from FIRST to LAST of the README, in this
# order. "…" matches any text, and speeds are ignored.
shows() {
  local first=$1 last=$2
  "$program" "${@:3}" >"$scratch/output"
  awk -v first="$first" -v last="$last" '
    function fits(line, expected,    parts, count, i, at) {
      count = split(expected, parts, "…")
      if (count == 1) return line == expected
      if (index(line, parts[1]) != 1) return 0
      for (i = 1; i <= count; ++i) {
        if (parts[i] == "") continue
        if (!(at = index(line, parts[i]))) return 0
        line = substr(line, at + length(parts[i]))
      }
      return parts[count] == "" || line == ""
    }
    function shape(line) {
      gsub(number, "#", line)
      return line
    }
    function numbers(line, found,    count) {
      for (; match(line, number); line = substr(line, RSTART + RLENGTH))
        found[++count] = substr(line, RSTART, RLENGTH)
      return count + 0
    }
    function near(line, expected,    here, there, count, i) {
      sub(/….*/, "", expected)
      count = numbers(expected, there)
      if (numbers(line, here) < count) return 0
      for (i = 1; i <= count; ++i)
        if (there[i] !~ /[.]/ ? here[i] != there[i] : (here[i] - there[i]) ^ 2 > (0.02 * there[i]) ^ 2) return 0
      return 1
    }
    BEGIN { number = "[0-9]+([.][0-9]+)?(e[-+][0-9]+)?" }
    FNR == NR { said[++lines] = $0; next }
    index($0, first) == 1 { inside = 1 }
    !inside { next }
    {
      sub(/[0-9.]+ [kM] tokens\/s$/, "…")
      sub(/from \$ROWGRAD_DATA \([^)]*\)/, "from $ROWGRAD_DATA (…)")
      while (++at <= lines && !(fits(shape(said[at]), shape($0)) && near(said[at], $0))) continue
      if (at > lines) { print "The program does not print this line of examples/README.md: " $0; exit failed = 1 }
      ++compared
    }
    index($0, last) == 1 { inside = 0; exit }
    END { if (!failed) print compared + 0 " lines of output agree with examples/README.md"
          exit failed || inside || !compared }' "$scratch/output" examples/README.md
}
shows "Text       The Verdict" "Validation 1.826" train --sample-tokens 0
shows "Steps      1 of SGD" "Rows without a gradient" rows --tokenizer gpt2 --rows 3
"$program" train --tokenizer word --stop-after 100 --momentum 0.9 --learning-rate 0.05 --sample-tokens 0 \
  --save "$scratch/run" >/dev/null
shows 'Row        57 of token.weight, "Jack"' '          " me the absolute' \
  rows "$scratch/run" --explain Jack --explain-steps 3
