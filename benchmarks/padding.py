"""Padded buffers: a branch that keeps padding out, the same computed over padding, and what the planner chooses.

    python benchmarks/padding.py [CASE ...] [--seconds 2] [--show]

A row sum, a max pool, a convolution with padded channels, a matrix product whose K = 1000 is packed to 1008, and
attention over padded sequences, as functions over buffers. `branch` is the function as it is written; `over` what
`remove_branching_through_overcompute` makes of it, by proof; `chosen` what `choose_padding` makes, `laws` what
`optimize_statements` makes, which fills no padding. A function that is a formula (`eq.as_formula`) is compiled as
that, with sums in tiles, any other as its loops are written; `contract=True` allows what numpy and torch do, to round a
product and the sum that takes it once. Beside them are numpy and, where it is installed, torch. All are compared before
anything is timed, and run in turns on one thread. Times are the least of the rounds in microseconds; `best` is the time
of the fastest of all others over that of the chosen one.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

import eqsat as eq
from eqsat.ir.dtypes import NDArray

Arrays = dict[str, NDArray]


@dataclass(frozen=True)
class Case:
    """A function as text, loops that run in vectors, arguments, and the same in numpy (or torch: `np` is either)."""

    name: str
    text: str
    vectors: tuple[str, ...]
    arguments: Callable[[np.random.Generator], Arrays]
    logical: Callable[[Any, Mapping[str, Any]], Any]
    output: str


def _floats(rng: np.random.Generator, *shape: int) -> NDArray:
    return rng.standard_normal(shape).astype("float32")


def _padded(array: NDArray, axis: int, size: int, value: float = 0.0) -> NDArray:
    width = [(0, size - n if k == axis else 0) for k, n in enumerate(array.shape)]
    return np.pad(array, width, constant_values=value)


ROWS = Case(
    "row_sum_256x1000",
    """\
func row_sum(A: float32[256, 63, 16], B: float32[256])
  for p0 in 256:
    for p1 in 63:
      for p2 in 16:
        assume 16*p1 + p2 < 1000 or A[p0, p1, p2] == float32(0.0)
  alloc lanes: float32[16]
  for i in 256:
    for z in 16:
      lanes[z] = float32(0.0)
    reduce for jo in 63:
      for ji in 16:
        if 16*jo + ji < 1000:
          lanes[ji] = lanes[ji] + A[i, jo, ji]
    B[i] = float32(0.0)
    reduce for k in 16:
      B[i] = B[i] + lanes[k]""",
    ("ji",),
    lambda rng: {"A": _padded(_floats(rng, 256, 1000), 1, 1008).reshape(256, 63, 16), "B": np.zeros(256, "float32")},
    lambda xp, a: a["A"].reshape(256, 1008)[:, :1000].sum(1),
    "B",
)
POOL = Case(
    "max_pool_3x3_32x56x56",
    """\
func max_pool(X: float32[32, 56, 56], Y: float32[32, 56, 56])
  alloc P: float32[58, 58]
  for c in 32:
    for h in 56:
      for w in 56:
        P[h + 1, w + 1] = X[c, h, w]
    for y in 56:
      for x in 56:
        Y[c, y, x] = float32(-inf)
      for dy in 3:
        for dx in 3:
          for v in 56:
            if 1 <= y + dy and y + dy < 57 and 1 <= v + dx and v + dx < 57:
              Y[c, y, v] = maximum(Y[c, y, v], P[y + dy, v + dx])""",
    ("v",),
    lambda rng: {"X": _floats(rng, 32, 56, 56), "Y": np.zeros((32, 56, 56), "float32")},
    lambda xp, a: _pooled(xp, a["X"]),
    "Y",
)
CONV = Case(
    "conv3x3_c30_to_32_64_28",
    """\
func conv(X: float32[2, 30, 30, 16], W: float32[2, 16, 3, 3, 64], Y: float32[28, 28, 64])
  for p0 in 2:
    for p1 in 30:
      for p2 in 30:
        for p3 in 16:
          assume 16*p0 + p3 < 30 or X[p0, p1, p2, p3] == float32(0.0)
  for q0 in 2:
    for q1 in 16:
      for q2 in 3:
        for q3 in 3:
          for q4 in 64:
            assume 16*q0 + q1 < 30 or W[q0, q1, q2, q3, q4] == float32(0.0)
  for y in 28:
    for x in 28:
      for z in 64:
        Y[y, x, z] = float32(0.0)
      reduce for co in 2:
        reduce for ci in 16:
          reduce for dy in 3:
            reduce for dx in 3:
              for o in 64:
                if 16*co + ci < 30:
                  Y[y, x, o] = Y[y, x, o] + X[co, y + dy, x + dx, ci]*W[co, ci, dy, dx, o]""",
    ("o",),
    lambda rng: {
        "X": np.ascontiguousarray(
            _padded(_floats(rng, 30, 30, 30), 0, 32).reshape(2, 16, 30, 30).transpose(0, 2, 3, 1)
        ),
        "W": _padded(_floats(rng, 30, 3, 3, 64), 0, 32).reshape(2, 16, 3, 3, 64),
        "Y": np.zeros((28, 28, 64), "float32"),
    },
    lambda xp, a: _convolved(xp, a["X"], a["W"]),
    "Y",
)
MATMUL = Case(
    "matmul_64x1000x256_k1008",
    """\
