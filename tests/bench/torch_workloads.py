#!/usr/bin/python3
"""The workloads of workloads.cpp in PyTorch (Debian: python3-torch): the median time of a step."""

import os
import statistics
import time

import torch
from torch.nn import functional

BATCHES = 16


def median_step(step, seconds=2.0):
    for i in range(3):
        step(i)
    times = []
    while sum(times) < seconds:
        start = time.perf_counter()
        step(len(times))
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def batches(vocabulary, batch, context):
    return [torch.randint(0, vocabulary, (batch, context)) for _ in range(BATCHES)]


def embed(vocabulary, width, batch, context):
    token = torch.nn.Embedding(vocabulary, width, sparse=True)
    position = torch.nn.Embedding(context, width, sparse=True)
    sgd = torch.optim.SGD([token.weight, position.weight], lr=0.1)
    inputs = batches(vocabulary, batch, context)
    places = torch.arange(context)

    def step(i):
        sgd.zero_grad(set_to_none=True)
        (token(inputs[i % BATCHES]) + position(places)).sum().backward()
        sgd.step()

    return median_step(step)


def toy(vocabulary, width, batch, context):
    token = torch.nn.Embedding(vocabulary, width, sparse=True)
    position = torch.nn.Embedding(context, width, sparse=True)
    head = torch.nn.Linear(width, vocabulary)
    sgd = torch.optim.SGD([token.weight, position.weight, *head.parameters()], lr=0.1)
    inputs = batches(vocabulary, batch, context)
    targets = batches(vocabulary, batch, context)
    places = torch.arange(context)

    def step(i):
        sgd.zero_grad(set_to_none=True)
        logits = head(token(inputs[i % BATCHES]) + position(places))
        functional.cross_entropy(logits.flatten(0, 1), targets[i % BATCHES].flatten()).backward()
        sgd.step()

    return median_step(step)


if __name__ == "__main__":
    torch.set_num_threads(os.cpu_count())
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
    for name, workload, sizes in [
        ("W1", embed, (50257, 256, 8, 4)),
        ("W1b", embed, (1000, 256, 64, 256)),
        ("W1b", embed, (50257, 256, 64, 256)),
        ("W1b", embed, (1000000, 256, 64, 256)),
        ("W2", toy, (1132, 256, 8, 4)),
        ("W2", toy, (50257, 256, 8, 4)),
    ]:
        label = name + "/" + "/".join(map(str, sizes))
        print(f"{label:24s} {workload(*sizes) * 1e6:10.1f} us", flush=True)
