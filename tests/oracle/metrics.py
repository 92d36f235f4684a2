"""Writes metrics.json beside this file: inputs from integer formulas, and what scikit-learn, scipy and mpmath make of them.

    python3 -m venv /tmp/oracle
    /tmp/oracle/bin/pip install scikit-learn==1.9.1 scipy==1.17.1 mpmath==1.3.0
    /tmp/oracle/bin/python tests/oracle/metrics.py

The Rust tests only read the JSON; run this again after a change here. It takes seven minutes, for the forty digits of a
Student distribution with a million degrees of freedom.
"""

import json
import platform
from fractions import Fraction
from math import comb, factorial
from pathlib import Path

import mpmath
import numpy as np
import scipy
import sklearn
from scipy import stats
from sklearn import metrics
from sklearn.calibration import calibration_curve

mpmath.mp.dps = 40


def lists(*arrays):
    return [np.asarray(a).tolist() for a in arrays]


def binary():
    """Scores in eighths with many ties, and a second, weaker vector for the same labels."""
    i = np.arange(240)
    y = (i * 37 % 11 < 4).astype(int)
    s = (i * 7919 % 41) / 8 + 1.5 * y - 2
    weaker = (i * 104729 % 53) / 8 + 0.75 * y - 3
    fpr, tpr, _ = metrics.roc_curve(y, s, drop_intermediate=False)
    precision, recall, _ = metrics.precision_recall_curve(y, s)
    called = (s > 1).astype(int)
    return {
        "s": s.tolist(),
        "weaker": weaker.tolist(),
        "y": y.tolist(),
        "auc": metrics.roc_auc_score(y, s),
        "auc_weaker": metrics.roc_auc_score(y, weaker),
        "partial_auc_standardised": [[m, metrics.roc_auc_score(y, s, max_fpr=m)] for m in (0.05, 0.1, 0.33, 0.8)],
        "average_precision": metrics.average_precision_score(y, s),
        "roc": lists(fpr, tpr),
        # Ours has no artificial last point, and ascends in recall.
        "precision_recall": lists(precision[:-1][::-1], recall[:-1][::-1]),
        "at_threshold_1": {
            "accuracy": metrics.accuracy_score(y, called),
            "balanced_accuracy": metrics.balanced_accuracy_score(y, called),
            "precision": metrics.precision_score(y, called),
            "tpr": metrics.recall_score(y, called),
            "f_half": metrics.fbeta_score(y, called, beta=0.5),
            "f_two": metrics.fbeta_score(y, called, beta=2),
            "phi": metrics.matthews_corrcoef(y, called),
        },
    }


def several_classes():
    i, c = np.arange(150), np.arange(4)
    y = i * 29 % 13 % 4
    raw = 1 + (i[:, None] * 7919 + c[None, :] * 611) % 23 + 9 * (c[None, :] == y[:, None])
    s = raw / raw.sum(axis=1, keepdims=True)
    predicted = s.argmax(axis=1)
    return {
        "s": s.ravel().tolist(),
        "y": y.tolist(),
        "predicted": predicted.tolist(),
        "confusion": metrics.confusion_matrix(y, predicted).ravel().tolist(),
        "accuracy": metrics.accuracy_score(y, predicted),
        "balanced_accuracy": metrics.balanced_accuracy_score(y, predicted),
        "recall": metrics.recall_score(y, predicted, average=None).tolist(),
        "precision": metrics.precision_score(y, predicted, average=None).tolist(),
        "macro_f": metrics.f1_score(y, predicted, average="macro"),
        "micro_f": metrics.f1_score(y, predicted, average="micro"),
        "auc_ova": metrics.roc_auc_score(y, s, multi_class="ovr", average="macro"),
    }


def calibration():
    i = np.arange(200)
    p = (1 + 2 * (i * 83 % 97)) / 200  # odd multiples of 1/200: never on an edge of ten bins
    y = ((i * 53 % 101) / 101 < p**1.5).astype(int)
    observed, predicted = calibration_curve(y, p, n_bins=10)
    return {
        "p": p.tolist(),
        "y": y.tolist(),
        "brier": metrics.brier_score_loss(y, p),
        "log_loss": metrics.log_loss(y, p),
        "reliability": lists(predicted, observed),
    }


