"""The peer of `benches/foca.rs`: the same ridge heads with numpy and scipy's Cholesky factors."""

import statistics
import sys
import time

import numpy as np
from scipy.linalg import cho_factor, cho_solve

CLASSES = 12


def waves(n, phase):
    return np.modf(1000.0 * np.sin(12.9898 * (np.arange(n, dtype=np.float64) + phase)))[0]


def head(z, t, weight):
    n, d = z.shape
    z_mean, t_mean = z.mean(0), t.mean(0)
    z, t = z - z_mean, t - t_mean
    gram = z.T @ z if n > d else z @ z.T
    gram.flat[:: len(gram) + 1] += weight
    factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
    if n > d:
        w = cho_solve(factor, z.T @ t, check_finite=False)
    else:
        w = z.T @ cho_solve(factor, t, check_finite=False)
    return w, t_mean - z_mean @ w


n, d, fits = (24, 256, 1000) if sys.argv[1] == "ridge-small" else (2000, 64, 1)
targets = np.eye(CLASSES)[np.arange(n) % CLASSES]
sets = [waves(n * d, 1.0 + fit).reshape(n, d) for fit in range(fits)]
seconds = []
for _ in range(11 if fits > 1 else 101):
    began = time.perf_counter()
    heads = [head(z, targets, 1.0) for z in sets]
    seconds.append(time.perf_counter() - began)
value = sum(abs(w[0, 0]) + b[3] for w, b in heads)
print(f"value={float(value)!r} seconds={statistics.median(seconds)}")
