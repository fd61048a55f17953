"""Measures the training steps of workloads.json in PyTorch, and describes PyTorch's BLAS."""

import ctypes
import os
import resource
import statistics
import time

import torch
from torch.nn import functional

BATCHES = 16  # as in measure.hpp
GROWING_STEPS = 50

OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "momentum-decay": lambda parameters: torch.optim.SGD(
        parameters, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adamw": torch.optim.AdamW,
}
REFUSE_SPARSE = {"momentum-decay", "adamw"}


def random_batches(workload, seed):
    generator = torch.Generator().manual_seed(seed)
    shape = (workload["batch"], workload["context"])
    return [torch.randint(0, workload["vocabulary"], shape, generator=generator)
            for _ in range(BATCHES)]


class Embed(torch.nn.Module):
    """Token embedding + learned positions. The gradient of the output is given."""

    def __init__(self, workload):
        super().__init__()
        vocabulary, width = workload["vocabulary"], workload["width"]
        sparse = workload["optimizer"] not in REFUSE_SPARSE
        # All ones, because random numbers for four million rows take long.
        self.token = torch.nn.Embedding.from_pretrained(
            torch.ones(vocabulary, width), freeze=False, sparse=sparse)
        self.position = torch.nn.Embedding(workload["context"], width, sparse=sparse)
        self.places = torch.arange(workload["context"])
        self.upstream = torch.randn(workload["batch"], workload["context"], width)

    def embedded(self, inputs):
        return self.token(inputs) + self.position(self.places)

    def backward(self, inputs, _):
        self.embedded(inputs).backward(self.upstream)


class Toy(Embed):
    """The toy next-token model: Embed with a linear head and cross-entropy."""

    def __init__(self, workload):
        super().__init__(workload)
        torch.nn.init.normal_(self.token.weight)
        self.head = torch.nn.Linear(workload["width"], workload["vocabulary"])

    def backward(self, inputs, targets):
        logits = self.head(self.embedded(inputs))
        functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()


class Attention(torch.nn.Module):
    """Causal self-attention: fused if `fused` is true (needs PyTorch 2.0), else op by op."""

    def __init__(self, workload, fused):
        super().__init__()
        width, context = workload["width"], workload["context"]
        self.heads, self.p, self.fused = workload["heads"], workload["dropout"], fused
        self.qkv = torch.nn.Linear(width, 3 * width, bias=False)
        self.out = torch.nn.Linear(width, width)
        self.register_buffer("later", torch.ones(context, context).triu(1).bool())

    def forward(self, x):
        batch, context, width = x.shape
        parts = self.qkv(x).view(batch, context, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.fused:
            mixed = functional.scaled_dot_product_attention(*parts, is_causal=True,
                                                            dropout_p=self.p)
        else:
            query, key, value = parts
            scores = query @ key.transpose(2, 3) / (width // self.heads) ** 0.5
            weights = scores.masked_fill(self.later, -torch.inf).softmax(-1)
            mixed = functional.dropout(weights, self.p) @ value
        return self.out(mixed.transpose(1, 2).reshape(batch, context, width))


class Block(torch.nn.Module):
    def __init__(self, workload, fused):
        super().__init__()
        width = workload["width"]
        self.attention = Attention(workload, fused)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.feed_forward = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))
        self.dropout = torch.nn.Dropout(workload["dropout"])

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norms[0](x)))
        return x + self.dropout(self.feed_forward(self.norms[1](x)))


class NgramMemory(torch.nn.Module):
    """The n-gram memory of rowgrad, except for the hash function, which has the same cost but chooses
    other rows."""

    ORDERS, HEADS, ROW_WIDTH, TAPS = (2, 3), 4, 16, 4

    def __init__(self, workload):
        super().__init__()
        width, rows = workload["width"], workload["ngram_rows"]
        lookups = len(self.ORDERS) * self.HEADS
        self.width, self.rows = width, rows
        self.table = torch.nn.Embedding(lookups * rows, self.ROW_WIDTH,
                                        sparse=workload["optimizer"] == "sparse-adam")
        self.key = torch.nn.Linear(lookups * self.ROW_WIDTH, width)
        self.value = torch.nn.Linear(lookups * self.ROW_WIDTH, width)
        self.gains = torch.nn.ParameterList(torch.ones(width) for _ in range(3))
        self.conv = torch.nn.Conv1d(width, width, self.TAPS, groups=width, bias=False,
                                    dilation=max(self.ORDERS))

    def places(self, ids):
        """Returns the rows of each position: [batch, length, lookups]."""
        before = functional.pad(ids, (max(self.ORDERS) - 1, 0))
        mixed, parts = ids * 0x3B9ACA07, []
        for back in range(1, max(self.ORDERS)):
            last = before.shape[1] - back
            mixed = mixed ^ before[:, last - ids.shape[1]:last] * (0x5DEECE66D + 2 * back)
            for _ in range(self.HEADS if back + 1 in self.ORDERS else 0):
                parts.append((mixed + len(parts)) % self.rows + len(parts) * self.rows)
        return torch.stack(parts, -1)

    @staticmethod
    def rms_norm(x, gain):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * gain

    def forward(self, x, ids):
        rows = self.table(self.places(ids)).flatten(-2)
        key, query = self.rms_norm(self.key(rows), self.gains[0]), self.rms_norm(x, self.gains[1])
        score = (key * query).sum(-1, keepdim=True) / self.width**0.5
        gate = torch.sigmoid(score.sign() * score.abs().clamp_min(1e-6).sqrt())
        added = gate * self.value(rows)
        reach = (self.TAPS - 1) * max(self.ORDERS)
        normed = self.rms_norm(added, self.gains[2]).transpose(1, 2)
        convolved = self.conv(functional.pad(normed, (reach, 0))).transpose(1, 2)
        return x + added + functional.silu(convolved)


