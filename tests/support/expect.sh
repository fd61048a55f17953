# shellcheck shell=bash
# Expectations of scripts, to be sourced: one that does not hold ends the script with status 1 and shows what the last
# command wrote. A command that cannot be found ends it wherever the command stands, also in pipes and after `!`.
# `scratch` is a folder that is removed at the end, and `log` is a file with the output of the last ok or rejects.

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

# fail MESSAGE: names the line of the script, too.
fail() {
  printf '%s:%s: %s\n' "$0" "${BASH_LINENO[-2]}" "$1" >&2
  cat "$log" >&2
  exit 1
}

# ok COMMAND...: the command succeeds.
ok() {
  "$@" >"$log" 2>&1 || fail "status $?, expected 0: $*"
}

# rejects STATUS PATTERN COMMAND...: the command ends with the status, and its output has the pattern. Statuses 126 and
# 127 always fail: a program between this script and the command, such as timeout, did not find it.
rejects() {
  local status=0
  "${@:3}" >"$log" 2>&1 || status=$?
  ((status == $1 && status != 126 && status != 127)) || fail "status $status, expected $1: ${*:3}"
  says "$2"
}

# says PATTERN: the output of the last command has the pattern, perhaps over several lines.
says() {
  grep -qe "$1" "$log" || grep -qe "$1" <<<"$(tr -s ' \n' ' ' <"$log")" || fail "the output lacks '$1'"
}

# equal ACTUAL EXPECTED
equal() {
  [[ $1 == "$2" ]] || fail "got '$1', expected '$2'"
}

# same FILE FILE: both have the same bytes, and are not empty.
same() {
  cmp "$1" "$2" || fail "$1 and $2 differ"
  [[ -s $1 ]] || fail "$1 and $2 are empty"
}

# skip WHY: ends a script that needs what is not installed. In CI, where everything must run, that is a failure.
skip() {
  echo "$1" >&2
  exit "$([[ ${CI-} ]] && echo 1 || echo 0)"
}

# Bash runs this in a process of its own.
command_not_found_handle() {
  printf '%s: %s: command not found\n' "$0" "$1" >&2
  kill $$
}
