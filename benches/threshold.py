"""The peer of `benches/threshold.rs`: the same equation by scipy's brentq."""

import statistics
import time

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

i = np.arange(1_000_000)
s = 3.0 * np.sin(0.7361 * i) + (i % 1000) / 500.0
target, sharpness = 0.01, 10.0
shift = logit(target) / sharpness
low, high = s.min() - shift, s.max() - shift
seconds = []
for _ in range(3):
    began = time.perf_counter()
    t, result = brentq(
        lambda t: expit(sharpness * (s - t)).mean() - target, low, high, xtol=1e-12, rtol=1e-14, full_output=True
    )
    seconds.append(time.perf_counter() - began)
residual = expit(sharpness * (s - t)).mean() - target
print(f"threshold={t!r} passes={result.function_calls} residual={residual:e} seconds={statistics.median(seconds)}")
