#!/usr/bin/env python3
"""Mutation testing: inserts small faults into the library and the programs, and finds the tests that detect them.

  tests/mutation/run.py FOLDER [--faults COUNT] [--jobs COUNT] [--only WORD] [--matrix]
  tests/mutation/run.py --list     prints the faults

All faults are compiled into one build in FOLDER, at -O1; an environment variable activates one. The faults are: each
check, disabled; COUNT others (300 by default) in the library; and others in examples/, with the same number per line of
code. The others are drawn from all places where an operator, number, condition or statement can be changed.

Each fault is tested with the test suites that reach it, fastest first, until one fails. (Each block of
tests/examples/rowgrad/commands.txt counts as a suite.) With --matrix, all these suites run, and the campaign ends with
the number of faults that only one suite detects. --only tests the faults whose key contains WORD. Results are stored in
FOLDER/faults.tsv. A stopped campaign continues from there, but starts over after a new commit. A campaign takes hours
and is a part of tests/campaign.sh; CI only runs --list.

A fault's key is its file, function, kind and code, and a number if several are equal. The hash of the key decides
whether the fault is drawn, so an edit changes only the faults of the code that it touches.

The campaign fails if the tests detect less than 97 % of the library's faults. Undetected faults of the programs are
listed, but do not count. Faults that cannot change any result are listed with the reason in faults.tsv next to this
script, and are not drawn. Add an undetected fault to that file only if you know why no test can detect it.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Tests of time and memory, which -O1 changes, tests that take long, and disabled tests.
LEFT_OUT = "*InProportion*:*InLinear*:*AStepCosts*:SteadyStep*:Textbook*:*AnUntrainedGpt*:RowsLeftBehind*:DISABLED*"

KNOWN = pathlib.Path(__file__).with_name("faults.tsv")  # key and reason of faults that change no result
MIN_SHARE = 0.97

COMMANDS = "Programs/Commands"  # each test of this suite counts as a suite

HEADER = r"""
#pragma once
#include <cstdlib>
#include <fcntl.h>
#include <type_traits>
#include <unistd.h>

namespace mutant {
inline const int chosen = std::getenv("MUTANT") ? std::atoi(std::getenv("MUTANT")) : -1;
inline unsigned char reached[8192];
struct Log {
  ~Log() {
    const char* path = std::getenv("MUTANT_LOG");
    const int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (file >= 0) (void)!write(file, reached, sizeof reached);
  }
};
inline const Log log;
inline bool touch(int n) { reached[n] = 1; return n == chosen; }
constexpr bool at(int n) { return __builtin_is_constant_evaluated() ? false : touch(n); }
template <class T> constexpr T number(int n, T value) { return at(n) ? value + 1 : value; }
constexpr bool flip(int n, bool value) { return at(n) ? !value : value; }
template <class A> struct Left { const A& a; int n; };

// Replaces `a OP b` by `a OP Name{n} AGAIN b`, which has the same precedence in a larger expression.
#define MUTANT_OPERATOR(Name, OP, AGAIN, OTHER)                                                  \
  struct Name { int n; };                                                                        \
  template <class A> struct Name##Left { const A& a; int n; };                                   \
  template <class A> constexpr Name##Left<A> operator OP(const A& a, Name m) { return {a, m.n}; } \
  template <class A, class B> constexpr auto operator AGAIN(Name##Left<A> l, const B& b) {       \
    using Result = std::decay_t<decltype(l.a OP b)>;                                             \
    return at(l.n) ? static_cast<Result>(l.a OTHER b) : static_cast<Result>(l.a OP b);           \
  }
MUTANT_OPERATOR(Less, <, >, <=)
MUTANT_OPERATOR(Greater, >, <, >=)
MUTANT_OPERATOR(AtMost, <=, >=, <)
MUTANT_OPERATOR(AtLeast, >=, <=, >)
MUTANT_OPERATOR(Equal, ==, ==, !=)
MUTANT_OPERATOR(Unequal, !=, !=, ==)
MUTANT_OPERATOR(Plus, +, +, -)
MUTANT_OPERATOR(Minus, -, -, +)
MUTANT_OPERATOR(Times, *, *, +)
MUTANT_OPERATOR(Over, /, /, *)
}  // namespace mutant
"""

OPERATORS = {"<": ("Less", ">"), ">": ("Greater", "<"), "<=": ("AtMost", ">="), ">=": ("AtLeast", "<="),
             "==": ("Equal", "=="), "!=": ("Unequal", "!="), "+": ("Plus", "+"), "-": ("Minus", "-"),
             "*": ("Times", "*"), "/": ("Over", "/")}


class Site:
    """A place where `new` can replace the text from begin to end. In `new`, N stands for the fault's number."""

    def __init__(self, path, text, kind, begin, end, new):
        self.path, self.kind, self.begin, self.end, self.new = path, kind, begin, end, new
        self.line = text.count("\n", 0, begin) + 1
        self.last_line = text.count("\n", 0, end) + 1
        code = text[begin:end] if kind == "check" else text.splitlines()[self.line - 1].split(" //")[0]
        self.code = " ".join(code.split())


