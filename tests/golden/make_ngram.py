#!/usr/bin/python3
"""Writes ngram_memory.json: PyTorch's results in float64 for a GPT with an n-gram memory, with dense AdamW and SGD.

The memory is described in Cheng et al. 2026, "Conditional Memory via Scalable Lookup", arXiv 2601.07372. In front of
block i, for x [batch, length, width] and the ids of its tokens:

    rows   hash(order, head, position): the row in the table of each order and head (see row_ids)
    e      the concatenated rows                                   [batch, length, orders * heads * head_width]
    k      rms_norm(key(e)) * key_norm,  q = rms_norm(x) * query_norm
    s      sum(k * q) / sqrt(width);  g = sigmoid(sign(s) * sqrt(max(|s|, 1e-6)))
    u      g * value(e)
    x      x + u + silu(conv(rms_norm(u) * conv_norm)),  conv: depthwise, causal, without bias, dilated by the largest order:
           conv(z)[t, c] = sum over j < kernel of weight[c, j] * z[t - (kernel - 1 - j) * dilation, c], zeros before the start

All tables of a layer are concatenated to one: first order 2 with heads 0, 1, ..., then order 3 and so on. Each has a
prime number of rows. Weights, ids and gradients are as in make_gpt.py. The order of parameters: token, position; for each
layer its memory, if any (table, key.weight, key.bias, value.weight, value.bias, key_norm, query_norm, conv_norm, conv),
and its block; norm, head.
"""
import importlib.util, math, pathlib, sys
import torch
import torch.nn.functional as F

import lines

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("make_gpt", HERE / "make_gpt.py")
make_gpt = importlib.util.module_from_spec(spec); spec.loader.exec_module(make_gpt)
leaf, wave, causal_attention = make_gpt.leaf, make_gpt.wave, make_gpt.causal_attention
MASK = (1 << 64) - 1


