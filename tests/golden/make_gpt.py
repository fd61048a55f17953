#!/usr/bin/python3
"""Writes positions.json and gpt_story.json: tables of relative positions, and PyTorch's results in float64 for training
runs of a small GPT on The Verdict.

Needs Debian's python3-torch and python3-numpy. The initial weights have a formula, so that no weight file is needed:

    wave(shape, frequency, phase, scale)[k] = scale * sin(frequency * k + phase),  k = 0 .. n-1 (row-major)

The i-th parameter of a model, in the order of its `parameters` list, is wave(shape, 0.37 + 0.011 i, 0.5 i, scale_i),
plus 1 for the gains of normalisations; scale_i is in the list. Token ids are those of the-verdict.gpt2.ids modulo the
vocabulary, because a small vocabulary keeps the runs short.
"""
import math, pathlib
import numpy as np
import torch
import torch.nn.functional as F

import lines

HERE = pathlib.Path(__file__).resolve().parent
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)


def wave(shape, frequency, phase, scale):
    k = np.arange(int(np.prod(shape)), dtype=np.float64)
    return torch.tensor(scale * np.sin(frequency * k + phase)).reshape(shape)


def leaf(shape, frequency, phase, scale, add=0.0):
    return (wave(shape, frequency, phase, scale) + add).requires_grad_()


# --- Relative positions -------------------------------------------------------------------------

def rope_tables(length, width, base=10000.0):
    rate = base ** (-torch.arange(0, width, 2).double() / width)
    angle = torch.arange(length).double()[:, None] * rate            # [length, width / 2]
    return torch.cos(angle), torch.sin(angle)


def rope(x, layout, base=10000.0):
    """Rotates each pair (a, b) of columns of x [..., length, width] to (a cos - b sin, a sin + b cos).
    Layout "halves" pairs columns i and i + width / 2, "interleaved" columns 2i and 2i + 1."""
    cos, sin = rope_tables(x.shape[-2], x.shape[-1], base)
    if layout == "halves":
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


def alibi_slopes(heads):
    def powers(n):
        start = 2.0 ** (-8.0 / n)
        return [start ** (i + 1) for i in range(n)]
    closest = 2 ** int(math.floor(math.log2(heads)))
    extra = powers(2 * closest)[0::2][: heads - closest]
    return torch.tensor(powers(closest) + extra)


def alibi_bias(heads, length):
    t = torch.arange(length).double()
    return -alibi_slopes(heads)[:, None, None] * (t[:, None] - t[None, :]).clamp(min=0)


def t5_bucket(distance, buckets, max_distance):
    """Returns the bucket of distance = query - key >= 0. The first half of the buckets is exact, the rest logarithmic."""
    exact = buckets // 2
    if distance < exact:
        return distance
    large = exact + int(math.log(distance / exact) / math.log(max_distance / exact) * (buckets - exact))
    return min(large, buckets - 1)


def t5_table(length, buckets, max_distance):
    return torch.tensor([[t5_bucket(max(q - k, 0), buckets, max_distance) for k in range(length)] for q in range(length)])


# --- Attention ----------------------------------------------------------------------------------

def causal_attention(q, k, v, bias=None):
    """Returns softmax(q k' / sqrt(width) + bias) v over keys <= query. All are [batch, heads, length, width]."""
    score = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if bias is not None:
        score = score + bias
    length = q.shape[-2]
    score = score.masked_fill(torch.triu(torch.ones(length, length, dtype=torch.bool), 1), -math.inf)
    return torch.softmax(score, -1) @ v


def position_tables():
    return {"alibi_slopes": {str(n): alibi_slopes(n).tolist() for n in (1, 2, 4, 6, 8, 12, 16)},
            "t5_buckets (8 buckets, max_distance 32; distance 0 ..)": [t5_bucket(d, 8, 32) for d in range(48)],
            "t5_buckets (32 buckets, max_distance 128; distance 0 ..)": [t5_bucket(d, 32, 128) for d in range(160)]}


