"""The peer of benches/step.rs: the same training steps in PyTorch, on two threads.

`step.py conv` or `step.py mlp`; prints the median of thirty steps after five to warm up.
"""

import statistics
import sys
import time

import torch
from torch import nn

torch.set_num_threads(2)


def conv():
    layers, channels = [], 3
    for out in (32, 64, 128):
        layers += [nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(), nn.MaxPool2d(2)]
        channels = out
    layers += [nn.Flatten(), nn.Linear(128 * 4 * 4, 12)]
    return nn.Sequential(*layers), torch.randn(64, 3, 32, 32), torch.arange(64) % 12


def mlp():
    layers = [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)]
    return nn.Sequential(*layers), torch.randn(128, 784), torch.arange(128) % 10


net, x, y = {"conv": conv, "mlp": mlp}[sys.argv[1]]()
adam = torch.optim.Adam(net.parameters(), lr=1e-3)
seconds = []
for _ in range(35):
    began = time.perf_counter()
    adam.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    adam.step()
    seconds.append(time.perf_counter() - began)
print(f"loss={loss.item():.6g}")
print(f"seconds={statistics.median(seconds[5:])}")
