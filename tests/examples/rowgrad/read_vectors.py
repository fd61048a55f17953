#!/usr/bin/env python3
"""Compares word vectors in word2vec's text format with a file in NumPy's format.

Reads the file without NumPy, and also with NumPy if it is installed.

  read_vectors.py v.txt v.npy
"""
import array
import ast
import sys

try:
    import numpy
except ImportError:
    numpy = None

text, npy = sys.argv[1:]
with open(text, encoding="utf-8") as file:
    rows, width = map(int, next(file).split())
    lines = [line.rstrip("\n").split(" ") for line in file]
with open(npy, "rb") as file:
    magic, length = file.read(8), int.from_bytes(file.read(2), "little")
    header, values = ast.literal_eval(file.read(length).decode()), array.array("f", file.read())
with open(npy.replace(".npy", ".words.txt"), encoding="utf-8") as file:
    words = file.read().splitlines()
assert magic == b"\x93NUMPY\x01\x00" and (10 + length) % 64 == 0
assert header == {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
assert words == [word for word, *_ in lines]
assert values == array.array("f", [float(value) for _, *row in lines for value in row])
if numpy:
    loaded = numpy.load(npy)
    assert loaded.dtype == numpy.float32 and loaded.shape == (rows, width)
    assert loaded.ravel().tolist() == values.tolist()
