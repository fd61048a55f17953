#!/usr/bin/python3
"""Measures how much an n-gram memory helps a GPT on the King James Bible. Called by ngram_memory.sh.

Trains the same GPT without a memory, with memories of increasing size (with exact updates and with
the policy of SparseAdam, which updates only rows with a gradient), and in PyTorch with dense AdamW.
Writes results.json, table.md and losses.svg (validation loss by steps and by seconds) to a folder.
Runs with results in results.json are not repeated.
"""

import argparse
import json
import math
import pathlib
import re
import subprocess
import sys
import time

import numpy

VOCABULARY, WIDTH, HEADS, LAYERS, CONTEXT, BATCH = 2048, 128, 4, 4, 64, 12
RATE, TABLE_RATE, WARM_UP, FLOOR, DECAY, CLIP = 1e-3, 20, 100, 0.1, 0.1, 1.0
EVERY, EVALUATED = 100, 20  # steps between evaluations, and batches per evaluation
VALIDATION = 0.1
LINE = re.compile(r"step +(\d+)/\d+ +training loss ([\d.]+) +validation loss ([\d.]+)")


def memory(rows, updates="exact"):
    return ["--ngrams", "2,3", "--ngram-rows", str(rows), "--ngram-rate", str(TABLE_RATE),
            "--ngram-zero-init", "--ngram-updates", updates]


RUNS = {
    "GPT alone": [],
    "10⁴ rows a head": memory(10**4),
    "10⁵ rows a head": memory(10**5),
    "10⁶ rows a head": memory(10**6),
    "10⁴, touched only": memory(10**4, "touched"),
    "10⁵, touched only": memory(10**5, "touched"),
    "10⁶, touched only": memory(10**6, "touched"),
}
TORCH = "10⁴, PyTorch, dense AdamW"


def train(options, steps, every=EVERY):
    """Runs rowgrad train, and returns its evaluations [step, training loss, validation loss]."""
    command = [str(options.program), "train", "--model", "gpt", "--corpus", str(options.tokens),
               "--tokenizer", str(options.tokenizer), "--stride", str(CONTEXT), "--shuffle", "--bias", "--no-tie-weights",
               "--gelu", "erf", "--steps", str(steps), "--evaluate-every", str(every),
               "--evaluate-batches", str(EVALUATED), "--sample-tokens", "0", *options.memory]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [[int(step), float(training), float(validation)]
            for step, training, validation in LINE.findall(lines)]


def seconds_a_step(run):
    """Returns the seconds per step, from runs of two lengths, so that startup and shutdown do not count."""
    times = {}
    for steps in (10, 60, 10, 60):
        start = time.perf_counter()
        run(steps)
        times.setdefault(steps, []).append(time.perf_counter() - start)
    return (min(times[60]) - min(times[10])) / 50


# --- PyTorch --------------------------------------------------------------------------------------

def scheduled(step, steps):
    if step < WARM_UP:
        return (step + 1) / WARM_UP
    share = (step - WARM_UP) / max(steps - WARM_UP, 1)
    return FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * share)) / 2


def torch_model():
    import torch
    import torch_steps
    model = torch_steps.Gpt({"vocabulary": VOCABULARY, "width": WIDTH, "context": CONTEXT,
                             "layers": LAYERS, "heads": HEADS, "dropout": 0, "ngram_rows": 10**4,
                             "optimizer": "adamw"})
    with torch.no_grad():  # initializes like GPT-2, with a memory whose output is zero
        for name, parameter in model.named_parameters():
            last = name.endswith("out.weight") or name.endswith("feed_forward.2.weight")
            if name.startswith("memory."):
                if name.startswith("memory.value"):
                    parameter.zero_()
            elif parameter.dim() == 2:
                parameter.normal_(0, 0.02 / (2 * LAYERS)**0.5 if last else 0.02)
            elif name.endswith("bias"):
                parameter.zero_()
    return model


