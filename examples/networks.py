"""The peer of the study `networks`: the same net, images, labels and settings in PyTorch, on two threads.

Reads the files that `examples/study.rs` left in target/networks, writes networks-torch.json to the folder given.
"""

import json
import math
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))
import provenance  # noqa: E402

TASKS = {"cheeks": 2, "smile": 2, "species": 12}
EPOCHS, BATCH, RATE = 14, 64, 1e-2
FOLDER = Path("target/networks")


def net(classes):
    layers, width = [], 3
    for channels in (32, 64, 128):
        layers += [nn.Conv2d(width, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(2)]
        width = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


def images(part):
    return torch.from_numpy(np.fromfile(FOLDER / f"{part}.images", np.uint8).reshape(-1, 3, 32, 32))


def labels(part, task):
    return torch.from_numpy(np.fromfile(FOLDER / f"{part}.{task}", np.uint8)).long()


def one_cycle(progress, rise=0.25, start=0.04, floor=0.0):
    """From `start` to 1 and down to `floor`, both as half a cosine."""
    a, b, at = (start, 1.0, progress / rise) if progress < rise else (1.0, floor, (progress - rise) / (1 - rise))
    return b + (a - b) * 0.5 * (1 + math.cos(math.pi * at))


def train(task, seed, x, y):
    torch.manual_seed(seed)
    model = net(TASKS[task])
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    steps = EPOCHS * math.ceil(len(y) / BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: one_cycle(step / steps))
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(y)).split(BATCH):
            loss = nn.functional.cross_entropy(model(x[rows].float() / 255), y[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return model.eval()


def main():
    torch.set_num_threads(2)
    # Without it the moments of idle channels become denormal, and a run takes four times as long.
    torch.set_flush_denormal(True)
    began = time.time()
    x, test = images("train"), images("test")
    results = {}
    for task in TASKS:
        accuracies, seconds = [], []
        for seed in (1, 2, 3):
            started = time.time()
            model = train(task, seed, x, labels("train", task))
            seconds.append(time.time() - started)
            with torch.no_grad():
                answers = torch.cat([model(piece.float() / 255).argmax(1) for piece in test.split(256)])
            accuracies.append((answers == labels("test", task)).double().mean().item())
            print(f"{task}, seed {seed}: accuracy {accuracies[-1]:.4f} in {seconds[-1]:.0f} s", flush=True)
        results |= {task: accuracies, f"{task}_mean": np.mean(accuracies), f"{task}_seconds": np.mean(seconds)}
    record = {
        "name": "networks-torch",
        "config": {"epochs": EPOCHS, "batch": BATCH, "rate": RATE, "channels": [32, 64, 128]},
        "seed": None,
        "results": results,
        "seconds": time.time() - began,
        "provenance": {
            "versions": {"torch": torch.__version__, "numpy": np.__version__},
            "revision": provenance.revision(),
            "device": "cpu",
            "threads": 2,
            "platform": f"{sys.platform}",
        },
    }
    path = Path(sys.argv[1]) / "networks-torch.json"
    path.with_suffix(".tmp").write_text(json.dumps(record, indent=2) + "\n")
    path.with_suffix(".tmp").replace(path)


if __name__ == "__main__":
    main()
