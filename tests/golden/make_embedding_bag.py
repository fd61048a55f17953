#!/usr/bin/python3
"""Writes embedding_bag.json: results of PyTorch's embedding_bag in float64.

Needs Debian's python3-torch and python3-numpy. Table, upstream gradient and per-sample weights have a
formula, so that the test does not need them from a file:

    wave(shape, frequency, phase, scale)[k] = scale * sin(frequency * k + phase),  k row-major

A "rounded" table is rounded to multiples of 0.5, so that several rows have the same maximum.
"""
import itertools
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import lines

HERE = pathlib.Path(__file__).parent
torch.set_default_dtype(torch.float64)

IDS = [3, 1, 1, 6, 0, 6, 5, 3, 2]

# Ids repeat, and include the first and the last row. Some bags are empty, at the start, in the middle
# and at the end. If the padding is 3 or -1, some bags consist of padding.
SHAPES = [
    {"ids": [[1, 3, 3, 6], [6, 1, 0, 1], [3, 3, 3, 3], [6, 5, 0, 2]]},
    {"ids": IDS, "offsets": [0, 0, 4, 5, 5, 6, 7, 9]},
    {"ids": IDS, "offsets": [0, 3, 3, 6, 7, 9], "include_last_offset": True},
]


def wave(shape, frequency, phase, scale):
    k = np.arange(int(np.prod(shape)), dtype=np.float64)
    return torch.tensor(scale * np.sin(frequency * k + phase)).reshape(shape)


def lookup_and_sum(ids, table, offsets, mode, padding, weights, last):
    """Computes embedding_bag from its definition, for scale_grad_by_freq. PyTorch's embedding_bag on
    the CPU divides a row's gradient by the count of another id (pytorch/pytorch#190063); its
    embedding() does not have this bug."""
    starts = torch.arange(0, ids.numel(), ids.shape[-1]) if offsets is None else offsets
    starts = starts[:-1] if last else starts
    flat = ids.flatten()
    rows = F.embedding(flat, table, padding_idx=padding, scale_grad_by_freq=True)
    if weights is not None:
        rows = rows * weights.flatten()[:, None]
    counts = flat != (padding % len(table) if padding is not None else -1)
    bag = torch.searchsorted(starts, torch.arange(len(flat)), right=True) - 1
    sums = torch.zeros(len(starts), table.shape[1]).index_add(0, bag[counts], rows[counts])
    if mode == "sum":
        return sums
    return sums / torch.bincount(bag[counts], minlength=len(starts)).clamp(min=1)[:, None]


def case(shape, mode, padding, by_freq, weighted, rounded):
    """Returns the bags and the gradients of sum(upstream * bags)."""
    table = wave((7, 3), 0.9, 0.4, 1.0)
    if rounded:
        table = torch.round(2 * table) / 2
    table.requires_grad_()
    ids = torch.tensor(shape["ids"])
    weights = wave(ids.shape, 1.3, 0.7, 1.5).requires_grad_() if weighted else None
    offsets = torch.tensor(shape["offsets"]) if "offsets" in shape else None
    last = shape.get("include_last_offset", False)
    bags = F.embedding_bag(ids, table, offsets, mode=mode, padding_idx=padding,
                           per_sample_weights=weights, include_last_offset=last)
    if by_freq:
        expected = bags
        bags = lookup_and_sum(ids, table, offsets, mode, padding, weights, last)
        assert torch.allclose(bags, expected, rtol=0, atol=1e-14)
    (bags * wave(bags.shape, 0.5, 0.2, 1.0)).sum().backward()
    result = {**shape, "mode": mode, "bags": bags.tolist(), "grad": table.grad.tolist()}
    if padding is not None:
        result["padding"] = padding
    if by_freq:
        result["scale_grad_by_freq"] = True
    if weighted:
        result["weights_grad"] = weights.grad.tolist()
    if rounded:
        result["rounded"] = True
    return result


def main():
    cases = []
    for shape, mode, padding in itertools.product(SHAPES, ("sum", "mean", "max"), (None, 3, -1)):
        for by_freq, weighted, rounded in itertools.product((False, True), repeat=3):
            if (by_freq and mode == "max") or (weighted and mode != "sum"):
                continue  # not supported by PyTorch
            if rounded and mode != "max":
                continue
            cases.append(case(shape, mode, padding, by_freq, weighted, rounded))
    head = {"table": "wave([7, 3], 0.9, 0.4, 1.0)", "upstream": "wave([bags, 3], 0.5, 0.2, 1.0)",
            "per_sample_weights": "wave(ids' shape, 1.3, 0.7, 1.5), where there is a weights_grad"}
    lines.write(HERE / "embedding_bag.json", head | {"cases": cases})


if __name__ == "__main__":
    main()
