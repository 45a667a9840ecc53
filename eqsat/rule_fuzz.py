"""Rules tried on numbers: all small values first, so that a counterexample is the smallest, then random large ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from eqsat.ir import term as t
from eqsat.ir.dtypes import BOOL, INDEX, NDArray, is_float
from eqsat.ir.evaluate import Mask, evaluate_masked
from eqsat.ir.rule import BufferParameter, Instance, Kind, Rule, variable
from eqsat.ir.term import Term
from eqsat.ir.walk import leaves, postorder, substitute

POINTS = 120_000
SAMPLES = 20_000
BUFFER_LENGTHS = (1, 2, 3, 5)
LAZY = ("where", "and", "or", "given")


@dataclass(frozen=True)
class Variables:
    """The variables of one theorem; `present` says for each that may be undefined whether it is defined."""

    kinds: dict[Term, Kind]
    present: dict[Term, Term]

    def partial(self, side: Term) -> Term:
        """The side over variables that may be undefined."""
        return substitute(side, {v: t.where(p, v, _nothing(v.dtype)) for v, p in self.present.items()})


def _nothing(dtype: str) -> Term:
    """A term of this type that has no value."""
    nowhere = t.make("floordiv", (t.index_const(1), t.index_const(0)))
    return t.compare("eq", nowhere, 0) if dtype == BOOL else t.cast_to(nowhere, dtype)


def is_lazy(instance: Instance) -> bool:
    """Whether a side evaluates some of its parts only under a condition."""
    return any(node.op in LAZY for node in postorder(instance.left, instance.right))


def variables_of(rule: Rule, instance: Instance) -> Variables:
    """What a theorem quantifies over. In a lazy law values may be undefined, but not constants."""
    kinds = {variable(p, instance.dtype): p.kind for p in rule.parameters if p.kind is not Kind.BUFFER}
    present: dict[Term, Term] = {}
    if is_lazy(instance):
        for v, kind in kinds.items():
            if kind not in (Kind.POS, Kind.NUM, Kind.TOTAL):
                present[v] = t.make("var", (), f"{v.payload}_is_defined", BOOL)
    return Variables(kinds, present)


def box_of(variables: Variables) -> dict[Term, tuple[int | None, int | None]]:
    """The ranges of the variables of index type."""
    return {v: (1 if k is Kind.POS else None, None) for v, k in variables.kinds.items() if v.dtype == INDEX}


def counterexample(rule: Rule, instance: Instance) -> tuple[dict[str, Any] | None, int]:
    """Values at which the left side is defined and the right side is not, or differs; and the number of values tried.

    >>> from eqsat.ir.rule import Idx, Pos
    >>> from eqsat.ir.rule import rule as declare
    >>> @declare("wrong")
    ... def wrong(x: Idx, c: Pos):
    ...     return x // c * c, x
    >>> counterexample(wrong, wrong.instances[0])[0]
    {'x': 1, 'c': 2}
    """
    variables = variables_of(rule, instance)
    sources = {n.payload for n in leaves("load", instance.left, instance.right)}
    buffers = [s for s in sources if isinstance(s, BufferParameter)]
    tried = 0
    for length in BUFFER_LENGTHS if buffers else (0,):
        for env in _points(variables, buffers):
            bad = _violations(variables, instance, env, length)
            tried += bad.size
            if bool(bad.any()):
                found = _smallest(variables, env, bad)
                return {**found, **{f"len({b.name})": length for b in buffers}}, tried
    return None, tried


def _points(variables: Variables, buffers: Sequence[BufferParameter]) -> Iterator[dict[Term, NDArray]]:
    """Grids of growing radius, then random points."""
    leaves_ = [*variables.kinds, *variables.present.values()]
    last = -1
    for radius in itertools.count(1):
        values = [_small(v, variables.kinds.get(v, Kind.PRED), radius) for v in leaves_]
        count = prod(len(x) for x in values)
        if count > POINTS or count == last or radius > 40:
            break
        last = count
        grids = np.meshgrid(*values, indexing="ij")
        yield {v: g.ravel() for v, g in zip(leaves_, grids, strict=True)}
    random = np.random.default_rng(20)
    for largest in (12, 1000):
        yield {v: _random(v, variables.kinds.get(v, Kind.PRED), largest, random) for v in leaves_}


def _small(v: Term, kind: Kind, radius: int) -> NDArray:
    if v.dtype == BOOL:
        return np.array([True, False])
    if kind is Kind.POS:
        return np.arange(1, radius + 1)
    if v.dtype == INDEX:
        return np.array(sorted(range(-radius, radius + 1), key=abs))
    if kind is Kind.ANY:
        return np.array([0, 1, 2], v.dtype)
    return _edges(v.dtype)[: 4 * radius]


def _edges(dtype: str) -> NDArray:
    if is_float(dtype):
        top = np.finfo(dtype)
        numbers = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 3.0, float(top.max), float(top.tiny), -2.5]
        return np.array(numbers, dtype)
    info = np.iinfo(dtype)
    whole = [0, 1, 2, 3, -1, info.max, info.min, -2, info.max // 2 + 1, info.max - 1, 7, -info.max // 2 - 1]
    return np.array([w for w in whole if info.min <= w <= info.max], dtype)


def _random(v: Term, kind: Kind, largest: int, random: np.random.Generator) -> NDArray:
    if v.dtype == BOOL:
        return random.integers(0, 2, SAMPLES).astype(bool)
    if kind is Kind.POS:
        return random.integers(1, max(2, largest // 8), SAMPLES)
    if v.dtype == INDEX:
        return random.integers(-largest, largest + 1, SAMPLES)
    if is_float(v.dtype):
        return (random.standard_normal(SAMPLES) * largest).astype(v.dtype)
    info = np.iinfo(v.dtype)
    return random.integers(info.min, info.max, SAMPLES, dtype=v.dtype, endpoint=True)


def _violations(variables: Variables, instance: Instance, env: Mapping[Term, NDArray], length: int) -> NDArray:
    sides = [variables.partial(instance.left), variables.partial(instance.right)]
    size = max(v.size for v in env.values())

    def load(source: Any, index: Sequence[NDArray]) -> tuple[NDArray, Mask]:
        content = (np.arange(length) * 3 + 1).astype(source.dtype)
        outside = (index[0] < 0) | (index[0] >= length)
        return content[np.clip(index[0], 0, length - 1)], outside

    found = evaluate_masked([*sides, *instance.conditions], env, load)
    (left, left_bad), (right, right_bad) = found[:2]
    wrong = np.logical_not(_same(np.broadcast_to(left, size), np.broadcast_to(right, size)))
    if right_bad is not None:
        wrong = np.logical_or(wrong, right_bad)
    if left_bad is not None:
        wrong = np.logical_and(wrong, np.logical_not(left_bad))
    for value, bad in found[2:]:
        wrong = np.logical_and(wrong, value if bad is None else np.logical_and(value, np.logical_not(bad)))
    return wrong


def _same(a: NDArray, b: NDArray) -> NDArray:
    if a.dtype.kind != "f":
        return np.asarray(a == b)
    both = np.isnan(a) & np.isnan(b)
    return both | ((a == b) & (np.signbit(a) == np.signbit(b)))


def _smallest(variables: Variables, env: Mapping[Term, NDArray], bad: NDArray) -> dict[str, Any]:
    at = np.flatnonzero(bad)
    weight: NDArray = np.zeros(at.size)
    for v in variables.kinds:
        if v.dtype == INDEX:
            weight = weight + np.abs(env[v][at]) * (1 + (env[v][at] < 0) * 1e-3)
    best = int(at[int(np.argmin(weight))])
    shown: dict[str, Any] = {str(v): env[v][best].item() for v in variables.kinds}
    absent = {str(v): "undefined" for v, p in variables.present.items() if not env[p][best]}
    return {**shown, **absent}

