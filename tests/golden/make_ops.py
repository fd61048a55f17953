#!/usr/bin/python3
"""Writes ops.json: results of PyTorch's ops in float64, for tests/core/ops/contracts_test.cpp.

Needs Debian's python3-torch. A case has the name of an op in that test's table, the inputs, the output and the
gradients of sum(output * wave(0.23, 0.4, 1)) (see golden.hpp). NaN and infinities are written as strings.
"""
import math
import pathlib

import torch
from torch.nn import functional as F

import lines

torch.set_default_dtype(torch.float64)

INF = math.inf
NAN = math.nan
EDGES = [-INF, -1000, -40, -1.5, -0.25, 0, 0.25, 1.5, 40, 1000, INF, NAN]


def wave(shape, frequency, phase, scale):
    k = torch.arange(math.prod(shape))
    return (scale * torch.sin(frequency * k + phase)).reshape(shape)


def numbers(*shape, phase=0.1, scale=1.5):
    return torch.round(wave(shape, 0.7, phase, scale) * 1e4) / 1e4


def picked(x):
    """Returns indices [x.shape[0], 4, x.shape[2]] into axis 1, some of them repeated."""
    shape = (x.shape[0], 4, x.shape[2])
    k = torch.arange(math.prod(shape))
    return ((5 * k + k // 3) % x.shape[1]).reshape(shape)


def spread(shape, count):
    """Returns ids of this shape in 0 … count - 1, some of them repeated."""
    k = torch.arange(math.prod(shape))
    return ((5 * k + k // 3) % count).reshape(shape)


def sampled_logits(x, weight, bias, shared):
    """Returns the logits of targets and samples, and a mask of samples equal to the target."""
    targets = spread((len(x), 1), len(weight))
    samples = spread((4,) if shared else (len(x), 4), len(weight)).expand(len(x), 4)
    ids = torch.cat([targets, samples], 1)
    logits = (x[:, None] * weight[ids]).sum(-1) + (0 if bias is None else bias[ids])
    return logits[:, 0], logits[:, 1:], samples == targets


def negative_sampling(x, weight, shared=False):
    target, negatives, ignored = sampled_logits(x, weight, None, shared)
    losses = F.logsigmoid(-negatives).masked_fill(ignored, 0)
    return -(F.logsigmoid(target) + 0.75 * losses.sum(1)).mean()


def sampled_softmax(x, weight, bias, shared=False):
    target, sampled, ignored = sampled_logits(x, weight, bias, shared)
    k = torch.arange(4 if shared else sampled.numel()).reshape(-1, 4)
    sampled = (sampled - torch.log((k % 5 + 1) / 4)).masked_fill(ignored, -INF)
    return (torch.logsumexp(torch.cat([target[:, None], sampled], 1), 1) - target).sum()


def classes_of(x, count=None):
    """Returns a class for each row of x."""
    k = torch.arange(x.shape[0])
    return (5 * k + k // 3) % (count or x.shape[1])


def class_weights(x):
    """Returns weights 0, 1, 2, 0, 1 ... of the classes of x."""
    return (torch.arange(x.shape[1]) % 3).to(x.dtype)


def weighted(**options):
    """Returns cross_entropy with class weights that ignores class 1."""
    return lambda x: F.cross_entropy(x, classes_of(x), class_weights(x), ignore_index=1, **options)


def weighted_nll(**options):
    return lambda x: F.nll_loss(x, classes_of(x), class_weights(x), ignore_index=1, **options)


def distinct(x):
    """Returns indices [x.shape[0], 2, x.shape[2]] into axis 1, without repetitions along that axis."""
    i, j, k = torch.meshgrid(*(torch.arange(n) for n in (x.shape[0], 2, x.shape[2])), indexing="ij")
    return (i + 2 * j + k) % x.shape[1]


def six_of(x):
    k = torch.arange(6)
    return (5 * k + k // 3) % x.shape[1]


def attend(q, k, v, causal=False, padded=False, heads=2):
    by_head = lambda x: x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)
    keys = k.shape[1]
    scores = by_head(q) @ by_head(k).transpose(2, 3) / math.sqrt(q.shape[2] // heads)
    place = torch.arange(keys)
    if causal:
        scores = scores.masked_fill(place[None, :] > torch.arange(q.shape[1])[:, None], -INF)
    if padded:
        lengths = keys - torch.arange(q.shape[0]) * (keys // 3)
        scores = scores.masked_fill((place >= lengths[:, None])[:, None, None, :], -INF)
    return (scores.softmax(-1) @ by_head(v)).transpose(1, 2).reshape(q.shape)


def attend_by_torch(q, k, v, heads, key_value_heads=None, **options):
    by_head = lambda x, n: x.reshape(*x.shape[:2], n, -1).transpose(1, 2)
    y = F.scaled_dot_product_attention(
        by_head(q, heads), *(by_head(x, key_value_heads or heads) for x in (k, v)),
        enable_gqa=key_value_heads is not None, **options)
    return y.transpose(1, 2).reshape(q.shape)


def mask_of(q, k):
    """Returns a mask [batch, 1, queries, keys] that hides a quarter of the keys, and all keys of the first query."""
    shape = (len(q), 1, q.shape[1], k.shape[1])
    i = torch.arange(math.prod(shape))
    return (((5 * i + i // 3) % 4 != 0) & (i >= k.shape[1])).reshape(shape)


def shaw(q, k, v, keys, values):
    """Returns causal attention with relative positions (Shaw et al. 2018). For query i, row clip(j - i, -n, n) + n of
    two tables [2n + 1, width] is added to key j and value j."""
    place = torch.arange(q.shape[2])
    most = len(keys) // 2
    row = (place[None, :] - place[:, None]).clamp(-most, most) + most
    scores = (q[:, :, :, None] * (k[:, :, None] + keys[row])).sum(-1) / math.sqrt(q.shape[3])
    weights = scores.masked_fill(place[None, :] > place[:, None], -INF).softmax(-1)
    return (weights[..., None] * (v[:, :, None] + values[row])).sum(-2)


def with_tables(batch, heads, length, width, distance):
    by_head, table = (batch, heads, length, width), (2 * distance + 1, width)
    return [wave(by_head, 0.7, 0.1, 1.5), wave(by_head, 0.6, 0.9, 1.5), wave(by_head, 0.5, 0.4, 1.0),
            wave(table, 0.8, 0.6, 1.0), wave(table, 0.9, 0.2, 1.0)]


def convolve(x, weight, dilation=1):
    width, kernel = weight.shape
    before = F.pad(x.transpose(1, 2), ((kernel - 1) * dilation, 0))
    return F.conv1d(before, weight[:, None, :], dilation=dilation, groups=width).transpose(1, 2)


def rms_norm(x, weight):
    return x * torch.rsqrt((x**2).mean(-1, keepdim=True) + 1e-5) * weight


def rotated(x, columns=6, width=8, base=500000, first=5):
    """Treats columns 2i and 2i + 1 of each head as complex numbers, and rotates them by the angle
    t · base^(-2i / columns) at position t (Su et al. 2021)."""
    by_head = x.reshape(*x.shape[:2], -1, width)
    angles = (first + torch.arange(x.shape[1]))[:, None, None] * base ** (-torch.arange(0, columns, 2) / columns)
    turned = torch.view_as_complex(by_head[..., :columns].reshape(*by_head.shape[:3], -1, 2)) * torch.polar(
        torch.ones_like(angles), angles)
    return torch.cat([torch.view_as_real(turned).flatten(3), by_head[..., columns:]], -1).reshape(x.shape)


def gate(key, x, key_weight, x_weight):
    score = (rms_norm(key, key_weight) * rms_norm(x, x_weight)).sum(-1, keepdim=True) / math.sqrt(x.shape[-1])
    return torch.sigmoid(score.abs().clamp_min(1e-6).sqrt() * score.sign())


def rows(*values):
    return [torch.tensor(values, dtype=torch.float64)]


BATCH = [numbers(3, 7, 4), numbers(3, 7, 4, phase=0.9), numbers(3, 7, 4, phase=0.4)]
BLOCK = numbers(2, 3, 5)
EXTREMES = torch.tensor([[[NAN, 2, -INF, 2], [1, -0.0, 0, INF], [2, 2, NAN, 1]]])
CASES = [
    ("log1p", lambda x: torch.log1p(x + 2.5), [numbers(2, 9)]),
    ("log1p", lambda x: torch.log1p(x + 2.5), rows(INF, NAN, -3.5, -4, -2.5, -2.4999)),
    ("memory_gate", gate, [numbers(2, 4, 5), numbers(2, 4, 5, phase=0.9), numbers(5, phase=0.4), numbers(5, phase=1.3)]),
    ("memory_gate", gate, [torch.eye(3), 1 - torch.eye(3), numbers(3), numbers(3, phase=0.9)]),
    ("rms_norm", rms_norm, [numbers(3, 5), numbers(5, phase=0.9)]),
    ("rotary of 6 columns of 8", rotated, [numbers(2, 4, 16)]),
    ("causal_conv", convolve, [numbers(2, 7, 3), numbers(3, 2, phase=0.9)]),
    ("causal_conv", convolve, [numbers(1, 1, 3), numbers(3, 5, phase=0.9)]),
    ("causal_conv, dilated", lambda x, w: convolve(x, w, 3), [numbers(2, 11, 5), numbers(5, 4, phase=0.9)]),
    ("sin", torch.sin, [numbers(2, 9, scale=9)]),
    ("sin", torch.sin, rows(INF, NAN, 1e4, -3.25)),
    ("cos", torch.cos, [numbers(2, 9, scale=9)]),
    ("cos", torch.cos, rows(INF, NAN, 1e4, -3.25)),
    ("exp2", torch.exp2, [numbers(2, 9, scale=9)]),
    ("exp2", torch.exp2, rows(*EDGES)),
    ("expm1", torch.expm1, [numbers(2, 9)]),
    ("expm1", torch.expm1, rows(*EDGES)),
    ("log2", lambda x: torch.log2(x + 2.5), [numbers(2, 9)]),
    ("log2", lambda x: torch.log2(x + 2.5), rows(*EDGES)),
    ("log10", lambda x: torch.log10(x + 2.5), [numbers(2, 9)]),
    ("log10", lambda x: torch.log10(x + 2.5), rows(*EDGES)),
    ("tan", torch.tan, [numbers(2, 9)]),
    ("erf", torch.erf, [numbers(2, 9)]),
    ("erf", torch.erf, rows(*EDGES)),
    ("elu", F.elu, [numbers(2, 9)]),
    ("elu, alpha 0.3", lambda x: F.elu(x, 0.3), rows(*EDGES)),
    ("mish", F.mish, [numbers(2, 9, scale=9)]),
    ("mish", F.mish, rows(*(x for x in EDGES if x != INF))),
    ("sign", torch.sign, rows(*EDGES)),
    ("floor", torch.floor, rows(*EDGES, -2.5, -0.5, 0.5, 2.5, 3.5)),
    ("ceil", torch.ceil, rows(*EDGES, -2.5, -0.5, 0.5, 2.5, 3.5)),
    ("round", torch.round, rows(*EDGES, -2.5, -0.5, 0.5, 2.5, 3.5)),
    ("trunc", torch.trunc, rows(*EDGES, -2.5, -0.5, 0.5, 2.5, 3.5)),
    ("pow, variable exponent", torch.pow, [numbers(2, 4).abs() + 0.1, numbers(4, phase=0.9)]),
    ("pow, variable exponent", torch.pow,
     rows(0, 0, 0, 0, -2, -2, -2, 4, INF, INF, 1, NAN, NAN)
     + rows(0, 2, -1, 0.5, 2, 3, 0.5, -0.5, 2, -1, NAN, 0, 1)),
    ("log_sigmoid", F.logsigmoid, [numbers(2, 9, scale=9)]),
    ("log_sigmoid", F.logsigmoid, rows(*EDGES)),
    ("softplus", F.softplus, [numbers(2, 9, scale=9)]),
    ("softplus", F.softplus, rows(*EDGES)),
    ("leaky_relu", F.leaky_relu, [numbers(2, 9)]),
    ("leaky_relu, slope 0.3", lambda x: F.leaky_relu(x, 0.3), rows(*EDGES)),
    ("silu", F.silu, [numbers(2, 9, scale=9)]),
    ("silu", F.silu, rows(*EDGES)),
    ("logsumexp", lambda x: torch.logsumexp(x, -1), [numbers(2, 5)]),
    ("logsumexp", lambda x: torch.logsumexp(x, -1),
     rows([1000, 1000, 999], [-1000, -1001, -1003], [-INF, 0, 1], [INF, 0, 1], [NAN, 0, -INF],
          [NAN, -INF, INF])),
    ("logsumexp, axis 1 kept", lambda x: torch.logsumexp(x, 1, keepdim=True), [numbers(2, 3, 4)]),
    ("cumsum", lambda x: torch.cumsum(x, 1), [numbers(2, 5, 3)]),
    ("cumsum of the last axis", lambda x: torch.cumsum(x, -1), [numbers(3, 6)]),
    ("cumsum of the last axis", lambda x: torch.cumsum(x, -1),
     rows([1, INF, 2], [1, -INF, INF], [NAN, 1, 2])),
    ("min", lambda x: x.min(1).values, [numbers(2, 5, 3)]),
    ("min", lambda x: x.min(1).values, rows([[1], [-INF]], [[NAN], [-1]], [[2], [INF]])),
    ("var", torch.var, [numbers(3, 4)]),
    ("var, correction 0, kept", lambda x: torch.var(x, (0, 2), correction=0, keepdim=True),
     [numbers(3, 2, 4)]),
    ("stddev", torch.std, [numbers(5)]),
    ("stddev of the last axis", lambda x: torch.std(x, -1), [numbers(2, 6)]),
    ("stddev of the last axis", lambda x: torch.std(x, -1), rows([0.5, 0.5, 0.5], [1, 2, 3])),
    ("norm", torch.linalg.vector_norm, [numbers(3, 4)]),
    ("norm of axis 0, kept", lambda x: torch.linalg.vector_norm(x, dim=0, keepdim=True),
     [numbers(4, 3)]),
    ("norm of axis 0, kept", lambda x: torch.linalg.vector_norm(x, dim=0, keepdim=True),
     rows([0, 3, 1, INF, NAN], [0, 4, 2, 1, 1])),
    ("gather", lambda x: torch.gather(x, 1, picked(x)), [numbers(2, 3, 5)]),
    ("index_select", lambda x: torch.index_select(x, 1, six_of(x)), [BLOCK]),
    ("index_add", lambda x, s: torch.index_add(x, 1, six_of(x), s), [BLOCK, numbers(2, 6, 5, phase=0.9)]),
    ("index_select from the end", lambda x: x[torch.tensor([[-1, 0], [1, -2]])], [BLOCK]),
    ("scatter", lambda x, s: torch.scatter(x, 1, distinct(x), s), [BLOCK, numbers(2, 2, 5, phase=0.9)]),
    ("scatter_add", lambda x, s: torch.scatter_add(x, 1, picked(x), s), [BLOCK, numbers(2, 4, 5, phase=0.9)]),
    ("masked_select", lambda x: x[(torch.arange(x.shape[1]) % 2 == 0).expand(x.shape[0], -1)].flatten(), [BLOCK]),
    ("sort", lambda x: torch.sort(x, stable=True, dim=1).values, [BLOCK]),
    ("sort", lambda x: torch.sort(x, stable=True, dim=1).values, [EXTREMES]),
    ("sort, descending", lambda x: torch.sort(x, stable=True, dim=-1, descending=True).values, [BLOCK]),
    ("sort, descending", lambda x: torch.sort(x, stable=True, dim=-1, descending=True).values, [EXTREMES]),
    ("topk", lambda x: x.topk(2, 1).values, [BLOCK]),
    ("topk, smallest", lambda x: x.topk(3, -1, largest=False).values, [BLOCK]),
    ("topk, smallest", lambda x: x.topk(3, -1, largest=False).values, [torch.tensor([[[NAN, 2, INF, -INF]]])]),
    ("expand", lambda x: x.expand(2, 3, 150), [numbers(3, 1)]),
    ("repeat", lambda x: x.repeat(2, 1, 3, 2), [BLOCK]),
    ("flip", lambda x: x.flip(0, -1), [BLOCK]),
    ("roll", lambda x: x.roll(-4, 1), [BLOCK]),
    ("pad", lambda x: F.pad(x, (1, 2, 0, 3), value=0.5), [BLOCK]),
    ("tril", torch.tril, [BLOCK]),
    ("triu", lambda x: torch.triu(x, 1), [BLOCK]),
    ("chunk", lambda x: x.chunk(2, -1)[1], [BLOCK]),
    ("unbind", lambda x: x.unbind(1)[2], [BLOCK]),
    ("prod", torch.prod, [BLOCK]),
    ("prod", torch.prod, [torch.tensor([[2.0, 0, 3]])]),
    ("prod of axis 1", lambda x: x.prod(1), [BLOCK]),
    ("prod of rows, kept", lambda x: x.prod(-1, keepdim=True), rows([2, 0, 3, -1], [0, 2, 0, 5])),
    ("cumprod", lambda x: x.cumprod(1), [BLOCK]),
    ("cumprod", lambda x: x.cumprod(1), rows([2, 0, 3, -1, 4], [0, 2, 0, 5, 1], [1, 2, 3, 4, 0])),
    ("amax", lambda x: x.amax((0, 2), keepdim=True), [BLOCK]),
    ("amax", lambda x: x.amax((0, 2), keepdim=True), [EXTREMES[:, :2, 1:]]),
    ("amin", lambda x: x.amin(1), [BLOCK]),
    ("amin", lambda x: x.amin(1), rows([2, 1, 1], [-INF, -INF, 0], [INF, INF, INF])),
    ("max of all", torch.max, [BLOCK]),
    ("max of all", torch.max, rows([2, 3, 3], [1, 3, -INF])),
    ("max of all", torch.max, rows([2, NAN, 3], [NAN, 3, -INF])),
    ("max, kept", lambda x: x.max(1, keepdim=True).values, [BLOCK]),
    ("vector_norm, order 3", lambda x: torch.linalg.vector_norm(x, 3), [BLOCK]),
    ("vector_norm, order 3", lambda x: torch.linalg.vector_norm(x, 3), [torch.zeros(3)]),
    ("vector_norm, order 0.5", lambda x: torch.linalg.vector_norm(x, 0.5, 0), [BLOCK]),
    ("vector_norm, order 0.5", lambda x: torch.linalg.vector_norm(x, 0.5, 0), rows([1, 0, 0, NAN], [-2, 0, 3, 1])),
    ("vector_norm, order 1", lambda x: torch.linalg.vector_norm(x, 1, 1, keepdim=True), [BLOCK]),
    ("vector_norm, largest", lambda x: torch.linalg.vector_norm(x, INF, 2), [BLOCK]),
    ("vector_norm, largest", lambda x: torch.linalg.vector_norm(x, INF, 2), rows([[2, -3, 3], [1, 1, 0]])),
    ("matmul of two vectors", torch.matmul, [numbers(4), numbers(4, phase=0.9)]),
    ("matmul by a vector", torch.matmul, [numbers(2, 3, 4), numbers(4, phase=0.9)]),
    ("matmul of a vector", torch.matmul, [numbers(4), numbers(4, 3, phase=0.9)]),
    ("matmul of a vector and a stack", torch.matmul, [numbers(4), numbers(2, 4, 3, phase=0.9)]),
    ("outer", torch.outer, [numbers(3), numbers(4, phase=0.9)]),
    ("mse_loss", F.mse_loss, [numbers(2, 4), numbers(2, 4, phase=0.9)]),
    ("mse_loss, sum", lambda x, y: F.mse_loss(x, y, reduction="sum"),
     [numbers(2, 4), numbers(2, 4, phase=0.9)]),
    ("mse_loss, none", lambda x, y: F.mse_loss(x, y, reduction="none"),
     [numbers(2, 4), numbers(2, 4, phase=0.9)]),
    ("l1_loss", F.l1_loss, [numbers(2, 4), numbers(2, 4, phase=0.9)]),
    ("l1_loss, none", lambda x, y: F.l1_loss(x, y, reduction="none"),
     rows(1, 2, -INF, NAN) + rows(1, 5, 0, 0)),
    ("huber_loss", F.huber_loss, [numbers(2, 4, scale=2), numbers(2, 4, phase=0.9)]),
    ("huber_loss, delta 0.7, sum", lambda x, y: F.huber_loss(x, y, reduction="sum", delta=0.7),
     [numbers(2, 4, scale=2), numbers(2, 4, phase=0.9)]),
    ("smooth_l1_loss, beta 0.7, none", lambda x, y: F.smooth_l1_loss(x, y, reduction="none", beta=0.7),
     rows(1, 2, -INF, NAN, 0.7, 0.3) + rows(1, 5, 0, 0, 0, 0)),
    ("smooth_l1_loss, beta 0", lambda x, y: F.smooth_l1_loss(x, y, beta=0),
     [numbers(2, 4), numbers(2, 4, phase=0.9)]),
    ("kl_div", F.kl_div, [numbers(2, 4), numbers(2, 4, phase=0.9).abs() + 0.1]),
    ("kl_div, none", lambda x, y: F.kl_div(x, y, reduction="none"),
     [numbers(2, 4), numbers(2, 4, phase=0.9).abs() + 0.1]),
    ("kl_div, log target, batch mean",
     lambda x, y: F.kl_div(x, y, reduction="batchmean", log_target=True),
     [numbers(3, 4), numbers(3, 4, phase=0.9)]),
    ("binary_cross_entropy", lambda x, y: F.binary_cross_entropy(x.sigmoid(), y),
     [numbers(2, 4), numbers(2, 4, phase=0.9, scale=0.5) + 0.5]),
    ("binary_cross_entropy", lambda x, y: F.binary_cross_entropy(x.sigmoid(), y),
     rows(-1000, -1000, 1000, 1000) + rows(0, 1, 0, 1)),
    ("binary_cross_entropy_with_logits, none",
     lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"),
     [numbers(2, 4, scale=9), numbers(2, 4, phase=0.9, scale=0.5) + 0.5]),
    ("binary_cross_entropy_with_logits, weighted",
     lambda x, y: F.binary_cross_entropy_with_logits(
         x, y, 1 + torch.arange(4.0), pos_weight=torch.tensor(2.5)),
     [numbers(2, 4, scale=40), numbers(2, 4, phase=0.9, scale=0.5) + 0.5]),
    ("cosine_similarity", lambda x, y: F.cosine_similarity(x, y, 2),
     [numbers(2, 1, 4), numbers(1, 3, 4, phase=0.9)]),
    ("cosine_similarity", lambda x, y: F.cosine_similarity(x, y, 2),
     [torch.zeros(2, 1, 3), numbers(1, 3, 3, phase=0.9)]),
    ("cross_entropy, weighted, none", weighted(reduction="none"), [numbers(6, 4)]),
    ("cross_entropy, smoothed", weighted(label_smoothing=0.3), [numbers(6, 4)]),
    ("cross_entropy, smoothed, sum", weighted(label_smoothing=0.3, reduction="sum"), [numbers(6, 4)]),
    ("cross_entropy, smoothed, none", weighted(label_smoothing=0.3, reduction="none"), [numbers(6, 4)]),
    ("cross_entropy, all smooth",
     lambda x: F.cross_entropy(x, classes_of(x), label_smoothing=1), [numbers(3, 5, scale=9)]),
    ("cross_entropy of probabilities", F.cross_entropy, [numbers(3, 4), numbers(3, 4, phase=0.9).softmax(1)]),
    ("cross_entropy of probabilities, smoothed",
     lambda x, y: F.cross_entropy(x, y, class_weights(x), label_smoothing=0.3),
     [numbers(3, 4), numbers(3, 4, phase=0.9).softmax(1)]),
    ("cross_entropy of probabilities, none", lambda x, y: F.cross_entropy(x, y, reduction="none"),
     [numbers(3, 4), numbers(3, 4, phase=0.9).softmax(1)]),
    ("nll_loss", weighted_nll(), [numbers(6, 4)]),
    ("nll_loss, none", weighted_nll(reduction="none"), [numbers(6, 4)]),
    ("linear_cross_entropy, smoothed",
     lambda x, w, b: F.cross_entropy(F.linear(x, w, b), classes_of(x, len(w)), label_smoothing=0.3),
     [numbers(3, 4), numbers(5, 4, phase=0.9), numbers(5, phase=0.4)]),
    ("linear_cross_entropy, none",
     lambda x, w, b: F.cross_entropy(F.linear(x, w, b), classes_of(x, len(w)), reduction="none"),
     [numbers(3, 4), numbers(5, 4, phase=0.9), numbers(5, phase=0.4)]),
    ("binary_cross_entropy_with_logits", F.binary_cross_entropy_with_logits,
     [numbers(2, 4, scale=9), numbers(2, 4, phase=0.9, scale=0.5) + 0.5]),
    ("binary_cross_entropy_with_logits, sum",
     lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="sum"),
     rows(1000, -1000, 1000, -1000, 40, -40) + rows(0, 0, 1, 1, 1, 0)),
    ("negative_sampling_loss", negative_sampling, [numbers(9, 19), numbers(7, 19, phase=0.9)]),
    ("negative_sampling_loss, shared", lambda *x: negative_sampling(*x, shared=True),
     [numbers(9, 19), numbers(7, 19, phase=0.9)]),
    ("sampled_softmax_loss", sampled_softmax,
     [numbers(9, 19), numbers(7, 19, phase=0.9), numbers(7, phase=0.4)]),
    ("sampled_softmax_loss, shared", lambda *x: sampled_softmax(*x, shared=True),
     [numbers(9, 19), numbers(7, 19, phase=0.9), numbers(7, phase=0.4)]),
    ("attention", attend, [numbers(3, 5, 4), *BATCH[1:]]),
    ("attention of padded keys", lambda *x: attend(*x, padded=True), BATCH),
    ("causal_attention of padded keys", lambda *x: attend(*x, causal=True, padded=True), BATCH),
    ("attention with a mask",
     lambda q, k, v: attend_by_torch(q, k, v, 2, attn_mask=mask_of(q, k)), [numbers(3, 5, 4), *BATCH[1:]]),
    ("attention with a bias", lambda *x: attend_by_torch(*x[:3], 2, attn_mask=x[3]),
     [numbers(3, 5, 4), *BATCH[1:], numbers(2, 5, 7, phase=0.6)]),
    ("attention with a bias", lambda *x: attend_by_torch(*x[:3], 2, attn_mask=x[3]),
     [numbers(3, 5, 4), *BATCH[1:], torch.where(mask_of(BATCH[0][:, :5], BATCH[1]), numbers(3, 1, 5, 7), -INF)]),
    ("causal_attention of grouped keys",
     lambda *x: attend_by_torch(*x, 4, key_value_heads=2, is_causal=True), [numbers(2, 5, 8), *(x[:2, :5] for x in BATCH[1:])]),
    ("attention with Shaw's tables", shaw, with_tables(2, 3, 7, 4, 3)),
    ("attention with Shaw's tables", shaw, with_tables(1, 2, 5, 3, 8)),
    ("attention with Shaw's tables", shaw, with_tables(1, 1, 40, 4, 2)),
]


def plain(tensor):
    text = lambda x: x if math.isfinite(x) else str(x)
    walk = lambda x: [walk(i) for i in x] if isinstance(x, list) else text(x)
    return walk(tensor.tolist())


def case(name, op, inputs):
    inputs = [x.clone().requires_grad_() for x in inputs]
    output = op(*inputs)
    (output * wave(output.shape, 0.23, 0.4, 1.0)).sum().backward()
    return {"op": name, "inputs": [plain(x.detach()) for x in inputs], "output": plain(output.detach()),
            "gradients": [plain(x.grad) for x in inputs]}


path = pathlib.Path(__file__).parent / "ops.json"
lines.write(path, [case(*item) for item in CASES])
