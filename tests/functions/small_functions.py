"""Functions over buffers in few words, for tests of statements: loops, branches, and runs that compare two of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.refine import same_meaning
from eqsat.ir.statements.sizes import numbers
from eqsat.ir.statements.stmt import BufferDecl, For, If, Stmt, Store, seq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, TermLike

Fix = Callable[[dict[str, NDArray]], None]


def loops(axes: Sequence[Term], *body: Stmt) -> Stmt:
    """A nest of serial loops."""
    inner = seq(body)
    for axis in reversed(axes):
        inner = For(axis, inner)
    return inner


def put(buffer: str, index: Sequence[TermLike], value: Term) -> Store:
    """buffer[index] = value."""
    return Store(buffer, tuple(map(t.as_index, index)), value)


def when(condition: Term, *body: Stmt) -> If:
    """The body under a condition."""
    return If(condition, seq(body))


def function(buffers: Mapping[str, tuple[Sequence[int], str]], *body: Stmt, name: str = "f") -> PrimFunc:
    """A function whose parameters are given as {name: (shape, dtype)}."""
    decls = {key: BufferDecl(key, tuple(shape), dtype) for key, (shape, dtype) in buffers.items()}
    return PrimFunc(name, tuple(decls), decls, seq(body))


def odd_array(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> NDArray:
    """Random numbers among which NaN, infinities, both zeros or the limits of the type are common."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        plain = rng.integers(-4 if info.min else 0, 5, shape).astype(dtype)
        odd = rng.choice(np.array([info.min, info.max, 0], dtype), shape)
    else:
        plain = rng.standard_normal(shape).astype(dtype)
        odd = rng.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], dtype), shape)
    return np.where(rng.random(shape) < 0.25, odd, plain).astype(dtype)


def arrays_for(func: PrimFunc, rng: np.random.Generator, fix: Fix | None = None) -> dict[str, NDArray]:
    """Arrays for all parameters, outputs too: what is not written keeps these numbers, and is compared."""
    made = {n: odd_array(rng, numbers(func.buffer_map[n].shape, {}), func.buffer_map[n].dtype) for n in func.params}
    if fix is not None:
        fix(made)
    return made


def check_same(before: PrimFunc, after: PrimFunc, seed: int = 0, fix: Fix | None = None, runs: int = 2) -> None:
    """The interpreter gives the same for all parameters, bit by bit on odd inputs, cells that were freed aside."""
    for number in range(runs):
        start = arrays_for(before, np.random.default_rng(seed * 1000 + number), fix)
        assert (found := same_meaning(before, after, start)), f"{found.difference}\n{before}\n{after}"
