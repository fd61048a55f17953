# shellcheck shell=bash
# Expectations for scripts; source this file. A failed expectation ends the script with status 1 and shows the output
# of the last command. A command that is not found ends the script, even in a pipe or after `!`. `scratch` is a folder
# that is removed at the end, and `log` is a file with the output of the last ok or rejects.

scratch=$(mktemp -d)
log=$scratch/log
: >"$log"
finish() {
  # shellcheck disable=SC2046
  kill $(jobs -p) 2>/dev/null || true
  wait
  rm -rf --one-file-system "$scratch"
}
trap finish EXIT

# fail MESSAGE: ends the script with this message and the line number.
fail() {
  printf '%s:%s: %s\n' "$0" "${BASH_LINENO[-2]}" "$1" >&2
  cat "$log" >&2
  exit 1
}

# ok COMMAND...: expects the command to succeed.
ok() {
  "$@" >"$log" 2>&1 || fail "status $?, expected 0: $*"
}

# rejects STATUS PATTERN COMMAND...: expects the command to exit with this status, and its output to match the pattern.
# Statuses 126 and 127 always fail: a program that runs the command, such as timeout, did not find it.
rejects() {
  local status=0
  "${@:3}" >"$log" 2>&1 || status=$?
  ((status == $1 && status != 126 && status != 127)) || fail "status $status, expected $1: ${*:3}"
  says "$2"
}

# says PATTERN: expects the output of the last command to match the pattern, even across lines.
says() {
  grep -qe "$1" "$log" || grep -qe "$1" <<<"$(tr -s ' \n' ' ' <"$log")" || fail "the output lacks '$1'"
}

# equal ACTUAL EXPECTED: expects two equal strings.
equal() {
  [[ $1 == "$2" ]] || fail "got '$1', expected '$2'"
}

# same FILE FILE: expects two files with the same bytes, not empty.
same() {
  cmp "$1" "$2" || fail "$1 and $2 differ"
  [[ -s $1 ]] || fail "$1 and $2 are empty"
}

# skip REASON: ends a script that needs something that is not installed. With CI set, this is a failure.
skip() {
  echo "$1" >&2
  exit "$([[ ${CI-} ]] && echo 1 || echo 0)"
}

# Ends the script if a command is not found. Bash runs this function in a separate process.
command_not_found_handle() {
  printf '%s: %s: command not found\n' "$0" "$1" >&2
  kill $$
}
