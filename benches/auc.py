"""The peer of benches/auc.rs: scikit-learn's AUC of the same million scores. Prints the value and the median of ten."""

import statistics
import time

import numpy as np
from sklearn.metrics import roc_auc_score

N = 1_000_000
GAMMA = np.uint64(0x9E3779B97F4A7C15)


def uniform(seed):
    """Draws 0..N of lastlayer's Seed(seed), the same to the last bit."""
    z = np.uint64(seed) + GAMMA * np.arange(1, N + 1, dtype=np.uint64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


y = (uniform(1) < 0.3).astype(np.uint8)
s = np.floor(uniform(2) * 2.0**20) * 2.0**-20 + 0.25 * y

print(f"auc={float(roc_auc_score(y, s))!r}")
seconds = []
for _ in range(10):
    began = time.perf_counter()
    roc_auc_score(y, s)
    seconds.append(time.perf_counter() - began)
print(f"seconds={statistics.median(seconds)}")
