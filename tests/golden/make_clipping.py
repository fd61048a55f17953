#!/usr/bin/python3
"""Writes clipping.json: results of torch.nn.utils.clip_grad_norm_ and clip_grad_value_ in float64.

Needs Debian's python3-torch. The gradients are computed by

    wave(n, frequency, phase, scale)[k] = scale * sin(frequency * k + phase),  k = 0 .. n-1.

They belong to a bias [5] and to a table [7, 3], whose gradient is zero except in rows 1, 2 and 6. A
third parameter has no gradient. Each case has the norm before clipping and both gradients after it.
"""
import pathlib
import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

import lines

torch.set_default_dtype(torch.float64)
ROWS = [1, 2, 6]


def wave(n, frequency, phase, scale):
    return scale * torch.sin(frequency * torch.arange(n) + phase)


def gradients():
    bias, table, unused = (torch.nn.Parameter(torch.zeros(s)) for s in ((5,), (7, 3), (4,)))
    bias.grad = wave(5, 0.9, 0.4, 2.0)
    table.grad = torch.zeros(7, 3)
    table.grad[ROWS] = wave(9, 0.7, 1.3, 1.5).reshape(3, 3)
    return bias, table, unused


cases = []
for p in (1.0, 2.0, "inf"):
    for max_norm in (0.0, 0.25, 1.0, 1000.0):
        given = gradients()
        norm = clip_grad_norm_(given, max_norm, float(p)).item()
        cases.append({"p": p, "max_norm": max_norm, "norm": norm, "bias": given[0].grad.tolist(),
                      "table": given[1].grad.tolist()})
for limit in (0.0, 0.3, 1.0, 5.0):
    given = gradients()
    clip_grad_value_(given, limit)
    cases.append({"limit": limit, "bias": given[0].grad.tolist(), "table": given[1].grad.tolist()})
path = pathlib.Path(__file__).parent / "clipping.json"
golden = {"torch": torch.__version__, "rows": ROWS, "cases": cases}
lines.write(path, golden)
print(len(cases), "cases,", path.stat().st_size, "bytes")
