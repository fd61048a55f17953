#!/usr/bin/python3
"""Writes gpt2_weights.safetensors, a small GPT-2 in the layout of Hugging Face's model.safetensors, and
gpt2_weights.json, its logits computed by PyTorch in float64.

Needs Debian's python3-torch. As in the file of openai-community/gpt2, all tensors are F32, names have no
prefix, the head is wte.weight, masks are stored as `attn.bias`, and the data begins at an offset of 3
modulo 4. The second layer also has the scalar `attn.masked_bias` of older files.
"""
import json, pathlib, struct
import torch
from torch.nn import functional as F
import lines

HERE = pathlib.Path(__file__).parent
VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS = 20, 12, 8, 2, 2
IDS = [3, 19, 0, 7, 7, 12, 1, 18, 5, 5, 11, 2]


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
    return norm(x, "ln_f") @ w["wte.weight"].T


torch.manual_seed(1)
tensors = {"wte.weight": torch.randn(VOCABULARY, WIDTH), "wpe.weight": torch.randn(CONTEXT, WIDTH)}


def put_norm(name):
    tensors[name + ".weight"] = 1 + 0.3 * torch.randn(WIDTH)
    tensors[name + ".bias"] = 0.3 * torch.randn(WIDTH)


def put_conv1d(name, inputs, outputs):
    tensors[name + ".weight"] = 0.4 * torch.randn(inputs, outputs)
    tensors[name + ".bias"] = 0.3 * torch.randn(outputs)


for layer in range(LAYERS):
    h = f"h.{layer}."
    put_norm(h + "ln_1")
    tensors[h + "attn.bias"] = torch.ones(CONTEXT, CONTEXT).tril()[None, None]
    if layer == 1:
        tensors[h + "attn.masked_bias"] = torch.tensor(-1e4)
    put_conv1d(h + "attn.c_attn", WIDTH, 3 * WIDTH)
    put_conv1d(h + "attn.c_proj", WIDTH, WIDTH)
    put_norm(h + "ln_2")
    put_conv1d(h + "mlp.c_fc", WIDTH, 4 * WIDTH)
    put_conv1d(h + "mlp.c_proj", 4 * WIDTH, WIDTH)
put_norm("ln_f")

header, data = {"__metadata__": {"format": "pt"}}, b""
for name, tensor in tensors.items():
    content = tensor.numpy().tobytes()
    header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                    "data_offsets": [len(data), len(data) + len(content)]}
    data += content
text = json.dumps(header).encode()
text += b" " * ((3 - len(text)) % 4)
path = HERE / "gpt2_weights.safetensors"
path.write_bytes(struct.pack("<Q", len(text)) + text + data)

golden = {"torch": torch.__version__, "heads": HEADS, "ids": IDS,
          "logits": logits({name: tensor.double() for name, tensor in tensors.items()}, HEADS, IDS).tolist()}
lines.write(HERE / "gpt2_weights.json", golden)
print(len(tensors), "tensors,", path.stat().st_size, "bytes")
