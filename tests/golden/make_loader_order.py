#!/usr/bin/python3
"""Writes loader_order.json: the order of torch.utils.data.DataLoader, and what it draws from the global generator.

Needs Debian's python3-torch. Under one seed, loops follow each other as in a training program: shuffled loops for
training, ordered loops for validation, some ended after a few batches. Each entry has the batches of a loop, as
lists of window indices, and the next random double in [0, 1), of 53 bits.
"""
import itertools
import pathlib

import torch
from torch.utils.data import DataLoader

import lines


def loops(seed, windows, batch, drop_last):
    torch.manual_seed(seed)
    training = DataLoader(list(range(windows)), batch, shuffle=True, drop_last=drop_last)
    validation = DataLoader(list(range(windows)), batch, shuffle=False, drop_last=drop_last)
    for loader, count in [(training, 99), (training, 99), (validation, 99), (training, 2), (validation, 1),
                          (training, 99)]:
        batches = [numbers.tolist() for numbers in itertools.islice(loader, count)]
        yield {"shuffle": loader is training, "count": count, "batches": batches,
               "next": torch.rand((), dtype=torch.float64).item()}


runs = [{"seed": seed, "windows": windows, "batch": batch, "drop_last": drop_last,
         "loops": list(loops(seed, windows, batch, drop_last))}
        for seed, windows, batch, drop_last in [(123, 18, 2, True), (123, 9, 2, True), (7, 11, 4, False), (2**31 + 7, 5, 1, False)]]
path = pathlib.Path(__file__).parent / "loader_order.json"
lines.write(path, runs)
