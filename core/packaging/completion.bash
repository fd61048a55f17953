# Bash completion: the subcommands of rowgrad, and the options of each from its --help-all.
_rowgrad() {
  local words='' subcommands
  subcommands=$("${COMP_WORDS[0]}" --help 2>/dev/null | sed -n '/^Subcommands/,/^$/s/^  \([a-z]*\) .*/\1/p')
  if ((COMP_CWORD == 1)); then
    words="$subcommands help --help --version"
  elif [[ ${COMP_WORDS[1]} == help ]] && ((COMP_CWORD == 2)); then
    words=$subcommands
  elif [[ $2 == -* ]]; then
    # --[no-]shuffle means two options.
    words=$("${COMP_WORDS[0]}" "${COMP_WORDS[1]}" --help-all 2>/dev/null |
      sed -n 's/--\[no-\]\([a-z0-9-]*\)/--\1 --no-\1/g; p' | grep -o -- '--[a-z][a-z0-9-]*')
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$2")
}
complete -o default -F _rowgrad rowgrad
