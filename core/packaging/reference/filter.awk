# What doxygen reads of a file: its lines, with what doxygen wants said in its own way. No line is
# added or removed, so that line numbers stay true. To be called with -v root=FOLDER and one file.
#
# In a header: the comment at its top is the file's, and that of a class which has none of its own;
# everything belongs to the group of its folder; `// ...` behind a declaration documents it; and a
# comment above several declarations without a blank line between them is about all of them. In a
# README: links to files and headings of this project become links in the reference, and so do the
# names of classes.

BEGIN {
  path = ARGV[1]
  if (index(path, root "/") == 1) path = substr(path, length(root) + 2)
  sub(/^.*\/include\/rowgrad\//, "", path)
  folder = path
  if (!sub("/[^/]*$", "", folder)) folder = ""
  header = path ~ /\.hpp$/
  markdown = path ~ /\.md$/
  depth = 0
  kind[0] = "namespace"
}

header { print filtered_header($0); previous = $0 }
markdown { print filtered_markdown($0) }
!header && !markdown { print }

# --- Headers ------------------------------------------------------------------------------------

function filtered_header(line) {
  if (line == "" && previous ~ /^#pragma once/) return "/// @file"
  if (line ~ /^\/\/( |$)/ && !top_ended) {
    has_top = 1
    return doc_line("/" line)
  }
  top_ended = has_top
  if (line ~ /^ *\/\/\//) return doc_line(line)
  in_doc = 0
  if (line ~ /^ *\/\//) return plain_comment(line)
  trailing = 0
  if (line ~ /^ *$/) {
    if (statement == "") doc = ""
    return line
  }
  if (line ~ /^namespace rowgrad/) {
    depth = 1
    kind[1] = "namespace"
    return line " /** @addtogroup " group() " */ /** @{ */"
  }
  if (line ~ /^}  \/\/ namespace rowgrad/) return "/** @} */ " line
  if (line ~ /^ *#/) return line
  if (line ~ /^ *(public|private|protected):/) {
    doc = ""
    return line
  }
  return declaration(line)
}

# A line of a `///` comment, and of that at the top. What is indented after an empty line is shown
# as it stands.
function doc_line(line,    text) {
  text = line
  sub(/^ *\/\/\//, "", text)
  if (!in_doc) {
    doc = ""
    blank = list = block = 0
  }
  in_doc = 1
  doc_is_used = 0
  if (text ~ /^ ?[^ ]/) block = 0
  else if (text ~ /^ *- /) list = 1
  else if (text != "" && blank && !list) block = 1
  else if (text ~ /^ ?[^ ]/ && blank) list = 0
  blank = text == ""

  if (block) sub(/\/\/\//, "///    ", line)
  else line = escaped(line)
  doc = doc (blank ? " <p>" : escaped(text))
  return line
}

# Another `//` comment: the second line of one behind a declaration, or of no interest.
function plain_comment(line) {
  match(line, /^ */)
  if (trailing && RLENGTH > trailing_indent) {
    sub(/\/\//, "///<", line)
    return escaped(line)
  }
  trailing = 0
  doc = ""
  return line
}

# A line of code, mostly the only one of a declaration.
function declaration(line,    code, comment, starts, about, outer) {
  code = line
  comment = ""
  if (match(code, /  \/\/ .*/)) {
    comment = substr(code, RSTART + 5)
    code = substr(code, 1, RSTART - 1)
    sub(/ +$/, "", code)
    sub(/(^|; )NOLINT.*/, "", comment)  # a word to clang-tidy
    comment = sentence(escaped(comment))
    line = code
  }
  starts = statement == "" && kind[depth] != "body" && code !~ /^ *}/
  about = starts && comment == "" ? said_of(code) : ""
  if (starts && comment == "" && about == "" && !doc_is_used) code = with_values(code, doc)
  if (starts) doc_is_used = 1

  if (kind[depth] == "body") comment = ""
  outer = depth
  scan(line)
  if (about != "") return documented(code, about)
  if (comment == "") return code
  # A comment behind what goes on in further lines is put before it.
  if (starts && (statement != "" || code ~ /{$/ || code ~ /^ *enum / || has_several_names(code))) {
    if (code ~ /^struct [A-Za-z]*Options {$/ && comment ~ /^Of /)
      comment = "Options o" substr(comment, 2)
    if (depth > outer) docs[depth] = comment
    return documented(code, comment)
  }
  if (code ~ /{$/ || code ~ /^ *}$/) return code
  match(code, /^ */)
  trailing_indent = RLENGTH
  trailing = 1
  return code "  ///< " comment
}

# The code with a comment before it, about each of several names.
function documented(code, comment,    type) {
  code = with_values(code, comment)
  if (has_several_names(code)) {
    type = code
    sub(/^ */, "", type)
    sub(/ .*/, "", type)
    gsub(/, /, "; /** " literal(comment) " */ " type " ", code)
  }
  match(code, /^ */)
  return substr(code, 1, RLENGTH) "/** " comment " */ " substr(code, RLENGTH + 1)
}

function has_several_names(code) { return code ~ /^ *[A-Za-z0-9_:]+ [a-z_0-9]+(, [a-z_0-9]+)+;$/ }

# `enum E { a, b };`: what is said of it is about both values.
function with_values(code, comment,    at, list) {
  if (comment == "" || code !~ /^ *enum .*{ .* };$/) return code
  at = index(code, "{")
  list = substr(code, at + 2)
  sub(/ };$/, "", list)
  gsub(/, /, " /**< " literal(comment) " */, ", list)
  return substr(code, 1, at) " " list " /**< " comment " */ };"
}

# For the second argument of sub() and gsub().
function literal(text) {
  gsub(/\\/, "\\\\", text)
  gsub(/&/, "\\\\&", text)
  return text
}

# What the lines before a declaration say of it that has no comment of its own.
function said_of(code,    name) {
  name = spoken(code)
  if (name != "") return name
  if (doc_is_used && doc != "" && code !~ /^ *(friend [A-Za-z ]*;|~)|(override|final)[ ;]/)
    return doc
  if (doc != "") return ""
  if (code ~ /^class .*{$/ && !classes++ && has_top) return "@copydoc " path
  if (code !~ /^struct [A-Za-z]*Options {$/) return ""
  name = substr(code, 8, length(code) - 16)
  if (name == "Sgd") name = "SGD"
  if (name == "RmsProp") name = "RMSprop"
  return "Options of " name "."
}

# What explains all members of a type.
function explanation(type) {
  if (type ~ /RuleDefaults/) return "See RuleDefaults."
  if (type ~ /class RuleStepsOf/) return "See RuleSteps."
  if (type ~ /class MissedSteps</) return "See MissedSteps."
  if (type ~ /class DataLoader::Iterator/) return "As std::input_iterator asks for."
  if (type ~ /class PoolAllocator/) return "As of any allocator: see std::allocator."
  return ""
}

# What a declaration says by itself.
function spoken(code) {
  if (explained[depth] != "" && doc == "")
    return explained[depth] ~ /RuleDefaults/ && code ~ /^ *real / ? "A coefficient of one step." : \
      explained[depth]
  if (code ~ /&&[^()]*\)[a-z ]* = delete;/) return "Cannot be moved."
  if (code ~ /\) = delete;/) return "Cannot be copied."
  if (code ~ /operator==.* = default;/) return "Whether all members are equal."
  if (code ~ /&&[^()]*\)[a-z ]* = default;/) return "Moves all members."
  if (code ~ /const [A-Za-z]*&[^()]*\)[a-z ]* = default;/) return "Copies all members."
  if (code ~ /~[A-Za-z]*\(\)[a-z ]* = default;/) return "Destroys all members."
  if (code ~ /\(\)[a-z ]* = default;/) return "With the members' initial values."
  if (code ~ /^ *(virtual )?~[A-Za-z]*\(\)/) return "Destroys it."
  return ""
}

# Keeps `depth`, `kind` and `statement` over the code of a line.
function scan(code,    i, c, ended) {
  gsub(/"([^"\\]|\\.)*"/, "\"\"", code)
  gsub(/'([^'\\]|\\.)'/, "''", code)
  for (i = 1; i <= length(code); i++) {
    c = substr(code, i, 1)
    if (c == "{") {
      depth++
      kind[depth] = kind[depth - 1] == "body" || statement ~ /[(=]/ ? "body" : \
        statement ~ /(^| )(class|struct|union|namespace) / ? "type" : \
        statement ~ /(^| )enum / ? "enum" : "body"
      opened[depth] = statement
      explained[depth] = explanation(statement)
      docs[depth] = doc
      doc = ""
      statement = ""
    } else if (c == "}") {
      statement = opened[depth]
      ended = kind[depth]
      doc = docs[depth]
      depth--
      # A declaration is over after the body of a function, but after a type or an initializer only
      # at its semicolon.
      if (ended == "body" && statement ~ /\)[^=]*$/ && substr(code, i + 1, 1) !~ /[;,.)]/)
        statement = ""
    } else if (c == ";") {
      if (parens == 0) statement = ""
    } else if (c == "," && kind[depth] == "enum") {
      statement = ""
    } else if (c != " " || statement != "") {
      statement = statement c
    }
    if (c == "(") parens++
    if (c == ")") parens--
  }
  if (statement != "") statement = statement " "
}

function group(    name) {
  name = folder
  gsub("/", "_", name)
  return name
}

# No tags of HTML, and no commands of doxygen, in text; and no sentence that ends after "et al.".
function escaped(text,    result, i, c, code) {
  result = ""
  code = 0
  for (i = 1; i <= length(text); i++) {
    c = substr(text, i, 1)
    if (c == "`") code = !code
    if (!code && c == "<" && substr(text, i - 3, 3) != "///") c = "\\<"
    if (!code && c == "\\") c = "\\\\"
    result = result c
  }
  gsub(/et al\. ?/, "et al.\\ ", result)
  return result
}

# What stands behind a declaration, as a sentence; unless it begins with a name or a formula.
function sentence(text) {
  if (text !~ /^[a-z][a-z]+[ ,;:]/ && text !~ /^[a-z][a-z]+$/) return text
  if (text ~ /[A-Za-z0-9)]$/) text = text "."
  return toupper(substr(text, 1, 1)) substr(text, 2)
}

