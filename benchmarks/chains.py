"""How the search grows with the length of a chain of layout operators, in six families.

    python benchmarks/chains.py [LENGTH ...]

permute: aligned splits and permutes; reshape: reshapes that do not align with each other (small ones are composed
exactly, large ones kept as cuts); pads: pads of different values with crops; borders: a row of padding more at each
step, of which no two results are the same; reversed: permutes and reversals. Prints e-nodes, seconds, and the exponent
with which the time grows.
"""

from __future__ import annotations

import math
import sys
import time

import numpy as np

from eqsat.engine import Limits, optimize
from eqsat.ir.tensors.tensor import Tensor, input

SHAPES = {
    "permute": (4, 6, 8, 16),
    "reshape": (6, 35),
    "reshape-large": (600, 3500),
    "pads": (8, 8),
    "borders": (1000, 8),
    "reversed": (2, 3, 4, 5, 6),
}
"""The families, and what their chains begin with."""
SMALL = [(10, 21), (14, 15), (6, 35), (30, 7), (5, 42)]
LARGE = [(1000, 2100), (1400, 1500), (600, 3500), (3000, 700), (500, 4200)]


def chain(family: str, length: int) -> Tensor:
    """A chain of `length` layout operators."""
    rng = np.random.default_rng(length)
    y = input("x", SHAPES[family], "float32")
    for k in range(length):
        now = [d for d in y.shape if isinstance(d, int)]
        if family == "borders":
            y = y[: 10 + k].pad(((0, 1), (0, 0)))
        elif family == "reversed":
            y = y.permute_dims([int(i) for i in rng.permutation(len(now))]).flip(k % len(now))
        elif family == "pads":
            y = y.pad(2, float(k % 5)) if k % 2 == 0 else y.crop((1 + k % 2, 2), (now[0] - 4, now[1] - 4))
        elif k % 2 == 0:
            y = y.permute_dims([int(i) for i in rng.permutation(len(now))])
        elif family == "permute":
            split = now[-1] % 2 == 0 and len(now) < 6
            y = y.reshape((*now[:-1], 2, now[-1] // 2) if split else (now[0] * now[1], *now[2:]))
        else:
            y = y.reshape((SMALL if family == "reshape" else LARGE)[int(rng.integers(5))])
    return y


def main(lengths: list[int]) -> None:
    head = f"{'family':14} {'operators':>9} {'e-nodes':>8} {'search s':>9} {'total s':>8} {'growth':>7}"
    print(head + "  bytes before -> after")
    optimize(chain("permute", 3), "c")  # starts the worker
    for family in SHAPES:
        last: tuple[int, float] | None = None
        for length in lengths:
            program = chain(family, length)
            start = time.perf_counter()
            result = optimize(program, "c", limits=Limits(seconds=60))
            seconds = time.perf_counter() - start
            growth = "" if last is None else f"{math.log(seconds / last[1]) / math.log(length / last[0]):.2f}"
            last = (length, seconds)
            search = result.progress
            print(
                f"{family:14} {length:9} {search.nodes:8} {search.seconds:9.2f} {seconds:8.2f} {growth:>7}  "
                f"{result.cost_before} -> {result.cost_after} ({result.status})"
            )


if __name__ == "__main__":
    main([int(a) for a in sys.argv[1:]] or [125, 250, 500, 1000])
