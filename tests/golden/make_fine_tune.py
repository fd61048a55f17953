#!/usr/bin/python3
"""Writes fine_tune.json: a small GPT that PyTorch fine-tunes in float64, with a new head, with a
masked loss, and with low-rank adapters; 30 steps of AdamW each.

Needs Debian's python3-torch. All parameters are initialized by `wave` (see golden.hpp), in the order
of "parameters". The test computes the documents with the same formula as texts().
"""
import math
import pathlib

import torch
from torch.nn import functional as F

import lines

torch.set_default_dtype(torch.float64)

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS, CLASSES, RANK = 13, 8, 8, 2, 2, 3, 2
LENGTHS = [8, 5, 3, 7, 2, 6, 8, 4]
BATCH, STEPS, IGNORED, PADDING = 4, 30, -100, 0
LINEAR = ["attention.query", "attention.key", "attention.value", "attention.out",
          "feed_forward.up", "feed_forward.down"]


def wave(shape, frequency, phase, scale):
    k = torch.arange(math.prod(shape), dtype=torch.float64)
    return (scale * torch.sin(frequency * k + phase)).reshape(shape)


def texts():
    return [[(5 * i * i + 3 * k * i + k) % VOCABULARY for i in range(length)]
            for k, length in enumerate(LENGTHS)]


def body_shapes():
    shapes = {"token.weight": (VOCABULARY, WIDTH), "position.weight": (CONTEXT, WIDTH)}
    for b in range(LAYERS):
        for part in LINEAR:
            outputs = 4 * WIDTH if part.endswith("up") else WIDTH
            inputs = 4 * WIDTH if part.endswith("down") else WIDTH
            shapes[f"blocks.{b}.{part}.weight"] = (outputs, inputs)
            if part not in LINEAR[:3]:
                shapes[f"blocks.{b}.{part}.bias"] = (outputs,)
        for norm in ("norm1", "norm2"):
            shapes[f"blocks.{b}.{norm}.weight"] = (WIDTH,)
            shapes[f"blocks.{b}.{norm}.bias"] = (WIDTH,)
    shapes["norm.weight"] = shapes["norm.bias"] = (WIDTH,)
    return shapes


class Model:
    """A GPT with the parameters `p`, by name. Adapters are named ….lora_a and ….lora_b."""

    def __init__(self, p, lora_scale=None):
        self.p, self.lora_scale = p, lora_scale

    def linear(self, x, name):
        y = F.linear(x, self.p[name + ".weight"], self.p.get(name + ".bias"))
        if name + ".lora_a" in self.p:
            y = y + self.lora_scale * (x @ self.p[name + ".lora_a"].T @ self.p[name + ".lora_b"].T)
        return y

    def norm(self, x, name):
        return F.layer_norm(x, (WIDTH,), self.p[name + ".weight"], self.p[name + ".bias"], 1e-5)

    def hidden_states(self, ids):
        batch, length = ids.shape
        x = F.embedding(ids, self.p["token.weight"]) + self.p["position.weight"][:length]
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        for b in (f"blocks.{b}." for b in range(LAYERS)):
            y = self.norm(x, b + "norm1")
            q, k, v = (self.linear(y, b + "attention." + part)
                       .view(batch, length, HEADS, -1).transpose(1, 2)
                       for part in ("query", "key", "value"))
            scores = q @ k.transpose(2, 3) / (WIDTH // HEADS) ** 0.5
            mixed = scores.masked_fill(future, -torch.inf).softmax(-1) @ v
            x = x + self.linear(mixed.transpose(1, 2).reshape(x.shape), b + "attention.out")
            up = F.gelu(self.linear(self.norm(x, b + "norm2"), b + "feed_forward.up"),
                        approximate="tanh")
            x = x + self.linear(up, b + "feed_forward.down")
        return self.norm(x, "norm")


def padded(rows, value):
    return torch.tensor([row + [value] * (CONTEXT - len(row)) for row in rows])


def run(name, shapes, trainable, loss_of, lora_scale=None):
    p = {}
    for k, (parameter, shape) in enumerate(shapes.items()):
        plus = 1.0 if "norm" in parameter and parameter.endswith(".weight") else 0.0
        p[parameter] = wave(shape, 0.37 + 0.011 * k, 0.5 * k, 0.3) + plus
        if parameter.endswith("lora_b"):
            p[parameter].zero_()
        p[parameter].requires_grad_(trainable(parameter))
    trained = [x for x in p.values() if x.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2, weight_decay=0.1)
    model = Model(p, lora_scale)
    losses, gradients = [], {}
    for step in range(STEPS):
        chosen = [(step * BATCH + row) % len(LENGTHS) for row in range(BATCH)]
        optimizer.zero_grad()
        loss = loss_of(model, chosen)
        loss.backward()
        losses.append(loss.item())
        gradients = {n: [round(g, 14) for g in x.grad.flatten().tolist()]
                     for n, x in p.items() if x.requires_grad}
        optimizer.step()
    return {"name": name, "parameters": list(shapes), "trained": len(trained),
            "trained_numbers": sum(x.numel() for x in trained),
            "loss": losses, "last_gradients": gradients,
            "after": {n: x.flatten().tolist() for n, x in p.items() if x.requires_grad}}


all_texts = texts()


def classifier(pooling, weight=None):
    def loss(model, chosen):
        x = model.hidden_states(padded([all_texts[i] for i in chosen], PADDING))
        rows = []
        for row, i in enumerate(chosen):
            last = LENGTHS[i] - 1
            rows.append(x[row, last] if pooling == "last" else x[row, : last + 1].mean(0))
        logits = model.linear(torch.stack(rows), "head")
        return F.cross_entropy(logits, torch.tensor([i % CLASSES for i in chosen]), weight=weight)
    return loss


def masked(model, chosen):
    """Returns the loss of the answers. The first half of a document is the prompt, the second half
    the answer, which id 1 ends."""
    inputs = padded([all_texts[i] for i in chosen], PADDING)
    targets = []
    for i in chosen:
        text = all_texts[i] + [1]
        prompt = max(1, LENGTHS[i] // 2)
        targets.append([IGNORED] * (prompt - 1) + text[prompt:])
    logits = model.linear(model.hidden_states(inputs), "head")
    return F.cross_entropy(logits.flatten(0, 1), padded(targets, IGNORED).flatten())


head = {"head.weight": (CLASSES, WIDTH), "head.bias": (CLASSES,)}
frozen_but = ("blocks.1.", "norm.", "head.")
lora_shapes = dict(body_shapes(), **head)
for layer in [f"blocks.{b}.{part}" for b in range(LAYERS) for part in LINEAR] + ["head"]:
    outputs, inputs = lora_shapes[layer + ".weight"]
    lora_shapes[layer + ".lora_a"] = (RANK, inputs)
    lora_shapes[layer + ".lora_b"] = (outputs, RANK)

runs = [
    run("last", dict(body_shapes(), **head), lambda name: name.startswith(frozen_but),
        classifier("last", torch.tensor([0.5, 1.0, 2.0]))),
    run("mean", dict(body_shapes(), **head), lambda name: True, classifier("mean")),
    run("masked", dict(body_shapes(), **{"head.weight": (VOCABULARY, WIDTH)}), lambda name: True,
        masked),
    run("lora", lora_shapes, lambda name: ".lora_" in name, classifier("last"), 8 / RANK),
]
path = pathlib.Path(__file__).parent / "fine_tune.json"
lines.write(path, {"cases": runs})
