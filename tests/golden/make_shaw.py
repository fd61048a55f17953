#!/usr/bin/python3
"""Writes shaw.json beside this script: attention with the relative keys and values of Shaw et al. (2018),
output and gradients by PyTorch in float64.

Needs Debian's python3-torch. Written as the paper has it: for query i and key j, row clip(j - i, -k, k) + k
of two tables [2k + 1, width] is added to key j and to value j. Inputs are waves (see golden.hpp): q (0.7, 0.1,
1.5), k (0.6, 0.9, 1.5), v (0.5, 0.4, 1.0), keys (0.8, 0.6, 1.0), values (0.9, 0.2, 1.0); the gradients are those
of sum(output * wave(0.23, 0.4, 1)).
"""
import math
import pathlib

import torch

import lines

torch.set_default_dtype(torch.float64)


def wave(shape, frequency, phase, scale):
    k = torch.arange(math.prod(shape), dtype=torch.float64)
    return (scale * torch.sin(frequency * k + phase)).reshape(shape)


def case(batch, heads, length, width, distance):
    by_head = (batch, heads, length, width)
    table = (2 * distance + 1, width)
    x = {"q": wave(by_head, 0.7, 0.1, 1.5), "k": wave(by_head, 0.6, 0.9, 1.5),
         "v": wave(by_head, 0.5, 0.4, 1.0), "keys": wave(table, 0.8, 0.6, 1.0),
         "values": wave(table, 0.9, 0.2, 1.0)}
    for tensor in x.values():
        tensor.requires_grad_()
    place = torch.arange(length)
    row = (place[None, :] - place[:, None]).clamp(-distance, distance) + distance
    keys = x["k"][:, :, None] + x["keys"][row]      # [batch, heads, query, key, width]
    values = x["v"][:, :, None] + x["values"][row]
    scores = (x["q"][:, :, :, None] * keys).sum(-1) / math.sqrt(width)
    later = place[None, :] > place[:, None]
    weights = scores.masked_fill(later, -math.inf).softmax(-1)
    output = (weights[..., None] * values).sum(-2)
    (output * wave(by_head, 0.23, 0.4, 1.0)).sum().backward()
    return {"shape": by_head, "distance": distance, "output": output.flatten().tolist(),
            "gradients": {name: tensor.grad.flatten().tolist() for name, tensor in x.items()}}


cases = [case(2, 3, 7, 4, 3), case(1, 2, 5, 3, 8), case(1, 1, 40, 4, 2)]
path = pathlib.Path(__file__).parent / "shaw.json"
lines.write(path, cases)