def intervals():
    rates = []
    for k, n in ((0, 10), (1, 10), (5, 10), (10, 10), (37, 250), (3, 100_000), (499_990, 1_000_000)):
        for level in (0.8, 0.95, 0.999):
            test = stats.binomtest(k, n)
            exact, wilson = (test.proportion_ci(level, method=m) for m in ("exact", "wilson"))
            rates.append([k, n, level, exact.low, exact.high, wilson.low, wilson.high])
    ours, theirs = [0.912, 0.905, 0.921, 0.899, 0.917], [0.903, 0.907, 0.909, 0.890, 0.905]
    test = stats.ttest_rel(ours, theirs)
    low, high = test.confidence_interval(0.95)
    mean = stats.t.interval(0.9, len(ours) - 1, loc=np.mean(ours), scale=stats.sem(ours))
    coins = [[k, n, stats.binomtest(k, n).pvalue] for k, n in ((0, 1), (3, 20), (10, 20), (15, 40), (400, 1000))]
    return {
        "rates": rates,
        "ours": ours,
        "theirs": theirs,
        "paired": [float(np.mean(ours) - np.mean(theirs)), low, high, test.pvalue],
        "mean_90": [float(np.mean(ours)), *mean],
        "coins": coins,
    }


def irwin_hall(x):
    u = Fraction(x) + 6
    return float(sum((-1) ** k * comb(12, k) * (u - k) ** 12 for k in range(13) if u > k) / factorial(12))


def beta(x, a, b):
    """Regularised incomplete beta function by its series of positive terms, in 40 digits."""
    x, a, b = mpmath.mpf(x), mpmath.mpf(a), mpmath.mpf(b)
    if x > (a + 1) / (a + b + 2):
        return 1 - beta(1 - x, b, a)
    term = total = mpmath.mpf(1)
    n = 0
    while term > total * mpmath.mpf(10) ** -40:
        term *= (a + b + n) / (a + 1 + n) * x
        total += term
        n += 1
    log_front = a * mpmath.log(x) + b * mpmath.log1p(-x) + mpmath.loggamma(a + b) - mpmath.loggamma(a) - mpmath.loggamma(b)
    return mpmath.exp(log_front) * total / a


def student(t, dof):
    t, dof = mpmath.mpf(t), mpmath.mpf(dof)
    tail = beta(dof / (dof + t * t), dof / 2, mpmath.mpf(1) / 2) / 2
    return tail if t <= 0 else 1 - tail


def exact(tables):
    """Numbers as text, because serde_json may read a number one ulp off, and a tail can magnify that."""
    return {name: [[repr(float(v)) for v in row] for row in rows] for name, rows in tables.items()}


def distributions():
    shapes = ((0.5, 0.5), (1, 1), (2.5, 0.3), (0.01, 3), (7, 19), (120, 3.5), (5000, 4000), (1e6, 20))
    points = []
    for a, b in shapes:
        mean, sd = a / (a + b), (a * b / (a + b + 1)) ** 0.5 / (a + b)
        points += [(x, a, b) for x in (mean * 0.1, mean - 4 * sd, mean, mean + 3 * sd, 0.999) if 0 < x < 1]
    shares = (1e-12, 1e-4, 0.025, 0.3, 0.5, 0.9, 0.999)
    dofs = (1, 2, 4, 9.5, 120, 1e6)
    x = (-37.5, -10, -3.3, -1, -1e-9, 0, 0.4, 1.96, 5, 8.2)
    hall = (-6.5, -6, -5.9, -4.25, -2, -0.5, 0, 0.75, 2.5, 5.75, 6)
    return {
        "normal": [[v, float(mpmath.ncdf(v)), float(mpmath.npdf(v))] for v in x],
        "normal_quantile": [[p, float(stats.norm.ppf(p))] for p in (1e-300, 1e-20, *shares)],
        "irwin_hall": [[v, irwin_hall(v)] for v in hall],
        "chi_square": [[v, float(stats.chi2.cdf(v, 1)), float(stats.chi2.sf(v, 1))] for v in (0, 1e-6, 1, 3.84, 30, 300)],
        "beta": [[x, a, b, float(beta(x, a, b))] for x, a, b in points],
        "beta_quantile": [[p, a, b, float(stats.beta.ppf(p, a, b))] for a, b in shapes for p in shares],
        "student": [[t, dof, float(student(t, dof))] for dof in dofs for t in (-40, -2, -0.1, 1e-8, 1, 6)],
        "student_quantile": [[p, dof, float(stats.t.ppf(p, dof))] for dof in dofs for p in shares],
    }


content = {
    "versions": {
        "python": platform.python_version(),
        "scikit-learn": sklearn.__version__,
        "scipy": scipy.__version__,
        "numpy": np.__version__,
        "mpmath": mpmath.__version__,
    },
    "binary": binary(),
    "several_classes": several_classes(),
    "calibration": calibration(),
    "intervals": intervals(),
    "distributions": exact(distributions()),
}
path = Path(__file__).with_name("metrics.json")
path.write_text(json.dumps(content, default=float) + "\n")
print(f"wrote {path}")