def functions_of(text):
    """Returns the qualified name of the function around each line, determined by indentation."""
    stack, names = [], []
    for line in text.splitlines():
        bare = line.strip()
        if bare and not bare.startswith(("//", "#", "public:", "private:", "protected:")):
            indent = len(line) - len(line.lstrip())
            stack = [outer for outer in stack if outer[0] < indent] + [(indent, bare)]
        name = ""
        for _, outer in stack:
            scope = re.match(r"(?:template <.*> )?(?:class|struct) (\w+)", outer)
            if scope:
                name += f"{scope[1]}::"
            elif function := re.search(r"(?!(?:void|bool|int|double|real|decltype|requires|Real)\()(operator\S+|[\w:~]+)\(", outer):
                name += function[1]
                break
        names.append(name)
    return names


def sites_of(path, text):
    """Returns the checks and the other places of a file, with their keys."""
    functions = functions_of(text)
    checks, others = list(checks_of(path, text)), list(others_of(path, text))
    count = collections.Counter()
    for site in checks + others:
        key = "\t".join((path, functions[site.line - 1], site.kind, site.code))
        count[key] += 1
        site.key = f"{key}\t{count[key]}"
    return checks, others


def closing(text, start, stops):
    """Returns the position of the first of `stops` that is outside of all brackets opened after `start`."""
    depth, i = 0, start
    while i < len(text):
        c = text[i]
        if c == '"' or (c == "'" and not text[i - 1].isalnum()):
            i += 1
            while text[i] != c:
                i += 2 if text[i] == "\\" else 1
        elif depth == 0 and c in stops:
            return i
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        i += 1
    return -1


def checks_of(path, text):
    for match in re.finditer(r"(?<![\w:])check_(argument|state|runtime)\(", text):
        start = match.end()
        if path == "core/base/check.hpp" or "//" in text[text.rfind("\n", 0, start):start]:
            continue
        end = closing(text, start, ",")
        condition = text[start:end]
        yield Site(path, text, "check", start, end, f"(static_cast<bool>({condition}) || ::mutant::at(N))")


def others_of(path, text):
    position = 0
    is_constant = False  # until the statement ends
    for line in text.splitlines(keepends=True):
        begin, code = position, line.split("//")[0].rstrip()
        position += len(line)
        bare = code.strip()
        if re.match(r"(inline |static |const )*(constexpr|consteval|template|enum|static_assert|using|#|extern)", bare):
            is_constant = True
        skips = is_constant or not bare or '"' in code or "operator" in code
        if bare.endswith((";", "{", "}")) or bare.startswith("#"):
            is_constant = False
        if skips:
            continue
        for match in re.finditer(r" (<|>|<=|>=|==|!=|\+|-|\*|/) (?=[\w(*&:-])", code):
            name, again = OPERATORS[match[1]]
            at = begin + match.start()
            yield Site(path, text, match[1], at, at + len(match[0]),
                       f" {match[1]} ::mutant::{name}{{N}} {again} ")
        for match in re.finditer(r" (&&|\|\|) ", code):
            at = begin + match.start()
            more = "&& !::mutant::at(N) &&" if match[1] == "&&" else "|| ::mutant::at(N) ||"
            yield Site(path, text, match[1], at, at + len(match[0]), f" {more} ")
        for match in re.finditer(r"(?<=[\s(,])\d+(?:\.\d+)?(?=[;,)\s])", code):
            at = begin + match.start()
            yield Site(path, text, "number", at, at + len(match[0]), f"::mutant::number(N, {match[0]})")
        for match in re.finditer(r"\bif \((?=[^;]*$)", code):
            start = begin + match.end()
            end = closing(text, start, ")")
            if re.match(r"(const )?[\w:<>*]+[&* ]+\w+ = |\(?constexpr", text[start:end]) or ";" in text[start:end]:
                continue
            yield Site(path, text, "if", start, end, f"::mutant::flip(N, static_cast<bool>({text[start:end]}))")
        match = re.fullmatch(r"(\s+)((?:\+\+|--|\*)?(?!return|delete|throw|case|using|else|break|co_)[a-z_][\w.>\[\]-]*(?:"
                             r"\(.*\)| [+*/|^&-]?= .*|\+\+|--));", code)
        if match and match[2].count("(") == match[2].count(")") and match[2].count("{") == match[2].count("}"):
            at = begin + len(match[1])
            yield Site(path, text, "dropped", at, at + len(match[2]), f"::mutant::at(N) ? void() : void({match[2]})")


