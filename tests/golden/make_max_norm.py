#!/usr/bin/python3
"""Writes max_norm.json: torch.nn.Embedding with max_norm, trained in float64.

Needs Debian's python3-torch. The table is initialized by `wave` (see golden.hpp). Every step looks up other
ids, some of them twice, and the loss is the sum of the output times a wave. With dense gradients, momentum and
weight decay, rows that are not looked up continue to move, so their norm may exceed max_norm at the next lookup.
"""
import math
import pathlib

import torch

import lines

torch.set_default_dtype(torch.float64)


def wave(shape, frequency, phase, scale):
    k = torch.arange(math.prod(shape), dtype=torch.float64)
    return (scale * torch.sin(frequency * k + phase)).reshape(shape)


def run(max_norm, norm_type, steps=25):
    embedding = torch.nn.Embedding(6, 5, max_norm=max_norm, norm_type=norm_type)
    with torch.no_grad():
        embedding.weight.copy_(wave((6, 5), 0.9, 0.4, 1.0))
    sgd = torch.optim.SGD(embedding.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    sums = []
    for step in range(steps):
        ids = torch.tensor([step % 6, (2 * step) % 5, step % 6])
        sgd.zero_grad()
        output = embedding(ids)
        (output * wave((3, 5), 0.5, 0.2 * step, 1.0)).sum().backward()
        sums.append(output.sum().item())
        sgd.step()
    return {"max_norm": max_norm, "norm_type": "inf" if math.isinf(norm_type) else norm_type,
            "output_sums": sums, "table_after": embedding.weight.tolist()}


cases = [run(1.0, 2.0), run(0.7, 1.0), run(0.5, math.inf)]
path = pathlib.Path(__file__).parent / "max_norm.json"
lines.write(path, cases)
