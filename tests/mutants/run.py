#!/usr/bin/env python3
"""Breaks the library on purpose, one small fault at a time, and reports which faults the tests notice.

  tests/mutants/run.py [BUILD] [NUMBER...]
  tests/mutants/run.py --check        only looks whether each fault's lines are in the sources, once

BUILD (default: build) has the program tests_float, compiled. faults.txt has the faults, which are
numbered from 1. The library's sources are compiled once; a fault's source is compiled alone and linked
before them, so that a fault costs seconds. The tests of the fault's folder run first, and the others
only if these have not noticed.
"""

import json
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 900  # of one run of the tests, after which a fault counts as noticed
# -O1, so that a fault is compiled in seconds; -fPIC, so that no function is inlined into the others of
# its room, where the fault would not reach it; and what the compiler says of faults is not wanted.
FLAGS = ["-O1", "-fPIC", "-w"]
# Tests that run the programs, which have their own library, and of times and memory, which -O1 changes.
LEFT_OUT = "*InProportion*:*AStepCosts*:SteadyStep*:Textbook*:*AnUntrainedGpt*:*AreReadByPyTorch*"


class Fault:
    def __init__(self, block):
        lines = block.splitlines()
        self.path, self.what = lines[0].split(": ", 1)
        part = lambda sign: "\n".join(l[2:] for l in lines[1:] if l[0] == sign)
        self.old, self.new = part("-"), part("+")

    def source(self):
        text = (ROOT / self.path).read_text()
        if text.count(self.old) != 1:
            sys.exit(f"{self.path}: '{self.old}' is there {text.count(self.old)} times")
        return text.replace(self.old, self.new)


def faults():
    text = (ROOT / "tests/mutants/faults.txt").read_text()
    blocks = [b.strip("\n") for b in text.split("\n\n") if b.strip() and not b.startswith("#")]
    return [Fault(b) for b in blocks]


class Build:
    def __init__(self, folder):
        self.folder = folder.resolve()
        self.scratch = self.folder / "mutants"
        self.scratch.mkdir(exist_ok=True)
        entries = json.loads((self.folder / "compile_commands.json").read_text())
        self.commands = {}
        for entry in entries:
            match = re.search(r"-o CMakeFiles/(rowgrad|rowgrad_common)\.dir/(\S+)\.o ", entry["command"])
            if match:
                self.commands[match[1], entry["file"]] = shlex.split(entry["command"])
        self.library = []  # its objects
        self.tests = self.scratch / "tests"

    def compile(self, command, source, output):
        """The command with another source and output."""
        kept = command[: command.index("-o")]
        kept = [a for a in kept if a not in ("-Werror", "-Winvalid-pch")]
        subprocess.run(kept + FLAGS + ["-o", str(output), "-c", str(source)], cwd=self.folder, check=True)

    def make_library(self):
        for (target, source), command in self.commands.items():
            self.library.append(self.scratch / f"{target}-{pathlib.Path(source).name}.o")
            if not self.library[-1].exists():
                self.compile(command, source, self.library[-1])

    def make_tests(self, fault=None):
        """Of what is there several times, the linker takes the first."""
        ninja = subprocess.run(
            ["ninja", "-t", "commands", "tests/tests_float"],
            cwd=self.folder, check=True, capture_output=True, text=True).stdout
        command = re.search(r"\S*\+\+ [^\n]*-o tests/tests_float [^\n;&]*", ninja)[0]
        words = [w for w in shlex.split(command) if "examples" not in w and not re.search(r"librowgrad\w*\.a$", w)]
        words[words.index("tests/tests_float")] = str(self.tests)
        first = ([fault] if fault else []) + self.library
        words[1:1] = ["-Wl,-z,muldefs", *map(str, first)]
        subprocess.run(words, cwd=self.folder, check=True)

    def command_of(self, path):
        """The command that compiles this source, alone or with others of its room."""
        for (_, source), command in self.commands.items():
            text = pathlib.Path(source).read_text() if "Unity" in source else ""
            if source == str(ROOT / path) or f'"{ROOT / path}"' in text:
                return command
        sys.exit(f"{path} is not compiled")

    def passes(self, tests):
        try:
            return subprocess.run(
                [str(self.tests), "--gtest_fail_fast", "--gtest_brief=1", f"--gtest_filter={tests}"],
                timeout=SECONDS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
        except subprocess.TimeoutExpired:
            return False


def suites(folder):
    names = set()
    for file in (ROOT / "tests" / folder).glob("*_test.cpp"):
        names |= set(re.findall(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+)", file.read_text(), re.M))
    return ":".join(f"{n}.*:{n}/*:*/{n}.*" for n in sorted(names))


def main():
    arguments = sys.argv[1:]
    for fault in faults():
        fault.source()
    if arguments == ["--check"]:
        return
    build = Build(pathlib.Path(arguments.pop(0) if arguments and not arguments[0].isdigit() else "build"))
    wanted = set(map(int, arguments))
    build.make_library()
    build.make_tests()
    if not build.passes(f"*-{LEFT_OUT}"):
        sys.exit("the tests do not pass without a fault")
    noticed = {}
    for number, fault in enumerate(faults(), 1):
        if wanted and number not in wanted:
            continue
        source = build.scratch / f"{number}-{pathlib.Path(fault.path).name}"
        source.write_text(fault.source())
        changed = source.with_suffix(".o")
        build.compile(build.command_of(fault.path), source, changed)
        build.make_tests(changed)
        own = suites(pathlib.Path(fault.path).parent)
        if own and not build.passes(f"{own}-{LEFT_OUT}"):
            noticed[number] = "by the tests of its folder"
        elif not build.passes(f"*-{LEFT_OUT}:{own}"):
            noticed[number] = "by other tests"
        else:
            noticed[number] = "NOT"
        print(f"{number}: {fault.path}: {fault.what}: noticed {noticed[number]}", flush=True)
    missed = sum(verdict == "NOT" for verdict in noticed.values())
    print(f"{len(noticed) - missed} of {len(noticed)} faults were noticed")


main()