def splitmix64(state):
    """Returns the output of SplitMix64 (Steele et al. 2014) for the state before the step."""
    z = (state + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def multipliers(seed, layer, orders, vocabulary):
    """Returns an odd factor for each distance 0 .. max(orders) - 1. Its product with an id (at most `vocabulary`) is
    below 2^63."""
    half = (2 ** 63 - 1) // (vocabulary + 1) // 2
    start = splitmix64((seed + 10007 * layer) & MASK)
    return [splitmix64((start + k) & MASK) % half * 2 + 1 for k in range(max(orders))]


def is_prime(n):
    return n > 1 and all(n % p for p in range(2, math.isqrt(n) + 1))


def table_sizes(rows, layers, orders, heads):
    """Returns a prime for each layer, order and head: the smallest one from `rows` on that is not used yet."""
    used, sizes = set(), {}
    for layer in layers:
        sizes[layer] = []
        for _ in orders:
            n = rows - 1
            for _ in range(heads):
                n += 1
                while not is_prime(n) or n in used:
                    n += 1
                used.add(n)
                sizes[layer].append(n)
    return sizes


def row_ids(ids, factors, sizes, orders, heads, vocabulary, canonical=None):
    """Returns the orders * heads rows of each position of a window with these ids, in the layer's concatenated table.
    Positions before the window count as id `vocabulary`. canonical[id] is the id under which `id` is hashed."""
    ids = [canonical[i] if canonical else i for i in ids]
    firsts = [sum(sizes[:j]) for j in range(len(sizes))]
    result = []
    for t in range(len(ids)):
        here, lookups = [], 0
        for n in orders:
            mixed = 0
            for k in range(n):
                mixed ^= (ids[t - k] if t >= k else vocabulary) * factors[k]
            for _ in range(heads):
                here.append(firsts[lookups] + mixed % sizes[lookups])
                lookups += 1
        result.append(here)
    return result


def rms(x, gain):
    return x * torch.rsqrt((x ** 2).mean(-1, keepdim=True) + 1e-5) * gain


def short_conv(z, weight, dilation):
    """Returns the causal depthwise convolution of z [batch, length, width] with weight [width, kernel]."""
    kernel = weight.shape[1]
    padded = F.pad(z.transpose(1, 2), ((kernel - 1) * dilation, 0))
    return F.conv1d(padded, weight[:, None, :], dilation=dilation, groups=z.shape[2]).transpose(1, 2)


def memory(x, rows, p, orders):
    e = F.embedding(rows, p["table"]).flatten(-2)
    k = rms(F.linear(e, p["key.weight"], p["key.bias"]), p["key_norm"])
    s = (k * rms(x, p["query_norm"])).sum(-1) / math.sqrt(x.shape[-1])
    g = torch.sigmoid(s.abs().clamp_min(1e-6).sqrt() * s.sign())
    u = g[..., None] * F.linear(e, p["value.weight"], p["value.bias"])
    return x + u + F.silu(short_conv(rms(u, p["conv_norm"]), p["conv"], max(orders)))


def one_memory():
    orders, heads, head_width, width, vocab = [2, 3], 2, 3, 6, 50
    sizes = table_sizes(23, [1], orders, heads)[1]
    ids = [[7, 7, 7, 3, 49, 0, 7, 7], [1, 2, 3, 1, 2, 3, 1, 2]]
    rows = torch.tensor([row_ids(i, multipliers(5, 1, orders, vocab), sizes, orders, heads, vocab) for i in ids])
    n = len(orders) * heads * head_width
    shapes = {"table": (sum(sizes), head_width), "key.weight": (width, n), "key.bias": (width,), "value.weight": (width, n), "value.bias": (width,),
              "key_norm": (width,), "query_norm": (width,), "conv_norm": (width,), "conv": (width, 4), "x": (2, 8, width)}
    p = {name: leaf(s, 0.37 + 0.05 * i, 0.5 * i, 0.6, 1.0 if name.endswith("norm") else 0.0) for i, (name, s) in enumerate(shapes.items())}
    y = memory(p["x"], rows, p, orders)
    (y * wave(y.shape, 0.23, 0.4, 1.0)).sum().backward()
    one = {"name": "n-gram memory: i-th of table, key, value, norms, conv, x is wave(0.37 + 0.05 i, 0.5 i, 0.6), plus 1 for norms",
           "output_shape": list(y.shape), "output": y.detach().flatten().tolist(),
           "gradients": {name: value.grad.flatten().tolist() for name, value in p.items()}}
    one.update(ids=ids, rows=rows.tolist(), seed=5, layer=1, orders=orders, heads=heads, vocabulary=vocab)
    return one


def gpt(vocab, width, context, heads, layers, ngram):
    shapes = [("token", (vocab, width), 0.3, 0), ("position", (context, width), 0.3, 0)]
    orders, n = ngram["orders"], len(ngram["orders"]) * ngram["heads"] * ngram["head_width"]
    sizes = table_sizes(ngram["rows"], ngram["layers"], orders, ngram["heads"])
    for i in range(layers):
        p = f"block.{i}."
        if i in ngram["layers"]:
            m = p + "memory."
            shapes += [(m + "table", (sum(sizes[i]), ngram["head_width"]), 0.3, 0),
                       (m + "key.weight", (width, n), 0.15, 0), (m + "key.bias", (width,), 0.05, 0),
                       (m + "value.weight", (width, n), 0.15, 0), (m + "value.bias", (width,), 0.05, 0),
                       (m + "key_norm", (width,), 0.1, 1), (m + "query_norm", (width,), 0.1, 1), (m + "conv_norm", (width,), 0.1, 1),
                       (m + "conv", (width, ngram["kernel"]), 0.2, 0)]
        shapes += [(p + "norm1.weight", (width,), 0.1, 1), (p + "norm1.bias", (width,), 0.1, 0)]
        shapes += [(p + f"attention.{part}.weight", (width, width), 0.15, 0) for part in ("query", "key", "value")]
        shapes += [(p + "attention.out.weight", (width, width), 0.15, 0), (p + "attention.out.bias", (width,), 0.05, 0),
                   (p + "norm2.weight", (width,), 0.1, 1), (p + "norm2.bias", (width,), 0.1, 0),
                   (p + "feed_forward.0.weight", (4 * width, width), 0.15, 0), (p + "feed_forward.0.bias", (4 * width,), 0.05, 0),
                   (p + "feed_forward.2.weight", (width, 4 * width), 0.1, 0), (p + "feed_forward.2.bias", (width,), 0.05, 0)]
    shapes += [("norm.weight", (width,), 0.1, 1), ("norm.bias", (width,), 0.1, 0), ("head.weight", (vocab, width), 0.3, 0)]
    named = {name: leaf(s, 0.37 + 0.011 * i, 0.5 * i, scale, plus) for i, (name, s, scale, plus) in enumerate(shapes)}
    listing = [{"name": n_, "shape": list(s), "scale": sc, "plus": a} for n_, s, sc, a in shapes]
    factors = {i: multipliers(ngram["seed"], i, orders, vocab) for i in ngram["layers"]}
    canonical = [i // ngram["fold"] for i in range(vocab)] if ngram.get("fold") else None

    def lookups(ids):
        return {i: torch.tensor([row_ids(w, factors[i], sizes[i], orders, ngram["heads"], vocab, canonical) for w in ids.tolist()]) for i in ngram["layers"]}

    def forward(ids):
        batch, length = ids.shape
        rows = lookups(ids)
        x = F.embedding(ids, named["token"]) + named["position"][:length]
        for i in range(layers):
            p = f"block.{i}."
            if i in rows:
                x = memory(x, rows[i], {k[len(p) + 7:]: v for k, v in named.items() if k.startswith(p + "memory.")}, orders)
            h = F.layer_norm(x, (width,), named[p + "norm1.weight"], named[p + "norm1.bias"], 1e-5)
            q, k, v = (F.linear(h, named[p + f"attention.{part}.weight"]).view(batch, length, heads, width // heads).transpose(1, 2) for part in ("query", "key", "value"))
            x = x + F.linear(causal_attention(q, k, v).transpose(1, 2).reshape(batch, length, width), named[p + "attention.out.weight"], named[p + "attention.out.bias"])
            h = F.linear(F.layer_norm(x, (width,), named[p + "norm2.weight"], named[p + "norm2.bias"], 1e-5), named[p + "feed_forward.0.weight"], named[p + "feed_forward.0.bias"])
            h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h ** 3)))
            x = x + F.linear(h, named[p + "feed_forward.2.weight"], named[p + "feed_forward.2.bias"])
        return F.linear(F.layer_norm(x, (width,), named["norm.weight"], named["norm.bias"], 1e-5), named["head.weight"])

    return named, listing, forward, lookups


def run(vocab, width, context, heads, layers, ngram, batch, stride, steps, optimizer, options, table_options=None):
    """Trains a GPT. table_options: options of the memory tables that differ from the other parameters' options."""
    ids = [int(t) % vocab for t in (HERE / "the-verdict.gpt2.ids").read_text().split()]
    starts = range(0, len(ids) - context, stride)
    x = torch.tensor([ids[s:s + context] for s in starts])
    y = torch.tensor([ids[s + 1:s + context + 1] for s in starts])
    named, listing, forward, lookups = gpt(vocab, width, context, heads, layers, ngram)
    tables = [p for n, p in named.items() if n.endswith("memory.table")]
    others = [p for n, p in named.items() if not n.endswith("memory.table")]
    groups = [{"params": others}, {"params": tables, **(table_options or {})}]
    opt = getattr(torch.optim, optimizer)(groups, **options)
    losses, norms, batches = [], [], len(x) // batch
    first = {str(i): r.tolist() for i, r in lookups(x[:batch]).items()}
    for step in range(steps):
        b = step % batches
        xs, ys = x[b * batch:(b + 1) * batch], y[b * batch:(b + 1) * batch]
        opt.zero_grad()
        loss = F.cross_entropy(forward(xs).flatten(0, 1), ys.flatten())
        loss.backward()
        if step == 0:
            touched = {n: int((p.grad != 0).any(-1).sum()) for n, p in named.items() if n.endswith("memory.table")}
        losses.append(loss.item())
        norms.append(math.sqrt(sum((p.grad ** 2).sum().item() for p in named.values())))
        opt.step()
    with torch.no_grad():
        line = x[0].tolist()
        for _ in range(24):
            line.append(int(forward(torch.tensor([line[-context:]]))[0, -1].argmax()))
    return {"model": {"vocabulary": vocab, "width": width, "context": context, "heads": heads, "layers": layers, "norm_epsilon": 1e-5}, "ngram": ngram,
            "rows_of_the_first_batch": first, "rows_with_a_gradient_in_the_first_step": touched,
            "parameters": listing, "batch": batch, "stride": stride, "steps": steps,
            "optimizer": {"name": optimizer.lower(), "options": options} | ({"table_options": table_options} if table_options else {}),
            "loss": losses, "gradient_norm": norms, "sum_after": {n: p.sum().item() for n, p in named.items()}, "norm_after": {n: p.norm().item() for n, p in named.items()},
            "greedy_after_first_window": line[context:]}


STORY = [
    dict(vocab=211, width=24, context=16, heads=3, layers=2, batch=4, stride=16, steps=30, optimizer="AdamW", options=dict(lr=1e-3, weight_decay=0.1),
         table_options=dict(lr=5e-3, weight_decay=0.0), ngram=dict(orders=[2, 3], heads=2, rows=151, head_width=4, layers=[1], kernel=4, seed=7)),
    dict(vocab=211, width=16, context=20, heads=2, layers=3, batch=3, stride=10, steps=30, optimizer="SGD", options=dict(lr=0.05, momentum=0.9, weight_decay=1e-3),
         ngram=dict(orders=[2], heads=3, rows=97, head_width=5, layers=[0, 2], kernel=3, seed=0, fold=2)),
]

if __name__ == "__main__":
    runs = [run(**s) for s in STORY]
    for r in runs:
        print(r["rows_with_a_gradient_in_the_first_step"], r["loss"][0], r["loss"][-1])
    lines.write(HERE / "ngram_memory.json", {"what": __doc__.split("\n")[0], "memory": one_memory(), "runs": runs})