func matmul(A: float32[64, 63, 16], B: float32[63, 16, 256], C: float32[64, 256])
  for p0 in 64:
    for p1 in 63:
      for p2 in 16:
        assume 16*p1 + p2 < 1000 or A[p0, p1, p2] == float32(0.0)
  for q0 in 63:
    for q1 in 16:
      for q2 in 256:
        assume 16*q0 + q1 < 1000 or B[q0, q1, q2] == float32(0.0)
  for i in 64:
    for z in 256:
      C[i, z] = float32(0.0)
    reduce for ko in 63:
      reduce for ki in 16:
        for j in 256:
          if 16*ko + ki < 1000:
            C[i, j] = C[i, j] + A[i, ko, ki]*B[ko, ki, j]""",
    ("j",),
    lambda rng: {
        "A": _padded(_floats(rng, 64, 1000), 1, 1008).reshape(64, 63, 16),
        "B": _padded(_floats(rng, 1000, 256), 0, 1008).reshape(63, 16, 256),
        "C": np.zeros((64, 256), "float32"),
    },
    lambda xp, a: a["A"].reshape(64, 1008) @ a["B"].reshape(1008, 256),
    "C",
)
ATTENTION = Case(
    "attention_64q_100_of_112k_d64",
    """\
func attention(Q: float32[64, 64], K: float32[64, 112], V: float32[112, 64], O: float32[64, 64])
  for p0 in 64:
    for p1 in 112:
      assume p1 < 100 or K[p0, p1] == float32(0.0)
  for q0 in 112:
    for q1 in 64:
      assume q0 < 100 or V[q0, q1] == float32(0.0)
  alloc S: float32[112]
  alloc most: float32[1]
  alloc total: float32[1]
  for i in 64:
    for z in 112:
      S[z] = float32(0.0)
    reduce for d in 64:
      for k in 112:
        if k < 100:
          S[k] = S[k] + Q[i, d]*K[d, k]
    most[0] = float32(-inf)
    reduce for m in 112:
      if m < 100:
        most[0] = maximum(most[0], S[m])
    total[0] = float32(0.0)
    reduce for e in 112:
      if e < 100:
        S[e] = exp(S[e]*float32(0.125) - most[0]*float32(0.125))
        total[0] = total[0] + S[e]
    for y in 64:
      O[i, y] = float32(0.0)
    reduce for n in 112:
      for o in 64:
        if n < 100:
          O[i, o] = O[i, o] + S[n]*V[n, o]
    for w in 64:
      O[i, w] = O[i, w] / total[0]""",
    ("k", "o"),
    lambda rng: {
        "Q": _floats(rng, 64, 64),
        "K": _padded(_floats(rng, 64, 100), 1, 112),
        "V": _padded(_floats(rng, 100, 64), 0, 112),
        "O": np.zeros((64, 64), "float32"),
    },
    lambda xp, a: _attended(xp, a["Q"], a["K"][:, :100], a["V"][:100]),
    "O",
)
CASES = (ROWS, POOL, CONV, MATMUL, ATTENTION)


def _pooled(xp: Any, x: Any) -> Any:
    if xp is not np:
        return xp.nn.functional.max_pool2d(x[None], 3, 1, 1)[0]
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    return np.max([padded[:, i : i + 56, j : j + 56] for i in range(3) for j in range(3)], axis=0)


def _convolved(xp: Any, x: Any, w: Any) -> Any:
    if xp is not np:
        plain, weights = x.permute(0, 3, 1, 2).reshape(1, 32, 30, 30), w.reshape(32, 3, 3, 64).permute(3, 0, 1, 2)
        return xp.nn.functional.conv2d(plain, weights)[0].permute(1, 2, 0)
    return sum(
        np.einsum("cyxi,cio->yxo", x[:, i : i + 28, j : j + 28], w[:, :, i, j], optimize=True)
        for i in range(3)
        for j in range(3)
    )


def _attended(xp: Any, q: Any, k: Any, v: Any) -> Any:
    scores = (q @ k) * 0.125
    most = scores.max(-1, keepdims=True) if xp is np else scores.max(-1, keepdim=True).values
    weights = xp.exp(scores - most)
    return weights @ v / (weights.sum(-1, keepdims=True) if xp is np else weights.sum(-1, keepdim=True))


def forms(case: Case, names: tuple[str, ...] = ("branch", "over", "chosen", "laws")) -> dict[str, eq.Schedule]:
    """The function, and what becomes of it in each way; with its loops in vectors."""
    found: dict[str, eq.Schedule] = {}
    for name in names:
        s = eq.Schedule(eq.PrimFunc.parse(case.text))
        if name == "over":
            s.remove_branching_through_overcompute()
        elif name == "chosen":
            s.choose_padding()
        elif name == "laws":
            s.optimize_statements()
        for loop in case.vectors:
            for own in [x for x in s.loops if x.partition("@")[0] == loop]:
                s.vectorize(own)
        found[name] = s
    return found


def measured(case: Case, seconds: float) -> tuple[dict[str, float], dict[str, eq.Schedule]]:
    """The least seconds by name, after a comparison of all results with numpy's.

    All take the same arrays: where in memory these lie makes more of a difference (a quarter) than what is compared.
    """
    arguments = case.arguments(np.random.default_rng(0))
    wanted: NDArray = np.asarray(case.logical(np, arguments))
    scale = float(np.abs(wanted).max())
    actions: dict[str, Callable[[], Any]] = {}
    made: dict[str, eq.Schedule] = {}
    alike: dict[str, str] = {}
    for name, s in attempts(case).items():
        same = next((n for n, other in made.items() if other.func == s.func), None)
        if same is not None:  # one kernel, one time
            alike[name] = same
            continue
        arguments[case.output].fill(np.nan)
        actions[name], made[name] = bound(s.func, arguments, case.output), s
        actions[name]()
        worst = float(np.abs(arguments[case.output] - wanted).max())
        if not worst <= 1e-4 * scale:
            raise RuntimeError(f"{case.name}, {name}: differs from numpy by {worst}")
    actions["numpy"] = lambda: case.logical(np, arguments)
    if find_spec("torch") is not None:
        torch: Any = import_module("torch")
        torch.set_num_threads(1)
        tensors = {n: torch.from_numpy(a) for n, a in arguments.items()}
        actions["torch"] = lambda: case.logical(torch, tensors)
    times = dict(zip(actions, least(list(actions.values()), seconds), strict=True))
    return times | {n: times[m] for n, m in alike.items()}, made | {n: made[m] for n, m in alike.items()}


def bound(func: eq.PrimFunc, arrays: Arrays, output: str) -> Callable[[], Any]:
    """A call of a function, or of the formula that it is, on arrays."""
    try:
        program = eq.as_formula(func)
    except eq.ScheduleError:
        kernel: Any = eq.compile(func, target="c", threads=1, contract=True)
        return kernel.bind(arrays)
    whole: Any = eq.compile(program, target="c", threads=1, contract=True)
    return whole.bind({x.name: arrays[x.name] for x in program.inputs}, out=arrays[output])


def least(actions: list[Callable[[], Any]], seconds: float) -> list[float]:
    """The least seconds of each action, in turns: other work on the machine only makes times longer."""
    for action in actions:
        action()
    found = [float("inf")] * len(actions)
    stop, rounds = time.perf_counter() + seconds, 0
    while rounds < 20 or time.perf_counter() < stop:
        rounds += 1
        for k, action in enumerate(actions):
            begun = time.perf_counter()
            action()
            found[k] = min(found[k], time.perf_counter() - begun)
    return found


def attempts(case: Case) -> dict[str, eq.Schedule]:
    """The forms that there are: without branches only where some can go."""
    try:
        return forms(case)
    except eq.ScheduleError:  # nothing is known of a padding that the planner has to fill first
        return forms(case, ("branch", "chosen", "laws"))


def on_one_thread() -> None:
    """Begin again where numpy's products may run on several threads: their library reads how many when it is loaded."""
    wanted = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")}
    if any(os.environ.get(name) != number for name, number in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})


def main() -> None:
    on_one_thread()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("cases", nargs="*", help="parts of names")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--show", action="store_true", help="print the chosen function and what was done")
    options = parser.parse_args()
    print(f"{'case':32}{'branch':>10}{'over':>10}{'chosen':>10}{'laws':>10}{'numpy':>10}{'torch':>10}{'best':>7}")
    for case in CASES:
        if options.cases and not any(part in case.name for part in options.cases):
            continue
        times, made = measured(case, options.seconds)
        cells = "".join(f"{times[n] * 1e6:10.1f}" if n in times else f"{'-':>10}" for n in
                        ("branch", "over", "chosen", "laws", "numpy", "torch"))  # fmt: skip
        best = min(t for n, t in times.items() if n != "chosen") / times["chosen"]
        print(f"{case.name:32}{cells}{best:7.2f}")
        if options.show:
            print(made["chosen"].func, made["chosen"].trace, sep="\n")


if __name__ == "__main__":
    main()
