"""Verdicts do not depend on how busy the machine is: budgets count steps, not seconds."""

import os
import subprocess
import sys

QUESTIONS = """
from eqsat.ir.terms.term import sym, var
from eqsat.proving.prover import Budget, Portfolio
n, m = sym("N"), sym("M")
i, j = var("i", n), var("j", m)
x, y, a, b = (var(v) for v in "xyab")
ask = Portfolio(Budget(z3_rlimits=(40_000,), isl_operations=2_000, rules=False), cached=False)
goals = [
    (i * m + j) // m == i, (i * m + j) % m == j, ((i * m + j) * 3 + 1) // (3 * m) == i, i * m + j < n * m,
    (x * x + x) % 2 == 0, (x * x * x - x) % 6 == 0, 5 * x * x != y * y + 2,
    (x % 12 + y % 8) // 4 <= 4, (x // 3 + y // 5) * 15 <= 5 * x + 3 * y,
]
print([(p.verdict, p.method, p.witness) for p in (ask.prove(goal, {}) for goal in goals)])
"""
BUSY = "import time; end = time.time() + 60\nwhile time.time() < end: pass"


def verdicts() -> str:
    environment = {**os.environ, "EQSAT_CACHE": "off"}
    done = subprocess.run(
        [sys.executable, "-c", QUESTIONS], capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout


def test_the_same_verdicts_on_a_busy_machine() -> None:  # feature: J2
    """Some of these questions are at the edge of their budget: they are where a clock would decide."""
    quiet = verdicts()
    assert "unknown" in quiet and "proved" in quiet
    load = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(4)]
    try:
        assert verdicts() == quiet
    finally:
        for process in load:
            process.kill()
            process.wait()
