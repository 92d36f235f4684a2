"""The peer of `benches/tree.rs`: the same tree by scikit-learn, and the same fidelity by numpy's matrix product."""

import statistics
import sys
import time

import numpy as np


def waves(n, phase):
    return np.abs(np.modf(1000.0 * np.sin(12.9898 * (np.arange(n, dtype=np.float64) + phase)))[0])


def codes(n, d):
    return (16.0 * waves(n * d, 1.0)).astype(np.uint8).reshape(n, d)


def clocked(times, work):
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        last = work()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds), last


def tree_fit():
    from sklearn.tree import DecisionTreeRegressor

    n, d, k = 5994, 1024, 200
    x = codes(n, d)
    scores = 6.0 * waves(n * k, 0.5).reshape(n, k) + 0.1 * x[:, :k]
    p = np.exp(scores)
    p /= p.sum(1, keepdims=True)
    features = x.astype(np.float32)
    seconds, tree = clocked(1, lambda: DecisionTreeRegressor(max_depth=8, random_state=0).fit(features, p))
    value = ((p - tree.predict(features)) ** 2).sum(1).mean()
    return seconds, float(value)


def fidelity():
    n, d, attributes, levels = 5794, 1024, 312, 16
    a = (waves(n * attributes, 0.25) < 0.1).reshape(n, attributes)
    hot = (codes(n, d)[:, :, None] == np.arange(levels, dtype=np.uint8)).reshape(n, d * levels).astype(np.float32)
    sizes, positives, ready = hot.sum(0), a.sum(0)[:, None].astype(np.float32), np.ascontiguousarray(a.T, dtype=np.float32)

    def measure():
        both = ready @ hot
        plain = 2 * both / (positives + sizes)
        negated = 2 * (positives - both) / (positives + (n - sizes))
        return np.maximum(plain, negated).max(1).mean()

    seconds, value = clocked(3, measure)
    return seconds, float(value)


seconds, value = {"tree-fit": tree_fit, "fidelity": fidelity}[sys.argv[1]]()
print(f"value={value!r} seconds={seconds}")
