#!/usr/bin/python3
"""Writes the golden files of optimizers: the losses and tables of PyTorch in float64.

Needs Debian's python3-torch (1.13) and python3-numpy, and the-verdict.txt in $ROWGRAD_DATA. Reads the
GPT-2 ids of The Verdict from the-verdict.gpt2.ids. Takes about a minute on one core. With names of
cases as arguments, it writes only their files.

The model is the toy model of make_toy.py: token embedding + learned positions -> linear head -> mean
cross-entropy. Gradients and optimizers are always dense, so momentum, moments and weight decay move
every row of a table; an implementation with row gradients must give the same results. The initial
weights have a formula, so that no weight file is needed:

    wave(shape, frequency, phase, scale)[k] = scale * sin(frequency * k + phase), k row-major from 0

The most informative rows are looked up early and never again. "token_row_after" has some of them, and
"token_row_last_lookup" has the step of their last lookup (null for never).
"""

import math
import os
import pathlib
import sys

import numpy as np
import torch
from torch.nn import functional

import lines

HERE = pathlib.Path(__file__).parent

OPTIMIZERS = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop,
}
# Options of PyTorch's optimizers that choose an implementation, not the result.
HOW = {"foreach", "capturable", "differentiable", "fused"}

GPT2 = dict(tokens="gpt2", vocab=50257, width=8, context=8, stride=8, batch=4, steps=200)
CHARACTERS = dict(
    tokens="characters", vocab=62, width=16, context=16, stride=16, batch=4, steps=60)

WHAT = {
    "loss": "mean cross-entropy of each batch, before its update",
    "token_rows_with_gradient": "rows of the token table with a non-zero gradient, at each update",
    "token_row_last_lookup": "the last update (from 0) with that id in its inputs, null for none",
    "token_row_after": "the first 8 values of some rows of the token table after the last update",
}
WHAT_SCHEDULE = {"learning_rates": "the learning rate of each update, which replaces the option lr"}
WHAT_ACCUMULATE = {"accumulate": "batches per update, whose gradients are summed (not averaged)"}
WHAT_TIED = {"tied": "the token table is also the head's weight; the head has its own bias"}


def wave(shape, frequency, phase, scale):
    k = np.arange(math.prod(shape), dtype=np.float64)
    return torch.tensor(scale * np.sin(frequency * k + phase)).reshape(shape)


def cosine(update, updates):
    """Returns the factor of the learning rate: from 1 down to nearly 0."""
    return 0.5 * (1 + math.cos(math.pi * update / updates))


def warmup_cosine(update, updates, warmup=10):
    """Returns a factor that rises linearly from exactly 0 to 1, then follows cosine()."""
    return update / warmup if update < warmup else cosine(update - warmup, updates - warmup)