# --- A whole model ------------------------------------------------------------------------------

def gpt(vocab, width, context, heads, layers, positions, qkv_bias, head, norm="layer"):
    """Token embedding [+ learned positions] -> layers x (x + attention(norm(x)); x + feed_forward(norm(x))) -> norm -> head.
    feed_forward: linear to 4 x width, gelu by tanh, linear. head: 'untied' (no bias) or 'tied'."""
    shapes = [("token", (vocab, width), 0.3, 0)]
    if positions == "learned":
        shapes.append(("position", (context, width), 0.3, 0))
    if positions == "t5":
        shapes.append(("t5_table", (8, heads), 0.5, 0))
    for i in range(layers):
        p = f"block.{i}."
        shapes += [(p + "norm1.weight", (width,), 0.1, 1), (p + "norm1.bias", (width,), 0.1, 0)]
        for part in ("query", "key", "value"):
            shapes.append((p + f"attention.{part}.weight", (width, width), 0.15, 0))
            if qkv_bias:
                shapes.append((p + f"attention.{part}.bias", (width,), 0.05, 0))
        shapes += [(p + "attention.out.weight", (width, width), 0.15, 0), (p + "attention.out.bias", (width,), 0.05, 0),
                   (p + "norm2.weight", (width,), 0.1, 1), (p + "norm2.bias", (width,), 0.1, 0),
                   (p + "feed_forward.0.weight", (4 * width, width), 0.15, 0), (p + "feed_forward.0.bias", (4 * width,), 0.05, 0),
                   (p + "feed_forward.2.weight", (width, 4 * width), 0.1, 0), (p + "feed_forward.2.bias", (width,), 0.05, 0)]
    shapes += [("norm.weight", (width,), 0.1, 1), ("norm.bias", (width,), 0.1, 0)]
    if head == "untied":
        shapes.append(("head.weight", (vocab, width), 0.3, 0))
    named = {}
    for i, (name, shape, scale, add) in enumerate(shapes):
        named[name] = leaf(shape, 0.37 + 0.011 * i, 0.5 * i, scale, add)
    listing = [{"name": n, "shape": list(s), "scale": sc, "plus": a} for n, s, sc, a in shapes]

    def forward(ids):
        batch, length = ids.shape
        x = F.embedding(ids, named["token"])
        if positions == "learned":
            x = x + named["position"][:length]
        bias = None
        if positions == "alibi":
            bias = alibi_bias(heads, length)
        if positions == "t5":
            bias = named["t5_table"][t5_table(length, 8, 32)].permute(2, 0, 1)
        for i in range(layers):
            p = f"block.{i}."
            h = F.layer_norm(x, (width,), named[p + "norm1.weight"], named[p + "norm1.bias"], 1e-5)
            parts = []
            for part in ("query", "key", "value"):
                y = F.linear(h, named[p + f"attention.{part}.weight"], named.get(p + f"attention.{part}.bias"))
                parts.append(y.view(batch, length, heads, width // heads).transpose(1, 2))
            q, k, v = parts
            if positions.startswith("rope"):
                layout = positions.split()[1]
                q, k = rope(q, layout), rope(k, layout)
            a = causal_attention(q, k, v, bias).transpose(1, 2).reshape(batch, length, width)
            x = x + F.linear(a, named[p + "attention.out.weight"], named[p + "attention.out.bias"])
            h = F.layer_norm(x, (width,), named[p + "norm2.weight"], named[p + "norm2.bias"], 1e-5)
            h = F.linear(h, named[p + "feed_forward.0.weight"], named[p + "feed_forward.0.bias"])
            h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h ** 3)))
            x = x + F.linear(h, named[p + "feed_forward.2.weight"], named[p + "feed_forward.2.bias"])
        x = F.layer_norm(x, (width,), named["norm.weight"], named["norm.bias"], 1e-5)
        return F.linear(x, named["token"] if head == "tied" else named["head.weight"])

    return named, listing, forward


