# Completion for bash: the subcommands of rowgrad, then the options of each, from its --help-all.
_rowgrad() {
  local words
  if ((COMP_CWORD == 1)); then
    words=$(rowgrad --help | sed -n '/^Subcommands/,/^$/s/^  \([a-z]*\) .*/\1/p')
  elif [[ $2 == -* ]]; then
    words=$(rowgrad "${COMP_WORDS[1]}" --help-all 2>/dev/null | grep -o -- '--[a-z][a-z0-9-]*')
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$2")
}
complete -o default -F _rowgrad rowgrad