class Text:
    """The batches of a corpus's windows, in order and repeated. A last incomplete batch is dropped."""

    def __init__(self, tokens, context, stride, batch):
        if tokens == "gpt2":
            file = pathlib.Path(__file__).parent / "the-verdict.gpt2.ids"
            ids = [int(word) for word in file.read_text().split()]
        else:
            folder = pathlib.Path(os.environ["ROWGRAD_DATA"])
            text = (folder / "the-verdict.txt").read_text()
            number = {character: i for i, character in enumerate(sorted(set(text)))}
            ids = [number[character] for character in text]
        starts = range(0, len(ids) - context, stride)
        windows = torch.tensor([ids[start : start + context + 1] for start in starts])
        self.batches = windows[: len(windows) // batch * batch].reshape(-1, batch, context + 1)

    def batch(self, number):
        windows = self.batches[number % len(self.batches)]
        return windows[:, :-1], windows[:, 1:]


def probes(vocab, last_lookup):
    """Returns the rows to record: the table's ends and middle, and some by the time of their last lookup."""
    by_age = sorted(last_lookup, key=lambda row: (last_lookup[row], row))
    chosen = {0, 1, vocab // 2, vocab - 1}
    chosen.update(by_age[:3])  # looked up longest ago
    chosen.update(by_age[len(by_age) * i // 8] for i in range(1, 8))
    chosen.update(by_age[-2:])  # looked up in the last update
    return sorted(chosen)


def record(optimizer, *, tokens, vocab, width, context, stride, batch, steps,
           schedule=None, accumulate=1, tied=False, **options):
    """Trains one model, and returns the contents of its golden file."""
    text = Text(tokens, context, stride, batch)
    token = torch.nn.Parameter(wave((vocab, width), 0.7, 0.0, 0.02))
    position = torch.nn.Parameter(wave((context, width), 0.3, 1.0, 0.02))
    head = token if tied else torch.nn.Parameter(wave((vocab, width), 0.11, 2.0, 0.02))
    bias = torch.nn.Parameter(torch.zeros(vocab))
    parameters = [token, position, bias] + ([] if tied else [head])
    trainer = OPTIMIZERS[optimizer](parameters, **options)
    if schedule:
        factor = lambda update: schedule(update, steps)
        scheduler = torch.optim.lr_scheduler.LambdaLR(trainer, factor)

    losses, rows, rates, last_lookup = [], [], [], {}
    for step in range(steps):
        trainer.zero_grad()
        looked_up = set()
        for part in range(accumulate):
            inputs, targets = text.batch(step * accumulate + part)
            logits = functional.linear(functional.embedding(inputs, token) + position, head, bias)
            loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
            loss.backward()
            losses.append(loss.item())
            looked_up.update(inputs.flatten().tolist())
        last_lookup.update(dict.fromkeys(looked_up, step))
        rows.append(int((token.grad != 0).any(1).sum()))
        # Rows are counted by their nonzero gradients, so no row that was looked up may have a zero gradient.
        assert rows[-1] == (vocab if tied else len(looked_up)), (step, rows[-1], len(looked_up))
        rates.append(trainer.param_groups[0]["lr"])
        trainer.step()
        if schedule:
            scheduler.step()

    init = {"token": [0.7, 0.0, 0.02], "position": [0.3, 1.0, 0.02]}
    if not tied:
        init["head_weight [vocab,width]"] = [0.11, 2.0, 0.02]
    what = dict(WHAT)
    what |= WHAT_SCHEDULE if schedule else {}
    what |= WHAT_ACCUMULATE if accumulate > 1 else {}
    what |= WHAT_TIED if tied else {}
    probe = probes(vocab, last_lookup)
    result = {
        "what": what,
        "tokens": tokens,
        "vocab": vocab,
        "width": width,
        "context": context,
        "stride": stride,
        "batch": batch,
        "positions": "learned",
        "steps": steps,
        "optimizer": {
            "name": optimizer,
            "options": {key: value for key, value in trainer.defaults.items() if key not in HOW},
        },
    }
    if accumulate > 1:
        result["accumulate"] = accumulate
    if tied:
        result["tied"] = True
    result["init"] = init | {"head_bias": 0}
    if schedule:
        result["learning_rates"] = rates
    return result | {
        "loss": losses,
        "token_rows_with_gradient": rows,
        "token_row_last_lookup": {str(row): last_lookup.get(row) for row in probe},
        "token_row_after": {str(row): token.data[row, :8].tolist() for row in probe},
        "token_table_sum_after": token.data.sum().item(),
        "token_table_square_sum_after": token.data.square().sum().item(),
        "head_weight_sum_after": head.data.sum().item(),
    }


# Keys are file names without "toy_" and ".json". With GPT-2's ids, 97 % of the rows are never looked
# up, and most others once or twice. With characters, only rare rows are not looked up for many steps.
CASES = {
    "gpt2_adam": dict(GPT2, optimizer="adam", lr=0.005),
    "gpt2_adamw": dict(GPT2, optimizer="adamw", lr=0.005),
    "gpt2_adagrad": dict(GPT2, optimizer="adagrad", lr=0.05),
    "gpt2_rmsprop": dict(GPT2, optimizer="rmsprop", lr=0.002),
    "gpt2_sgd_schedule": dict(
        GPT2, optimizer="sgd", lr=0.5, momentum=0.9, weight_decay=0.01, schedule=cosine),
    "gpt2_adamw_schedule": dict(
        GPT2, optimizer="adamw", lr=0.01, weight_decay=0.1, schedule=warmup_cosine),
    "gpt2_adamw_accumulate": dict(GPT2, steps=120, optimizer="adamw", lr=0.005, accumulate=2),
    "char_sgd_dampening": dict(
        CHARACTERS, optimizer="sgd", lr=0.2, momentum=0.9, dampening=0.3, weight_decay=0.01),
    "char_sgd_maximize": dict(CHARACTERS, optimizer="sgd", lr=0.02, momentum=0.9, maximize=True),
    "char_sgd_schedule": dict(
        CHARACTERS, optimizer="sgd", lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True,
        schedule=warmup_cosine),
    "char_sgd_tied": dict(CHARACTERS, optimizer="sgd", lr=0.1, momentum=0.9, tied=True),
    "char_adam_decay": dict(CHARACTERS, optimizer="adam", lr=0.005, weight_decay=0.01),
    "char_adam_amsgrad": dict(CHARACTERS, optimizer="adam", lr=0.005, amsgrad=True),
    "char_adam_maximize": dict(CHARACTERS, optimizer="adam", lr=0.002, maximize=True),
    "char_adam_schedule": dict(CHARACTERS, optimizer="adam", lr=0.01, schedule=warmup_cosine),
    "char_adamw_amsgrad": dict(CHARACTERS, optimizer="adamw", lr=0.005, amsgrad=True),
    "char_adamw_tied": dict(CHARACTERS, optimizer="adamw", lr=0.005, tied=True),
    "char_adagrad_decay": dict(
        CHARACTERS, optimizer="adagrad", lr=0.05, lr_decay=0.01, weight_decay=0.01),
    "char_rmsprop_centered": dict(
        CHARACTERS, optimizer="rmsprop", lr=0.0005, centered=True, momentum=0.9),
    "char_rmsprop_decay": dict(CHARACTERS, optimizer="rmsprop", lr=0.002, weight_decay=0.01),
}


def main():
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)  # always sums in the same order
    for name in sys.argv[1:] or CASES:
        result = record(**CASES[name])
        lines.write(HERE / f"toy_{name}.json", result)
        print(f"{name}: loss {result['loss'][0]:.4f} -> {result['loss'][-1]:.4f}")


if __name__ == "__main__":
    main()
