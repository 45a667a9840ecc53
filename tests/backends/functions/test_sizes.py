"""Random nests over sizes, fused, split and in layouts by sizes: all have kernels, which do what is meant."""

from __future__ import annotations

import contextlib
import random
from math import prod
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.sizes import numbers
from eqsat.scheduling.mapped import moved_arguments, told_sizes
from eqsat.scheduling.schedule import Schedule


def turned(rng: random.Random) -> Schedule:
    """A buffer whose axes change places, over up to three sizes."""
    sizes = [eq.symbol(f"S{k}") for k in range(rng.randint(1, 3))]
    dims = [rng.choice([*sizes, 2, 3]) * rng.choice([1, 1, 1, 3]) for _ in range(rng.randint(2, 4))]
    order = rng.sample(range(len(dims)), len(dims))
    f = eq.primfunc("turned")
    a, b = f.param("a", dims, "int32"), f.param("b", [dims[d] for d in order], "int32")
    with contextlib.ExitStack() as loops:
        at = [loops.enter_context(f.loop(f"i{k}", d)) for k, d in enumerate(dims)]
        b[tuple(at[d] for d in order)] = a[tuple(at)]
    return Schedule(f.build())


def step(s: Schedule, rng: random.Random) -> None:
    """A step that may be refused."""
    loops, name = s.loops, rng.choice(["fuse", "fuse", "split", "reorder", "layout"])
    if name == "split":
        s.split(rng.choice(loops), [None, rng.choice([2, 3, 4, 16])])
    elif name != "layout" and len(loops) > 1:
        k = rng.randrange(len(loops) - 1)
        if name == "fuse":
            s.fuse(loops[k], loops[k + 1])
        else:
            s.reorder(loops[k + 1], loops[k])
    elif name == "layout" and (rank := len(s.buffer("b").shape)) < 4:
        names, n = [f"x{k}" for k in range(rank)], rng.randrange(rank)
        by = rng.choice(["2", "4", *(str(x) for x in s.func.symbols)])
        outputs = [*names[:n], f"{names[n]}//{by}", f"{names[n]}%{by}", *names[n + 1 :]]
        pad = eq.UNDEF if rng.random() < 0.5 else 0
        s.transform_layout("b", f"{', '.join(names)} -> {', '.join(outputs)}", pad, interface="free")


@pytest.mark.parametrize("first", [0, 12, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (6, 18))])
def test_nests_over_sizes_have_kernels(first: int) -> None:
    for seed in range(first, first + 6):
        rng = random.Random(seed)
        s = turned(rng)
        for _ in range(rng.randint(1, 5)):
            with contextlib.suppress(ScheduleError):
                step(s, rng)
        kernel: Any = eq.compile(s.func)
        for _ in range(2):
            known = {x: rng.randint(1, 5) for x in s.original.symbols}
            shapes = {name: numbers(decl.shape, known) for name, decl in s.original.buffer_map.items()}
            given = {n: np.arange(prod(shape), dtype="int32").reshape(shape) for n, shape in shapes.items()}
            moved = moved_arguments(s.original, s.func, given)
            want, got = ({n: m.array.copy() for n, m in moved.items()} for _ in range(2))
            told = {str(x): n for x, n in told_sizes(s.original, s.func, given).items()}
            freed = run_primfunc(s.func, want, told, track=True)
            kernel(**got, **told)
            for name, array in got.items():
                assert np.all((array == want[name]) | freed[name]), f"seed {seed}, {known}\n{s.trace}\n{s.func}"


FOUR = """\
func f(x: float32[N, C, H, W], y: float32[N, H, W, C])
  symbol N
  symbol C
  symbol H
  symbol W
  for n in N:
    for h in H:
      for w in W:
        for c in C:
          y[n, h, w, c] = x[n, c, h, w]"""
ROUNDED = """\
func f(a: int32[S, 3, R], b: int32[(S + 2) // S, R, S, S])
  symbol S
  symbol R
  for p in (3*R + R*S - 1) // (R*S):
    for q in R*S:
      for r in S:
        if S*p + r < 3:
          b[p, q // S, q % S, r] = a[q % S, S*p + r, q // S]"""


def test_sizes_of_many_axes_have_a_limit_that_is_checked() -> None:
    kernel: Any = eq.compile(eq.PrimFunc.parse(FOUR))
    x, y = np.arange(2 * 3 * 4 * 5, dtype="float32").reshape(2, 3, 4, 5), np.zeros((2, 4, 5, 3), "float32")
    kernel(x=x, y=y)
    assert np.array_equal(y, x.transpose(0, 2, 3, 1))
    wide = np.zeros((1 << 16, 1, 1, 1), "float32")
    with pytest.raises(eq.EqsatError, match="the kernel computes indices for at most"):
        kernel(x=wide, y=wide.copy())


def test_extents_that_are_rounded_up_are_bounded_by_their_sizes() -> None:
    func = eq.PrimFunc.parse(ROUNDED)
    a = np.arange(2 * 3 * 5, dtype="int32").reshape(2, 3, 5)
    want, got = (np.full((2, 5, 2, 2), -1, "int32") for _ in range(2))
    run_primfunc(func, {"a": a, "b": want})
    kernel: Any = eq.compile(func)
    kernel(a=a, b=got)
    assert np.array_equal(want, got)
    assert "S: from 1 to 262144" in kernel.header