def files_in(*folders):
    return subprocess.run(["git", "ls-files", *folders], cwd=ROOT, check=True, capture_output=True,
                          text=True).stdout.splitlines()


def drawn(sites):
    """Sorts sites by the hashes of their keys, alternating between kinds, because some kinds are much more frequent."""
    kinds = {}
    for digest, site in sorted((hashlib.sha256(s.key.encode()).hexdigest(), s) for s in sites):
        kinds.setdefault(site.kind, []).append((digest, site))
    order = sorted((i, digest, site) for of_kind in kinds.values() for i, (digest, site) in enumerate(of_kind))
    return [site for _, _, site in order]


class Faults:
    """The faults of a campaign: all checks, and `count` other faults, distributed over folders by lines of code."""

    def __init__(self, count, broken=()):
        """`broken`: keys of faults that do not compile."""
        self.texts = {}
        for name in files_in("core", "layers", "optim", "examples"):
            if name.endswith((".cpp", ".hpp")) and "mpi_process_group" not in name:
                self.texts[name] = (ROOT / name).read_text()
        self.broken = set(broken)
        self.known = {line.rsplit("\t", 1)[0] for line in KNOWN.read_text().splitlines()}
        self.chosen, self.spare = [], {}  # spare[folder]: sites in the order in which they are drawn
        lines = collections.Counter()
        found = set()
        for name, text in self.texts.items():
            folder = str(pathlib.Path(name).parent)
            lines[folder] += text.count("\n")
            checks, others = sites_of(name, text)
            self.chosen += [s for s in checks if s.key not in self.broken | self.known]
            self.spare.setdefault(folder, []).extend(others)
            found.update(s.key for s in checks + others)
        self.stale = sorted(self.known - found)
        self.spare = {folder: drawn(sites) for folder, sites in self.spare.items()}
        of_library = sum(lines[folder] for folder in lines if not folder.startswith("examples"))
        for folder in self.spare:
            for _ in range(round(count * lines[folder] / of_library)):
                self.take(folder)

    def take(self, folder):
        while self.spare[folder]:
            site = self.spare[folder].pop(0)
            if site.key not in self.broken | self.known and not any(
                    s.path == site.path and s.begin < site.end and site.begin < s.end for s in self.chosen):
                self.chosen.append(site)
                return

    def drop(self, places):
        """Replaces the faults at `places` (path, line) by others. Returns the number of replaced faults."""
        gone = [s for s in self.chosen if any((s.path, l) in places for l in range(s.line, s.last_line + 1))]
        self.chosen = [s for s in self.chosen if s not in gone]
        self.broken.update(s.key for s in gone)
        for site in gone:
            if site.kind != "check":
                self.take(str(pathlib.Path(site.path).parent))
        return len(gone)

    def write(self, tree):
        for path, text in self.texts.items():
            here = [(s, n) for n, s in enumerate(self.chosen) if s.path == path]
            for site, number in sorted(here, key=lambda pair: -pair[0].begin):
                new = re.sub(r"(?<=[({ ])N(?=[)},])", str(number), site.new)
                text = text[:site.begin] + new + text[site.end:]
            target = tree / path
            if target.read_text() != text:
                target.write_text(text)