def run(vocab, width, context, heads, layers, positions, qkv_bias, head, batch, stride, steps, optimizer, options, clip=None):
    ids = [int(t) % vocab for t in (HERE / "the-verdict.gpt2.ids").read_text().split()]
    starts = range(0, len(ids) - context, stride)
    x = torch.tensor([ids[s:s + context] for s in starts])
    y = torch.tensor([ids[s + 1:s + context + 1] for s in starts])
    named, listing, forward = gpt(vocab, width, context, heads, layers, positions, qkv_bias, head)
    opt = getattr(torch.optim, optimizer)(list(named.values()), **options)
    batches = len(x) // batch
    losses, norms = [], []
    for step in range(steps):
        b = step % batches
        xs, ys = x[b * batch:(b + 1) * batch], y[b * batch:(b + 1) * batch]
        opt.zero_grad()
        loss = F.cross_entropy(forward(xs).flatten(0, 1), ys.flatten())
        loss.backward()
        losses.append(loss.item())
        if clip is not None:
            norms.append(torch.nn.utils.clip_grad_norm_(list(named.values()), clip).item())
        else:
            norms.append(math.sqrt(sum((p.grad ** 2).sum().item() for p in named.values())))
        opt.step()
    with torch.no_grad():
        line = x[0].tolist()
        for _ in range(24):
            logits = forward(torch.tensor([line[-context:]]))[0, -1]
            line.append(int(logits.argmax()))
    return {"model": {"vocabulary": vocab, "width": width, "context": context, "heads": heads, "layers": layers,
                      "positions": positions, "qkv_bias": qkv_bias, "head": head, "norm_epsilon": 1e-5},
            "parameters": listing, "batch": batch, "stride": stride, "steps": steps,
            "optimizer": {"name": optimizer.lower(), "options": options}, "clip_norm": clip,
            "loss": losses, "gradient_norm": norms,
            "sum_after": {n: p.sum().item() for n, p in named.items()},
            "norm_after": {n: p.norm().item() for n, p in named.items()},
            "greedy_after_first_window": line[context:]}


STORY = [
    dict(vocab=211, width=32, context=16, heads=4, layers=2, positions="learned", qkv_bias=False, head="untied", batch=4, stride=16,
         steps=40, optimizer="AdamW", options=dict(lr=1e-3, weight_decay=0.1)),
    dict(vocab=211, width=32, context=16, heads=4, layers=2, positions="learned", qkv_bias=True, head="tied", batch=4, stride=16,
         steps=40, optimizer="AdamW", options=dict(lr=1e-3, weight_decay=0.1), clip=1.0),
    dict(vocab=211, width=24, context=20, heads=3, layers=1, positions="rope halves", qkv_bias=False, head="untied", batch=3, stride=20,
         steps=30, optimizer="AdamW", options=dict(lr=2e-3, weight_decay=0.01)),
    dict(vocab=211, width=24, context=20, heads=6, layers=1, positions="alibi", qkv_bias=False, head="untied", batch=3, stride=20,
         steps=30, optimizer="SGD", options=dict(lr=0.05, momentum=0.9, weight_decay=1e-3)),
    dict(vocab=211, width=24, context=20, heads=3, layers=2, positions="t5", qkv_bias=True, head="untied", batch=3, stride=20,
         steps=30, optimizer="Adam", options=dict(lr=1e-3)),
]

if __name__ == "__main__":
    lines.write(HERE / "positions.json", position_tables())
    runs = [run(**s) for s in STORY]
    for r in runs:
        print(r["model"]["positions"], r["loss"][0], r["loss"][-1])
    lines.write(HERE / "gpt_story.json", {
        "what": "mean cross-entropy before each update, norm of all gradients at that step (before clipping), sum and Euclidean norm of every "
                "parameter after the last update, and the 24 ids by which the trained model continues the first window with greedy decoding",
        "runs": runs})
