"""Writes lp.json beside this file: what HiGHS makes of linear programs that tests/lp/families.rs draws from the same seed.

    python3 -m venv /tmp/oracle
    /tmp/oracle/bin/pip install numpy==2.4.6 scipy==1.17.1
    /tmp/oracle/bin/python tests/oracle/lp.py

The Rust tests only read the JSON; run this again after a change here. The file holds a sum of each program's numbers, so
that a program drawn differently is noticed, and what HiGHS says of it: status, optimum, and for one family z and v.
"""

import json
import platform
from pathlib import Path

import numpy as np
import scipy
from scipy.optimize import linprog

SEED = 2021
MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


class Seed:
    """The counter-based generator of src/seed.rs."""

    def __init__(self, value):
        self.value = value & MASK

    def stream(self, i):
        return Seed(mix((self.value + GAMMA * (i + 1)) & MASK))

    def uniform(self, c):
        return (self.stream(c).value >> 11) / (1 << 53)

    def below(self, c, n):
        return (self.stream(c).value * n) >> 64

    def bell(self, c):
        total = 0.0
        for k in range(12):
            total += self.uniform(12 * c + k)
        return total - 6.0

    def uniforms(self, n):
        return np.array([self.uniform(i) for i in range(n)])

    def bells(self, *shape):
        return np.array([self.bell(i) for i in range(int(np.prod(shape)))]).reshape(shape)

    def integers(self, low, high, *shape):
        draws = [low + self.below(i, high - low + 1) for i in range(int(np.prod(shape)))]
        return np.array(draws, dtype=float).reshape(shape)


def gaussian(seed, n, m, m_eq=0):
    a, a_eq = seed.stream(0).bells(m, n), seed.stream(4).bells(m_eq, n)
    z = seed.stream(1).bells(n)
    b = a @ z + seed.stream(2).uniforms(m)
    c = -a.T @ seed.stream(3).uniforms(m) - a_eq.T @ seed.stream(5).bells(m_eq)
    return a, b, c, a_eq, a_eq @ z


def mixed(seed, case):
    n = 2 + case % 11
    return gaussian(seed, n, n + 1 + case * 7 % (2 * n), case % 3)


def sized(seed, case):
    n, m = next(size for last, size in SIZES if case < last)
    return gaussian(seed, n, m)


SIZES = [(300, (2, 6)), (550, (5, 20)), (750, (10, 40)), (850, (30, 100)), (875, (60, 240))]


def scaled(seed, case):
    a, b, c, a_eq, b_eq = gaussian(seed, 5, 15)
    scale = 10.0 ** (8 * seed.stream(6).uniforms(15) - 4)
    return a * scale[:, None], b * scale, c, a_eq, b_eq


def integer(seed, case):
    n = 2 + case % 6
    m = 3 * n
    a = seed.stream(0).integers(-2, 2, m, n)
    z = seed.stream(1).integers(-2, 2, n)
    b = a @ z + np.maximum(seed.stream(2).integers(-2, 1, m), 0)
    c = -a.T @ seed.stream(3).integers(0, 2, m)
    return a, b, c, np.zeros((0, n)), np.zeros(0)


def assignment(seed, case):
    k = 2 + case % 5
    cost = seed.integers(0, 9, k * k)
    rows = [[float(i // k == r) for i in range(k * k)] for r in range(k)]
    columns = [[float(i % k == r) for i in range(k * k)] for r in range(k)]
    return -np.eye(k * k), np.zeros(k * k), cost, np.array(rows + columns), np.ones(2 * k)


def whatever(seed, case):
    """Nothing is known: most are infeasible or unbounded."""
    n = 1 + case % 4
    m = 1 + case * 5 % 8
    m_eq = case // 4 % 2
    eq = seed.stream(4)
    return (seed.stream(0).bells(m, n), seed.stream(1).bells(m) + 0.5, seed.stream(2).bells(n),
            eq.stream(0).bells(m_eq, n), eq.stream(1).bells(m_eq))


def solve(a, b, c, a_eq, b_eq):
    return linprog(c, A_ub=a if len(b) else None, b_ub=b if len(b) else None, A_eq=a_eq if len(b_eq) else None,
                   b_eq=b_eq if len(b_eq) else None, bounds=(None, None), method="highs-ds",
                   options={"presolve": True, "primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10})


def status(program):
    """Optimal, Infeasible or Unbounded. HiGHS may say only that one of the last two holds; then a program decides."""
    a, b, c, a_eq, b_eq = program
    if solve(a, b, np.zeros_like(c), a_eq, b_eq).status != 0:
        return "Infeasible", None
    found = solve(*program)
    return ("Optimal", found) if found.status == 0 else ("Unbounded", None)


FAMILIES = [("mixed", mixed, 200), ("sized", sized, 875), ("scaled", scaled, 100), ("integer", integer, 100),
            ("assignment", assignment, 100), ("whatever", whatever, 200)]


def main():
    families = {}
    for number, (name, draw, count) in enumerate(FAMILIES):
        rows = []
        for case in range(count):
            program = draw(Seed(SEED).stream(number).stream(case), case)
            said, found = status(program)
            row = {"sum": float(sum(np.abs(part).sum() for part in program)), "status": said}
            if found is not None:
                row["value"] = float(found.fun)
                if name == "mixed":
                    row["z"] = [float(f"{v:.12g}") for v in found.x]
                    row["v"] = [float(f"{-v:.12g}") for v in found.ineqlin.marginals]
            rows.append(row)
        families[name] = rows
        print(name, count, {s: sum(r["status"] == s for r in rows) for s in ("Optimal", "Infeasible", "Unbounded")})
    versions = {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__}
    text = json.dumps({"versions": versions, "families": families}, separators=(",", ":"))
    Path(__file__).with_suffix(".json").write_text(text + "\n")


if __name__ == "__main__":
    main()