def start_anew_after_changes(folder):
    """Removes the results and sources of a campaign unless they belong to HEAD."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    remembered = folder / "head"
    if not remembered.exists() or remembered.read_text() != head:
        shutil.rmtree(folder / "tree", ignore_errors=True)
        for name in ("faults.tsv", "broken"):
            (folder / name).unlink(missing_ok=True)
    remembered.write_text(head)


def build(folder, faults):
    tree, out = folder / "tree", folder / "build"
    if not tree.exists():
        for name in files_in():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
        (folder / "mutant.hpp").write_text(HEADER)
    faults.write(tree)
    subprocess.run(["cmake", "-G", "Ninja", "-S", tree, "-B", out, "-DCMAKE_BUILD_TYPE=Release",
                    "-DCMAKE_CXX_FLAGS_RELEASE=-O1", f"-DCMAKE_CXX_FLAGS=-w -include {folder}/mutant.hpp"],
                   check=True, stdout=subprocess.DEVNULL)
    for target in ("rowgrad", "tests_float"):
        while True:
            done = subprocess.run(["ninja", "-C", out, "-k", "0", target], capture_output=True, text=True)
            if done.returncode == 0:
                break
            places = set()
            for path, line in re.findall(r"(?:rowgrad|tree)/((?:core|layers|optim|examples)/[\w/.]+):(\d+)", done.stdout):
                places.add((path, int(line)))
            dropped = faults.drop(places)
            (folder / "broken").write_text("\n".join(sorted(faults.broken)))
            print(f"{target}: {dropped} faults do not compile and are replaced", flush=True)
            if dropped == 0:
                raise SystemExit(done.stdout[-5000:])
            faults.write(tree)
    return out / "tests/tests_float"


def limits():
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 40, 64 << 40))  # table files are sparse
    resource.setrlimit(resource.RLIMIT_DATA, (16 << 30, 16 << 30))  # a fault may allocate without bound


def run(program, suites, environment, seconds):
    """Runs test suites, and returns True if they pass within `seconds`."""
    wanted = ":".join(s if "." in s else f"{s}.*" for s in suites)
    command = [program, "--gtest_fail_fast", "--gtest_brief=1", f"--gtest_filter={wanted}-{LEFT_OUT}"]
    child = subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, preexec_fn=limits, start_new_session=True)
    try:
        return child.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, 9)
        child.wait()
        return False


def coverage(folder, program):
    """Runs all suites without a fault. Returns, for each suite that passes, its seconds and the faults that it reaches."""
    listed = subprocess.run([program, "--gtest_list_tests", f"--gtest_filter=-{LEFT_OUT}"],
                            capture_output=True, text=True, check=True).stdout
    found = {}
    suites = re.findall(r"^(\S+)\.", listed, re.M)
    suites.remove(COMMANDS)
    tests = re.search(rf"^{COMMANDS}\.\n((?:  .*\n)*)", listed, re.M)[1]
    suites += [f"{COMMANDS}.{test}" for test in re.findall(r"^  (\S+)", tests, re.M)]
    for suite in suites:
        log = folder / "reached"
        log.unlink(missing_ok=True)
        begin = time.monotonic()
        if not run(program, [suite], {"MUTANT_LOG": str(log)}, 600):
            print(f"{suite} fails without a fault and is skipped", flush=True)
            continue
        seconds = time.monotonic() - begin
        data = log.read_bytes() if log.exists() else b""
        reached = {i % 8192 for i, byte in enumerate(data) if byte}
        found[suite] = (seconds, reached)
    return found


def judged(table):
    """Returns the number of the library's faults in a table, and the lines of all undetected faults."""
    lines = table.read_text().splitlines()
    return (sum(not line.startswith("examples/") for line in lines), [line for line in lines if line.endswith("\tnone")])


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", nargs="?", type=pathlib.Path)
    arguments.add_argument("--faults", type=int, default=300)
    arguments.add_argument("--jobs", type=int, default=1)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--list", action="store_true")
    arguments.add_argument("--matrix", action="store_true")
    options = arguments.parse_args()
    broken = []
    if options.folder:
        folder = options.folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        start_anew_after_changes(folder)
        if (folder / "broken").exists():
            broken = (folder / "broken").read_text().splitlines()
    faults = Faults(options.faults, broken)
    if options.list:
        for site in faults.chosen:
            print(site.key)
        for key in faults.stale:
            print(f"faults.tsv has a fault that no longer exists: {key}", file=sys.stderr)
        raise SystemExit(1 if faults.stale else 0)
    program = build(folder, faults)
    suites = coverage(folder, program)
    table = folder / "faults.tsv"
    done_before = {line.rsplit("\t", 2)[0] for line in table.read_text().splitlines()} if table.exists() else set()

    def judge(number, site):
        reaching = sorted((seconds, suite) for suite, (seconds, reached) in suites.items() if number in reached)
        noticed = []
        for seconds, suite in reaching:
            if not run(program, [suite], {"MUTANT": str(number)}, 10 * seconds + 20):
                noticed.append(suite)
                if not options.matrix:
                    break
        return site, len(reaching), " ".join(noticed) or "none"

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool, table.open("a") as out:
        waiting = [pool.submit(judge, n, s) for n, s in enumerate(faults.chosen)
                   if s.key not in done_before and options.only in s.key]
        for done in concurrent.futures.as_completed(waiting):
            site, reaching, suite = done.result()
            out.write(f"{site.key}\t{reaching}\t{suite}\n")
            out.flush()
    if options.matrix:
        alone = collections.Counter(line.split("\t")[-1] for line in table.read_text().splitlines())
        for suite in suites:
            print(f"{alone[suite]:6} faults that only {suite} detects")
    count, missed = judged(table)
    print("Undetected faults, and how many suites reach them:", *missed, sep="\n")
    noticed = count - sum(not line.startswith("examples/") for line in missed)
    print(f"{noticed} of {count} faults of the library were detected, expected at least {MIN_SHARE:.0%}")
    if count == 0 or noticed < MIN_SHARE * count:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
