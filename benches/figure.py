"""The peer of benches/figure.rs: matplotlib draws the same two curves as SVG text. Prints the median of ten."""

import io
import math
import statistics
import time

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

x = [i * 1e-3 for i in range(10_000)]
curves = {"ours": [math.sin(v) * math.exp(-0.1 * v) for v in x], "baseline": [math.cos(v) for v in x]}


def draw():
    figure, axes = plt.subplots(figsize=(3.39, 2.10))
    for name, y in curves.items():
        axes.plot(x, y, label=name)
    axes.set_xlabel("t")
    axes.set_ylabel("amplitude")
    axes.legend()
    text = io.StringIO()
    figure.savefig(text, format="svg")
    plt.close(figure)
    return text.getvalue()


draw()
seconds = []
for _ in range(10):
    began = time.perf_counter()
    draw()
    seconds.append(time.perf_counter() - began)
print(f"seconds={statistics.median(seconds)}")
