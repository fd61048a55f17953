#!/usr/bin/python3
"""Prints what PyTorch computes from a safetensors file in GPT-2's layout, in float64:

    gpt2_logits.py FILE HEADS ID...      the logits [ids, vocabulary], as JSON

Needs Debian's python3-torch; without it, ends with status 77.
"""
import json, pathlib, struct, sys

try:
    import torch
    from torch.nn import functional as F
except ImportError:
    print("python3-torch is not installed")
    sys.exit(77)


def read(path):
    data = pathlib.Path(path).read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, about in json.loads(data[8:start]).items():
        if name != "__metadata__":
            kind = {"F32": torch.float32, "F64": torch.float64}[about["dtype"]]
            begin, end = (start + offset for offset in about["data_offsets"])
            numbers = torch.frombuffer(bytearray(data[begin:end]), dtype=kind)
            tensors[name.removeprefix("transformer.")] = numbers.reshape(about["shape"]).double()
    return tensors


def logits(w, heads, ids):
    def conv1d(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], 1e-5)

    x = w["wte.weight"][ids] + w["wpe.weight"][: len(ids)]
    length, width = x.shape
    future = torch.full((length, length), -torch.inf, dtype=torch.float64).triu(1)
    for h in (f"h.{i}." for i in range(sum(name.endswith("ln_1.bias") for name in w))):
        q, k, v = (y.reshape(length, heads, -1).transpose(0, 1)
                   for y in conv1d(norm(x, h + "ln_1"), h + "attn.c_attn").split(width, 1))
        weights = (q @ k.transpose(1, 2) / (width // heads) ** 0.5 + future).softmax(-1)
        mixed = (weights @ v).transpose(0, 1).reshape(length, width)
        x = x + conv1d(mixed, h + "attn.c_proj")
        up = F.gelu(conv1d(norm(x, h + "ln_2"), h + "mlp.c_fc"), approximate="tanh")
        x = x + conv1d(up, h + "mlp.c_proj")
    return norm(x, "ln_f") @ w.get("lm_head.weight", w["wte.weight"]).T


if __name__ == "__main__":
    path, heads, *ids = sys.argv[1:]
    print(json.dumps(logits(read(path), int(heads), [int(i) for i in ids]).tolist()))
