#!/usr/bin/python3
"""Runs the make_*.py scripts in a copy of this folder, and compares the files that they write with the golden files.

  ROWGRAD_DATA=FOLDER tests/golden/check.py [NAME...]     FOLDER has the files of examples/texts.sh

Needs Debian's python3-torch, python3-numpy and python3-regex. A name such as "ngram" selects make_ngram.py. Without
names, all scripts run, and one of them must write each golden file. Values may differ by rounding errors, of double
or (for the files in TOLERANCES) float precision, because processors and releases of PyTorch add in different orders.
The release of PyTorch may differ.
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# Tolerances relative to the largest value of an array; 1e-9 for other files. The last bits of random floats depend on
# the processor.
TOLERANCES = {"torch_random.json": 1e-5, "gpt2_weights.json": 1e-5, "gpt2_weights.safetensors": 1e-5}
# Values from books and other programs.
WITHOUT_SCRIPT = {"textbook.json"}


def largest(value):
    """Returns the largest absolute float of an array, or 0 if there are none."""
    if isinstance(value, list):
        return max(map(largest, value), default=0)
    return abs(value) if isinstance(value, float) else 0


def difference(old, new, tolerance, place="", scale=0):
    """Returns the first place where two JSON values differ, with both values, or None. `scale` is the largest absolute
    value of the array that contains them."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        pairs = [(f"{place}.{key}", old[key], new[key]) for key in old if key != "torch"]
        scale = 0
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [(f"{place}[{i}]", *pair) for i, pair in enumerate(zip(old, new))]
        scale = scale or largest(old)
    elif isinstance(old, float) and isinstance(new, float):
        return None if abs(old - new) <= tolerance * (scale or abs(old)) else f"{place}: {old}, now {new}"
    else:
        return None if old == new else f"{place}: {str(old)[:99]}, now {str(new)[:99]}"
    return next(filter(None, (difference(a, b, tolerance, where, scale) for where, a, b in pairs)), None)


def content(path):
    """Returns a JSON file's value, a safetensors file's header and floats, or another file's bytes."""
    data = path.read_bytes()
    if path.suffix == ".json":
        return json.loads(data)
    if path.suffix == ".safetensors":
        begin = 8 + struct.unpack("<Q", data[:8])[0]
        return [json.loads(data[8:begin]), *(number for number, in struct.iter_unpack("<f", data[begin:]))]
    return data


def compare(old, new):
    if not old.exists():
        return "does not exist in tests/golden"
    if old.read_bytes() == new.read_bytes():
        return None
    return difference(content(old), content(new), TOLERANCES.get(old.name, 1e-9))


def main():
    failed = 0
    made = set()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "golden"
        shutil.copytree(HERE, folder)
        makers = [folder / f"make_{name}.py" for name in sys.argv[1:]] or sorted(folder.glob("make_*.py"))
        for maker in makers:
            for file in folder.iterdir():
                os.utime(file, (0, 0)) if file.is_file() else None
            done = subprocess.run([sys.executable, maker], capture_output=True, text=True)
            written = sorted(f.name for f in folder.iterdir() if f.is_file() and f.stat().st_mtime > 0)
            made.update(written)
            problems = [f"{name} {found}" for name in written if (found := compare(HERE / name, folder / name))]
            if done.returncode != 0:
                problems.append((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
            elif not written:
                problems.append("writes nothing")
            print(f"{maker.name}: {'; '.join(problems) or 'agrees with ' + ', '.join(written)}", flush=True)
            failed += len(problems)
    if not sys.argv[1:]:
        for name in sorted({f.name for f in HERE.iterdir() if f.suffix not in (".py", "")} - made - WITHOUT_SCRIPT):
            print(f"{name}: no script writes this file")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