def train_torch(options, steps, every=EVERY):
    import torch
    torch.manual_seed(123)
    torch.set_num_threads(options.threads)
    ids = torch.from_numpy(options.ids.astype(numpy.int64))
    begin = len(ids) - int(VALIDATION * len(ids))
    windows = [part[:(len(part) - 1) // CONTEXT * CONTEXT + 1] for part in (ids[:begin], ids[begin:])]
    cut = [(part[:-1].view(-1, CONTEXT), part[1:].view(-1, CONTEXT)) for part in windows]
    model = torch_model()
    named = list(model.named_parameters())
    table = [p for n, p in named if n == "memory.table.weight"]
    matrices = [p for n, p in named if p.dim() >= 2 and n != "memory.table.weight"]
    others = [p for n, p in named if p.dim() < 2]
    optimizer = torch.optim.AdamW([
        {"params": matrices, "lr": RATE, "weight_decay": DECAY},
        {"params": others, "lr": RATE, "weight_decay": 0},
        {"params": table, "lr": RATE * TABLE_RATE, "weight_decay": 0}], betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: scheduled(step, steps))

    def loss(inputs, targets):
        x = model.token(inputs) + model.position(model.places)
        for number, block in enumerate(model.blocks):
            x = block(model.memory(x, inputs) if number == 1 else x)
        logits = model.head(x).flatten(0, 1)
        return torch.nn.functional.cross_entropy(logits, targets.flatten())

    def evaluated():
        with torch.no_grad():
            return [float(sum(loss(x[i * BATCH:(i + 1) * BATCH], y[i * BATCH:(i + 1) * BATCH])
                              for i in range(EVALUATED)) / EVALUATED) for x, y in cut]

    inputs, targets = cut[0]
    results, order = [], []
    for step in range(steps):
        if len(order) < BATCH:
            order = torch.randperm(len(inputs)).tolist()
        batch, order = order[:BATCH], order[BATCH:]
        optimizer.zero_grad(set_to_none=True)
        loss(inputs[batch], targets[batch]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        schedule.step()
        if step % every == 0:
            results.append([step, *evaluated()])
    return results


# --- Results --------------------------------------------------------------------------------------

def table(results):
    last = max(step for run in results.values() for step, *_ in run["losses"])
    marks = [mark for mark in (500, 1000, 1500, 2000, 3000, 4000) if mark <= last]
    head = ["", *(f"step {mark:,}" for mark in marks), "ms per step"]
    rows = [head, ["---"] * len(head)]
    for name, run in results.items():
        losses = {step: validation for step, _, validation in run["losses"]}
        rows.append([name, *(f"{losses[mark]:.3f}" for mark in marks),
                     f"{run['seconds'] * 1e3:.0f}"])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def plot(results, path):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4), sharey=True)
    for name, run in results.items():
        losses = [point for point in run["losses"] if point[0] > 0]
        style = "--" if "touched" in name else ":" if name == TORCH else "-"
        color = {"G": "black", "⁴": "tab:blue", "⁵": "tab:orange", "⁶": "tab:red"}[
            "G" if name.startswith("G") else name[2]]
        for axis, scale in zip(axes, (1, run["seconds"])):
            axis.plot([scale * step for step, *_ in losses], [loss for *_, loss in losses], style,
                      color=color, label=name, linewidth=1.2)
    axes[0].set(xlabel="steps", ylabel="validation loss (nats per token)", ylim=(3.8, 5.4))
    axes[1].set(xlabel="seconds")
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=pathlib.Path, required=True, help="path of rowgrad")
    parser.add_argument("--tokens", type=pathlib.Path, required=True, help="token file (.bin) of the corpus")
    parser.add_argument("--tokenizer", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--times", action="store_true", help="measure the times per step again")
    options = parser.parse_args()
    count = int(numpy.fromfile(options.tokens, dtype=numpy.uint64, offset=16, count=1)[0])
    options.ids = numpy.fromfile(options.tokens, dtype=numpy.uint16, offset=64, count=count)
    path = options.output / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for name in [*RUNS, TORCH]:
        options.memory = RUNS.get(name, [])
        run = train_torch if name == TORCH else train
        if name not in results:
            print(name, flush=True)
            # One more step, so that the last of `options.steps` steps is followed by an evaluation.
            results[name] = {"losses": run(options, options.steps + 1)}
        if options.times or "seconds" not in results[name]:
            results[name]["seconds"] = seconds_a_step(lambda n: run(options, n, every=10**6))
        path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    ordered = {name: results[name] for name in [*RUNS, TORCH]}
    (options.output / "table.md").write_text(table(ordered))
    plot(ordered, options.output / "losses.svg")
    print(table(ordered))


if __name__ == "__main__":
    sys.exit(main())
