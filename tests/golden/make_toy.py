#!/usr/bin/python3
"""Writes embedding.json and six of the toy_*.json files, which use SGD: results of PyTorch in float64.

Needs Debian's python3-torch and python3-numpy, and the-verdict.txt in $ROWGRAD_DATA. The initial weights have a
formula, so that no weight file is needed:

    wave(n, frequency, phase, scale)[k] = scale * sin(frequency * k + phase),  k = 0 .. n-1 (row-major)

The token ids are the GPT-2 ids of The Verdict in the-verdict.gpt2.ids.
"""
import os, pathlib
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

import lines

HERE = pathlib.Path(__file__).parent
torch.set_default_dtype(torch.float64)


def wave(shape, frequency, phase, scale):
    k = np.arange(int(np.prod(shape)), dtype=np.float64)
    return torch.tensor(scale * np.sin(frequency * k + phase)).reshape(shape)


def windows(ids, context, stride):
    starts = range(0, len(ids) - context, stride)
    return (torch.tensor([ids[s:s + context] for s in starts]),
            torch.tensor([ids[s + 1:s + context + 1] for s in starts]))


def sinusoid(length, width, base=10000.0):
    position = torch.arange(length)[:, None].double()
    rate = torch.exp(torch.arange(0, width, 2).double() * (-np.log(base) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)[:, : width // 2]
    return table


def toy(name, ids, vocab, width, context, stride, batch, steps, positions, **sgd):
    """Trains token embedding + positions -> linear head -> mean cross-entropy. Batches are in order; a last incomplete
    batch is dropped."""
    token = nn.Parameter(wave((vocab, width), 0.7, 0.0, 0.02))
    head_w = nn.Parameter(wave((vocab, width), 0.11, 2.0, 0.02))
    head_b = nn.Parameter(torch.zeros(vocab))
    params = [token, head_w, head_b]
    if positions == "learned":
        pos = nn.Parameter(wave((context, width), 0.3, 1.0, 0.02))
        params.append(pos)
    else:
        pos = sinusoid(context, width)
    opt = torch.optim.SGD(params, **sgd)
    x, y = windows(ids, context, stride)
    batches = len(x) // batch
    losses, rows = [], []
    for step in range(steps):
        b = step % batches
        xs, ys = x[b * batch:(b + 1) * batch], y[b * batch:(b + 1) * batch]
        opt.zero_grad()
        logits = F.linear(F.embedding(xs, token) + pos, head_w, head_b)
        loss = F.cross_entropy(logits.flatten(0, 1), ys.flatten())
        loss.backward()
        losses.append(loss.item())
        rows.append(int((token.grad.abs().sum(1) > 0).sum()))
        opt.step()
    probe = sorted({0, 1, vocab // 2, vocab - 1, int(x[0, 0]), int(x[0, -1])})
    out = {
        "what": "mean cross-entropy before each update; token rows with a non-zero gradient at that step; rows of the token table after the last update",
        "vocab": vocab, "width": width, "context": context, "stride": stride, "batch": batch,
        "positions": positions, "optimizer": {"name": "sgd", "options": sgd},
        "init": {"token": [0.7, 0.0, 0.02], "position": [0.3, 1.0, 0.02], "head_weight [vocab,width]": [0.11, 2.0, 0.02], "head_bias": 0},
        "loss": losses, "token_rows_with_gradient": rows,
        "token_row_after": {str(i): token.data[i, :8].tolist() for i in probe},
        "token_table_sum_after": token.data.sum().item(), "head_weight_sum_after": head_w.data.sum().item(),
    }
    lines.write(HERE / f"{name}.json", out)
    print(name, losses[0], losses[-1], rows[0])


def embedding_cases():
    """Writes gradients of sum(upstream * embedding(ids)) for repeated ids, padding and frequency scaling."""
    cases = []
    w0 = wave((7, 3), 0.9, 0.4, 1.0)
    ids = torch.tensor([[1, 3, 3], [6, 1, 0]])
    upstream = wave((2, 3, 3), 0.5, 0.2, 1.0)
    for options in ({}, {"padding_idx": 3}, {"scale_grad_by_freq": True}, {"padding_idx": 0, "scale_grad_by_freq": True}):
        w = nn.Parameter(w0.clone())
        out = F.embedding(ids, w, **options)
        (out * upstream).sum().backward()
        cases.append({"options": options, "grad": w.grad.tolist()})
    lines.write(HERE / "embedding.json",
        {"weight": "wave([7,3], 0.9, 0.4, 1.0)", "ids": ids.tolist(), "upstream": "wave([2,3,3], 0.5, 0.2, 1.0)", "cases": cases})


def main():
    ids = [int(i) for i in (HERE / "the-verdict.gpt2.ids").read_text().split()]
    text = (pathlib.Path(os.environ["ROWGRAD_DATA"]) / "the-verdict.txt").read_text()
    alphabet = sorted(set(text))
    chars = [alphabet.index(c) for c in text]
    embedding_cases()
    toy("toy_gpt2", ids, 50257, 256, 4, 4, 8, 40, "learned", lr=1.0)
    toy("toy_gpt2_small_width", ids, 50257, 16, 8, 4, 4, 200, "learned", lr=0.5)
    toy("toy_char_sinusoidal", chars, len(alphabet), 64, 32, 32, 16, 80, "sinusoidal", lr=0.5)
    toy("toy_char_momentum", chars, len(alphabet), 64, 32, 32, 16, 80, "learned", lr=0.1, momentum=0.9)
    toy("toy_gpt2_momentum_decay", ids, 50257, 16, 8, 8, 4, 200, "learned", lr=0.1, momentum=0.9, weight_decay=0.01)
    toy("toy_gpt2_nesterov", ids, 50257, 16, 8, 8, 4, 200, "learned", lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True)


main()
