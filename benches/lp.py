"""The peers of benches/lp.rs. `lp.py MODE` prints the value and the median seconds of one pass.

`auc`: cvxpylayers on the same AUC program. `auc-dense`: the dense algorithm of the paper, written from its description in
PyTorch. `auc-loss`: the same closed form with PyTorch's sort and cumsum; `auc-pairs`: all pairs, in slices.
`dense`: scipy's HiGHS, whose multipliers are the gradients.
"""

import statistics
import sys
import time

import numpy as np


def waves(n, phase):
    i = np.arange(n, dtype=np.float64)
    return np.modf(1000.0 * np.sin(12.9898 * (i + phase)))[0]


def report(runs, one):
    value, seconds = one(), []
    for _ in range(runs):
        began = time.perf_counter()
        one()
        seconds.append(time.perf_counter() - began)
    print(f"value={float(value)!r} seconds={statistics.median(seconds)}")


SIDE = 24
MARGIN = 0.1


def auc_scores():
    import torch

    torch.set_num_threads(2)
    f, g = (torch.tensor(waves(SIDE, phase), requires_grad=True) for phase in (1.0, 5.0))
    return torch, f, g


def auc():
    import cvxpy as cp
    from cvxpylayers.torch import CvxpyLayer

    torch, f, g = auc_scores()
    n = SIDE * SIDE
    z, d = cp.Variable(n), cp.Parameter(n)
    layer = CvxpyLayer(cp.Problem(cp.Minimize(cp.sum(z) / n), [z >= MARGIN - d, z >= 0]), parameters=[d], variables=[z])

    def one():
        f.grad = g.grad = None
        (solution,) = layer((f[:, None] - g[None, :]).flatten())
        loss = solution.mean()
        loss.backward()
        return loss.detach()

    report(5, one)


def auc_dense():
    torch, f, g = auc_scores()
    n = SIDE * SIDE
    eye = torch.eye(n, dtype=torch.float64)
    A, c = torch.cat([-eye, -eye]), torch.full((n,), 1.0 / n, dtype=torch.float64)
    epsilon, delta = 1e-3, 1e-4

    def one():
        f.grad = g.grad = None
        b = torch.cat([(f[:, None] - g[None, :]).flatten() - MARGIN, torch.zeros(n, dtype=torch.float64)])
        with torch.no_grad():
            y = torch.linalg.solve(A[:n].T @ A[:n] + 1e-3 * eye, A[:n].T @ b[:n])
            for _ in range(20):
                r = A @ y - b
                H = A.T @ ((r > 0).double()[:, None] * A)
                step = torch.linalg.solve(H + delta * eye, A.T @ r.clamp(min=0) + epsilon * c)
                y = y - step
                if step.norm() < 1e-10:
                    break
            J = (A @ y - b) > 0
        AJ = A[J]
        z = torch.linalg.solve(AJ.T @ AJ + 1e-2 * eye, AJ.T @ b[J])
        loss = z.mean()
        loss.backward()
        return loss.detach()

    report(5, one)


def auc_loss():
    import torch

    torch.set_num_threads(2)
    side = 100_000
    s = torch.tensor(waves(2 * side, 1.0), requires_grad=True)
    y = torch.arange(2 * side) % 2 == 0

    class Hinge(torch.autograd.Function):
        """Mean of max(0, margin − (f − g)) over all pairs, by sorting the negatives once and the positives once."""

        @staticmethod
        def forward(ctx, f, g):
            sorted_g, order_g = torch.sort(g)
            sums = torch.cat([torch.zeros(1, dtype=g.dtype), torch.cumsum(sorted_g, 0)])
            far = torch.searchsorted(sorted_g, f - MARGIN, right=True)
            count = len(g) - far
            value = (count * (MARGIN - f) + sums[-1] - sums[far]).sum() / (len(f) * len(g))
            sorted_f, _ = torch.sort(f)
            near = torch.searchsorted(sorted_f, g + MARGIN)
            ctx.save_for_backward(count, near)
            return value

        @staticmethod
        def backward(ctx, grad):
            count, near = ctx.saved_tensors
            pairs = len(count) * len(near)
            return -grad * count / pairs, grad * near / pairs

    def one():
        s.grad = None
        loss = Hinge.apply(s[y], s[~y])
        loss.backward()
        return loss.detach()

    report(9, one)


def auc_pairs():
    import torch

    torch.set_num_threads(2)
    side = 100_000
    s = torch.tensor(waves(2 * side, 1.0))
    y = torch.arange(2 * side) % 2 == 0
    f, g = s[y].requires_grad_(), s[~y].requires_grad_()
    began = time.perf_counter()
    total = 0.0
    for part in f.split(1000):
        loss = (MARGIN - (part[:, None] - g[None, :])).clamp(min=0).sum() / (side * side)
        loss.backward()
        total += loss.item()
    print(f"value={total!r} seconds={time.perf_counter() - began}")


def dense():
    from scipy.optimize import linprog

    n, m = 60, 240
    A = waves(m * n, 3.0).reshape(m, n)
    b = A @ waves(n, 7.0) + np.abs(waves(m, 11.0))
    c = -A.T @ np.abs(waves(m, 13.0))

    def one():
        found = linprog(c, A_ub=A, b_ub=b, bounds=(None, None), method="highs")
        # Gradients of the optimum: the multipliers in b, the point in c, their product in A.
        np.outer(found.ineqlin.marginals, found.x)
        return found.fun

    report(21, one)


{"auc": auc, "auc-dense": auc_dense, "auc-loss": auc_loss, "auc-pairs": auc_pairs, "dense": dense}[sys.argv[1]]()
