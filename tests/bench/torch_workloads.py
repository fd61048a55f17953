#!/usr/bin/python3
"""The workloads of workloads.cpp in PyTorch (Debian: python3-torch): the median time of a step."""

import os
import statistics
import time

import torch
from torch.nn import functional

BATCHES = 16


def median_step(step, seconds=2.0, steps=None):
    for i in range(3):
        step(i)
    times = []
    while len(times) < steps if steps else sum(times) < seconds:
        start = time.perf_counter()
        step(len(times))
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def batches(vocabulary, batch, context):
    return [torch.randint(0, vocabulary, (batch, context)) for _ in range(BATCHES)]


def plain(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def embed(vocabulary, width, batch, context, optimizer=plain, sparse=True, steps=None):
    token = torch.nn.Embedding(vocabulary, width, sparse=sparse)
    position = torch.nn.Embedding(context, width, sparse=sparse)
    sgd = optimizer([token.weight, position.weight])
    inputs = batches(vocabulary, batch, context)
    places = torch.arange(context)

    def step(i):
        sgd.zero_grad(set_to_none=True)
        (token(inputs[i % BATCHES]) + position(places)).sum().backward()
        sgd.step()

    return median_step(step, steps=steps)


def momentum(vocabulary, width, batch, context):
    # The buffer of sparse momentum grows with every step, and the time of a step with it.
    return embed(vocabulary, width, batch, context, steps=50,
                 optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9))


def momentum_decay(vocabulary, width, batch, context):
    # Refused for sparse gradients.
    return embed(vocabulary, width, batch, context, sparse=False,
                 optimizer=lambda parameters: torch.optim.SGD(
                     parameters, lr=0.1, momentum=0.9, weight_decay=0.01))


def adamw(vocabulary, width, batch, context):
    # Refused for sparse gradients.
    return embed(vocabulary, width, batch, context, optimizer=torch.optim.AdamW, sparse=False)


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
        ("W1_momentum", momentum, (50257, 256, 8, 4)),
        ("W1_momentum_decay", momentum_decay, (50257, 256, 8, 4)),
        ("W1_adamw", adamw, (50257, 256, 8, 4)),
        ("W1b", embed, (1000, 256, 64, 256)),
        ("W1b", embed, (50257, 256, 64, 256)),
        ("W1b", embed, (1000000, 256, 64, 256)),
        ("W2", toy, (1132, 256, 8, 4)),
        ("W2", toy, (50257, 256, 8, 4)),
    ]:
        label = name + "/" + "/".join(map(str, sizes))
        print(f"{label:36s} {workload(*sizes) * 1e6:10.1f} us", flush=True)
