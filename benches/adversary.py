"""The peer of `benches/adversary.rs`: the same networks, data, starts and batches with torch.bmm, which the Rust side wrote."""

import itertools
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, relu

torch.set_num_threads(2)
FOLDER = Path("target/pair-search")
ATTRIBUTES, FEATURES, HIDDEN, BATCH = 16, 64, (64, 64), 128
pairs = list(itertools.combinations(range(ATTRIBUTES), 2))


def read(name, *shape):
    return torch.from_numpy(np.fromfile(FOLDER / name, dtype="<f4").reshape(shape).copy())


x = read("x", -1, FEATURES)
a = read("a", -1, ATTRIBUTES)
y = a[:, torch.tensor(pairs)].transpose(0, 1).contiguous()  # (pairs, n, 2)
order = read("order", -1).long()
sizes = ((HIDDEN[0], FEATURES), (HIDDEN[1], HIDDEN[0]), (2, HIDDEN[1]))
theta = read("theta", len(pairs), -1)
layers, start = [], 0
for rows, columns in sizes:
    weight = theta[:, start : start + rows * columns].reshape(len(pairs), rows, columns)
    bias = theta[:, start + rows * columns : start + rows * (columns + 1)].reshape(len(pairs), 1, rows)
    layers.append((weight.clone().requires_grad_(), bias.clone().requires_grad_()))
    start += rows * (columns + 1)
optimiser = torch.optim.Adam([p for layer in layers for p in layer], lr=1e-3)


def scores(x):
    z = x.expand(len(pairs), *x.shape)
    for i, (weight, bias) in enumerate(layers):
        z = torch.bmm(z, weight.transpose(1, 2)) + bias
        if i < 2:
            z = relu(z)
    return z


began = time.perf_counter()
for rows in order.split(BATCH):
    optimiser.zero_grad()
    each = binary_cross_entropy_with_logits(scores(x[rows]), y[:, rows], reduction="sum")
    (each / len(rows)).backward()
    optimiser.step()
seconds = time.perf_counter() - began
with torch.no_grad():
    value = ((scores(x) > 0) == (y > 0.5)).double().mean().item()
print(f"value={value!r} seconds={seconds}")