# --- READMEs ------------------------------------------------------------------------------------

function filtered_markdown(line,    title, mark) {
  if (line ~ /^ *```/) fenced = !fenced
  if (fenced || line ~ /^    /) return line
  if (line ~ /^#+ /) {
    title = line
    sub(/^#+ /, "", title)
    mark = page(path)
    if (line !~ /^# /) mark = mark "_" slug(title)
    if (mark != "README") line = line " {#" mark "}"
    return line
  }
  return with_names(with_links(line))
}

# `Embedding` leads to its page, unless it is the text of a link.
function with_names(line,    result, name) {
  if (!has_names) find_names()
  result = ""
  while (match(line, /`[A-Z][A-Za-z]+`/)) {
    name = substr(line, RSTART + 1, RLENGTH - 2)
    result = result substr(line, 1, RSTART - 1)
    if (name in names && result !~ /\[$/)
      result = result "<code>@ref rowgrad::" name " \"" name "\"</code>"
    else
      result = result "`" name "`"
    line = substr(line, RSTART + RLENGTH)
  }
  return result line
}

# The classes of the public headers, and other names of them.
function find_names(    command, line) {
  has_names = 1
  command = "cd '" root "' && cat core/[abdopt]*/*.hpp core/data/*/*.hpp layers/*.hpp layers/gpt/*.hpp optim/*.hpp " \
    "optim/training/*.hpp optim/report/run_report.hpp"
  while ((command | getline line) > 0) {
    if (line !~ /^(class|struct) .*{( |$)/ && line !~ /^using [A-Za-z]+ = /) continue
    sub(/^[a-z]+ /, "", line)
    sub(/[^A-Za-z].*/, "", line)
    names[line] = 1
  }
  close(command)
}

# Links to files of this project lead to their pages in the reference.
function with_links(line,    result, target) {
  result = ""
  while (match(line, /\]\([^() ]+\)/)) {
    target = substr(line, RSTART + 2, RLENGTH - 3)
    result = result substr(line, 1, RSTART + 1) reference(target) ")"
    line = substr(line, RSTART + RLENGTH)
  }
  return result line
}

function reference(target,    place, at) {
  if (target ~ /^[a-z]+:\/\//) return target
  at = index(target, "#")
  place = at ? substr(target, at + 1) : ""
  if (at) target = substr(target, 1, at - 1)
  target = target == "" ? path : joined(folder, target)
  if (target ~ /\.md$/) return "@ref " page(target) (place != "" ? "_" slug(place) : "")
  if (target ~ /\.(png|svg)$/) return target
  return "@ref " target
}

# folder/target, without "..".
function joined(folder, target) {
  while (sub(/^\.\.\//, "", target)) {
    if (!sub(/\/[^\/]*$/, "", folder)) folder = ""
  }
  return folder == "" ? target : folder "/" target
}

function page(file) {
  sub(/\.md$/, "", file)
  gsub(/[^A-Za-z0-9]/, "_", file)
  return file
}

# The name that GitHub gives a heading.
function slug(title) {
  title = tolower(title)
  gsub(/[^a-z0-9 _-]/, "", title)
  gsub(/ /, "-", title)
  return title
}