class Gpt(torch.nn.Module):
    def __init__(self, workload, fused=False):
        super().__init__()
        vocabulary, width = workload["vocabulary"], workload["width"]
        self.token = torch.nn.Embedding(vocabulary, width)
        self.position = torch.nn.Embedding(workload["context"], width)
        self.places = torch.arange(workload["context"])
        self.dropout = torch.nn.Dropout(workload["dropout"])
        self.blocks = torch.nn.ModuleList(
            Block(workload, fused) for _ in range(workload["layers"]))
        self.head = torch.nn.Sequential(torch.nn.LayerNorm(width),
                                        torch.nn.Linear(width, vocabulary, bias=False))
        self.memory = NgramMemory(workload) if workload.get("ngram_rows") else None

    def backward(self, inputs, targets):
        x = self.dropout(self.token(inputs) + self.position(self.places))
        for number, block in enumerate(self.blocks):
            if number == 1 and self.memory:
                x = self.memory(x, inputs)
            x = block(x)
        logits = self.head(x)
        functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()


def optimizers_of(workload, model):
    """Returns the optimizers of a model. A memory's table has five times the learning rate, and no
    weight decay."""
    table = [p for name, p in model.named_parameters() if name == "memory.table.weight"]
    others = [p for name, p in model.named_parameters() if name != "memory.table.weight"]
    if not table:
        return [OPTIMIZERS[workload["optimizer"]](others)]
    of_table = (torch.optim.SparseAdam(table, lr=5e-3) if workload["optimizer"] == "sparse-adam"
                else torch.optim.AdamW(table, lr=5e-3, weight_decay=0))
    return [torch.optim.AdamW(others), of_table]


def made(workload):
    """Yields the models to measure: without fused attention, and with it if PyTorch has it."""
    if workload["model"] != "gpt":
        yield {"embed": Embed, "toy": Toy}[workload["model"]](workload)
        return
    yield Gpt(workload)
    if hasattr(functional, "scaled_dot_product_attention"):
        yield Gpt(workload, fused=True)


def time_steps(step, options, steps):
    """Returns the seconds of each measured step: `steps` steps or, if that is 0, options.seconds of steps."""
    for _ in range(options.warm_up):
        step()
    times = []
    while (len(times) < steps if steps else len(times) < 3 or sum(times) < options.seconds):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return times


def describe_blas(threads):
    """Returns which BLAS libraries this process has loaded, and OpenBLAS's kernel and threads."""
    torch.set_num_threads(threads)
    with open("/proc/self/maps") as maps:
        paths = {os.path.realpath(entry.split()[-1]) for entry in maps
                 if any(name in entry for name in ("libopenblas", "libblas", "libblis", "libmkl"))}
    openblas = [path for path in paths if "openblas" in os.path.basename(path)]
    if not openblas:
        return "no OpenBLAS: " + (", ".join(sorted(paths)) or "a built-in BLAS")
    library = ctypes.CDLL(openblas[0])
    library.openblas_get_corename.restype = ctypes.c_char_p
    kernel = library.openblas_get_corename().decode()
    threading = ["sequential", "pthread", "openmp"][library.openblas_get_parallel()]
    counted = "1 thread" if threads == 1 else f"{threads} threads"
    return f"OpenBLAS kernel {kernel}, {counted} ({threading}), {openblas[0]}"


def measure(workload, options):
    start_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    torch.manual_seed(123)
    torch.set_num_threads(workload["threads"])
    inputs, targets = random_batches(workload, 1), random_batches(workload, 2)

    def times_of(model, steps):
        optimizers = optimizers_of(workload, model)
        done = 0

        def step():
            nonlocal done
            batch, done = done % BATCHES, done + 1
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=True)
            model.backward(inputs[batch], targets[batch])
            for optimizer in optimizers:
                optimizer.step()

        return time_steps(step, options, steps)

    steps, note = options.repeats, None
    if workload["optimizer"] == "momentum":
        steps = steps or GROWING_STEPS
        note = f"median of {steps} steps only, because the sparse momentum buffer grows with each step"
    elif workload["optimizer"] in REFUSE_SPARSE and workload["model"] != "gpt":
        note = "dense gradients, because the optimizer does not support sparse ones"
    times = min((times_of(model, steps) for model in made(workload)), key=statistics.median)
    result = {"median_us": statistics.median(times) * 1e6, "steps": len(times),
              "blas": describe_blas(workload["threads"]), "start_bytes": start_bytes}
    return result | ({"note": note} if note else {})
