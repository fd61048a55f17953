#!/usr/bin/env python3
"""Predicts how the time of a training step depends on the number of ranks.

    scaling.py [--latency S] [--bandwidth BYTES_PER_SECOND] [--weak | --one-rank MS]

The time of a step is the sum of three times:
- computing the gradients of a rank's slice of the batch;
- exchanging them as core/parallel does: counts go to all ranks; dense gradients go to their owners and back; row
  gradients are gathered or go through owners, whichever needs fewer bytes;
- the optimizer's step. Every rank updates all parameters, and all rows that any rank looked up.
For a sharded table, a rank instead asks the owners for the rows that it looks up, sends them the gradients, and
updates only its own rows.

Dense gradients are sent during the backward pass, which takes two thirds of the computing time. Exceptions are the
last bucket and a tied table, whose gradient is complete only at the end. A rank sends its messages one after another.
Latency and bandwidth come from bench_ranks on one machine, or from a network. The computing times were measured with
one process (bench_workloads).

With --weak, each rank has a whole batch, so that more ranks read more text. With --one-rank, predicts the result of
bench_sharded_table 1000000 on one machine, where all ranks share the network and a step of a single rank takes MS
milliseconds.
"""

import argparse
import os
from dataclasses import dataclass


@dataclass
class Workload:
    name: str
    compute: float  # seconds to compute the gradients of a batch with all threads of a machine
    update: float  # seconds of the optimizer's step
    tokens: int  # tokens per batch
    dense: int  # number of elements with dense gradients
    parameters: int  # number of tensors
    table: int  # rows of the table
    width: int  # elements per row; 0 if the table is tied and therefore counted as dense
    late: int = 0  # number of elements of a tied table
    sharded: bool = False  # true if the table's rows are sharded over ranks
    uniform: bool = False  # true if all rows are equally likely, so that ids hardly ever repeat


# The step times come from earlier runs of bench_workloads. The optimizer's part is the time to read and write 28 bytes
# per element at 20 GB/s, or 20 % of the step for row updates.
WORKLOADS = [
    Workload("toy GPT (W3)", 18.7e-3, 1.1e-3, 768, 803_712, 35, 65, 0, 8_320),
    Workload("GPT-2 124M, tied (W4)", 1.56, 0.17, 512, 124_000_000, 148, 50_257, 0, 38_597_376),
    Workload("embedding of 50,257 rows x 64 (W1b)", 2.5e-3, 0.6e-3, 16_384, 33_000, 4, 50_257, 64),
    Workload("embedding of 100 M rows x 64", 5.2e-3, 1.3e-3, 16_384, 33_000, 4, 100_000_000, 64),
    Workload("sharded table of 10^9 rows x 64", 5.2e-3, 1.3e-3, 16_384, 33_000, 4, 10**9, 64, sharded=True),
    Workload("sharded table of 10^10 rows x 64", 5.2e-3, 1.3e-3, 16_384, 33_000, 4, 10**10, 64, sharded=True),
]


def distinct(tokens, work):
    """Returns the expected number of distinct rows among `tokens` draws. Unless draws are uniform,
    the probability of row k is proportional to 1 / (k + 2.7) (Zipf's law)."""
    # Approximates by groups of increasing size, whose rows all have the probability of the middle row.
    groups = []
    first = 0.0
    if work.uniform:
        return tokens
    while first < work.table:
        size = max(1.0, min(first / 20, work.table - first))
        groups.append((size, 1 / (first + size / 2 + 2.7)))
        first += size
    total = sum(size * weight for size, weight in groups)
    return sum(size * (1 - (1 - weight / total) ** tokens) for size, weight in groups)


def exchange(work, ranks, tokens, latency, bandwidth):
    """Returns the seconds of the exchange, how many of them can overlap the backward pass, and the
    bytes that a rank sends."""
    if ranks == 1:
        return 0.0, 0.0, 0.0
    others = ranks - 1
    messages = 2 * others  # counts and losses
    sent = others * 8 * (work.parameters + 1)
    early = 0.0
    if work.dense:
        # Messages with the counts of each bucket, and one for each owner's piece of a parameter.
        buckets = min(work.parameters, max(1, work.dense * 4 // (2**17 * ranks)))
        dense_messages = buckets * others + 2 * (buckets * others + work.parameters)
        dense_sent = 2 * others / ranks * work.dense * 4
        messages += dense_messages
        sent += dense_sent
        seconds = dense_messages * latency + dense_sent / bandwidth
        early = seconds * (1 - work.late / work.dense) * (1 - 1 / buckets)
    if work.sharded:
        # Before the step, counts, ids and rows; after it, two kinds of counts, ids and gradients. A
        # share of 1 / ranks of the rows is on the rank itself and not sent.
        mine = distinct(tokens, work)
        messages += 6 * others
        sent += others * 16 + others / ranks * mine * (8 + 8 * work.width)
    elif work.width:
        row = 4 + 4 * work.width
        mine = distinct(tokens, work)
        union = distinct(tokens * ranks, work)
        gathered = others * mine
        owners = others / ranks * (mine + union)
        messages += 2 * others if gathered <= owners else 6 * others
        sent += row * min(gathered, owners)
    return messages * latency + sent / bandwidth, early, sent


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--latency", type=float, default=2e-6, help="seconds per message")
    options.add_argument("--bandwidth", type=float, default=1.25e9, help="bytes per second and rank")
    options.add_argument("--weak", action="store_true", help="each rank has a whole batch")
    options.add_argument("--one-rank", type=float, metavar="MS", help="milliseconds per step of bench_sharded_table on one rank")
    options = options.parse_args()
    if options.one_rank is not None:
        work = Workload("", options.one_rank / 1e3, 0, 4096, 0, 1, 10**6, 64, sharded=True, uniform=True)
        for ranks in [1, 2, 3, 4]:
            seconds, _, sent = exchange(work, ranks, work.tokens, options.latency, options.bandwidth / ranks)
            step = work.compute * max(1, ranks / os.cpu_count()) + seconds
            print(f"{ranks} ranks: {step * 1e3:.1f} ms per step, {sent / 1e6:.2f} MB sent by each")
        return
    print(f"{options.latency * 1e6:.1f} µs per message, {options.bandwidth / 1e9:.2f} GB/s; "
          f"{'a batch for each rank' if options.weak else 'one batch for all'}")
    for work in WORKLOADS:
        print(f"\n{work.name}\n{'ranks':>6} {'step':>11} {'waiting':>11} {'sent':>10} {'tokens/s':>11} {'efficiency':>11}")
        base = best = None
        for ranks in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]:
            share = work.tokens if options.weak else work.tokens / ranks
            seconds, early, sent = exchange(work, ranks, share, options.latency, options.bandwidth)
            rows = distinct(share * ranks, work) / distinct(work.tokens, work)
            update = work.update * (rows if work.width else 1) / (ranks if work.sharded else 1)
            compute = work.compute * share / work.tokens
            seconds -= min(early, compute * 2 / 3)
            step = compute + update + seconds
            rate = share * ranks / step
            base = base or rate
            if best is None or rate > best[1]:
                best = (ranks, rate)
            print(f"{ranks:>6} {step * 1e3:>8.2f} ms {seconds * 1e3:>8.2f} ms {sent / 1e6:>7.2f} MB "
                  f"{rate:>11.3g} {100 * rate / base / ranks:>9.0f} %")
        print(f"fastest with {best[0]} ranks: {best[1] / base:.1f} times as fast as one")


if __name__ == "__main__":
    main()
