"""Rules tried on numbers: all small values first, so that a counterexample is the smallest, then random large ones, and
those about which the constants of the rule say something."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from eqsat.ir.dtypes import BOOL, INDEX, NDArray, float_info, is_float
from eqsat.ir.rule import BufferParameter, Instance, Kind, Rule, variable
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import Mask, evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, postorder, substitute

POINTS = 120_000
SAMPLES = 20_000
LANDMARKS = 64
LARGEST_LANDMARK = 1 << 200
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
    sources = {n.payload for n in nodes_of("load", instance.left, instance.right)}
    buffers = [s for s in sources if isinstance(s, BufferParameter)]
    tried = 0
    for length in BUFFER_LENGTHS if buffers else (0,):
        for env in _points(variables, instance):
            bad = _violations(variables, instance, env, length)
            tried += bad.size
            if bool(bad.any()):
                point = _smallest(variables, env, bad)
                found = _shown(variables, _shrunk(variables, instance, point, length))
                return {**found, **{f"len({b.name})": length for b in buffers}}, tried
    return None, tried


def confirmed(rule: Rule, instance: Instance, witness: Mapping[str, Any]) -> dict[str, Any] | None:
    """A counterexample that a prover found, made smaller where that is cheap; None where numpy does not agree to it.

    >>> from eqsat.ir.rule import Idx
    >>> from eqsat.ir.rule import rule as declare
    >>> @declare("wrong")
    ... def wrong(x: Idx):
    ...     return t.binary("min", x, 10**9), x
    >>> confirmed(wrong, wrong.instances[0], {"x": 10**12})
    {'x': 1000000001}
    """
    variables = variables_of(rule, instance)
    point: dict[Term, NDArray] = {}
    for v in (*variables.kinds, *variables.present.values()):
        value = witness.get(str(v), True if v.dtype == BOOL else 1 if variables.kinds.get(v) is Kind.POS else 0)
        point[v] = _integers([value]) if v.dtype == INDEX else np.array([value], v.dtype)
    if any(n.op == "load" for n in postorder(instance.left, instance.right)):
        return None
    if not bool(_violations(variables, instance, point, 0).all()):
        return None
    return _shown(variables, _shrunk(variables, instance, point, 0))


def _integers(values: Sequence[int]) -> NDArray:
    wide = any(abs(v) >= 1 << 62 for v in values)
    return np.array(values, object if wide else np.int64)


def _points(variables: Variables, instance: Instance) -> Iterator[dict[Term, NDArray]]:
    """Grids of growing radius, then random points, then points near to the constants of the rule."""
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
    marks = landmarks((instance.left, instance.right, *instance.conditions))
    if marks:
        near = [_near(v, variables.kinds.get(v, Kind.PRED), marks) for v in leaves_]
        if prod(len(x) for x in near) <= POINTS:
            grids = np.meshgrid(*near, indexing="ij")
            yield {v: g.ravel() for v, g in zip(leaves_, grids, strict=True)}
        else:
            yield {v: x[random.integers(0, len(x), SAMPLES)] for v, x in zip(leaves_, near, strict=True)}


def landmarks(roots: Sequence[Term]) -> list[int]:
    """Numbers at which terms may begin to differ: their constants, products and quotients of two, and what is beside.

    >>> from eqsat.ir.terms.text import parse_expr
    >>> landmarks([parse_expr("min(x // 1000, 7)")])
    [6, 7, 8, 141, 142, 143, 144, 999, 1000, 1001, 6999, 7000, 7001]
    """
    numbers: set[int] = set()
    for node in postorder(*roots):
        if node.op == "const" and node.dtype == INDEX:
            numbers.add(abs(node.payload))
        elif node.op == "sum":
            constant, coefficients = node.payload
            numbers.update((abs(constant), *(abs(c) for c in coefficients)))
    known = sorted(numbers - {0, 1})[:LANDMARKS]
    pairs = list(itertools.combinations(known, 2))
    wide = {*(a * b for a, b in pairs), *(b // a for a, b in pairs), *(-(-b // a) for a, b in pairs)}
    marks = sorted(k for k in {*known, *wide} if k < LARGEST_LANDMARK)[: 4 * LANDMARKS]
    return sorted({k + d for k in marks for d in (-1, 0, 1) if k + d > 1})


def _near(v: Term, kind: Kind, marks: Sequence[int]) -> NDArray:
    """Landmarks, with either sign, and small numbers."""
    if v.dtype != INDEX:
        return _small(v, kind, 2)
    if kind is Kind.POS:
        return _integers([1, 2, 3, *marks])
    return _integers([0, 1, 2, 3, -1, -2, *marks, *(-k for k in marks)])


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
        top = float_info(dtype)
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


def _smallest(variables: Variables, env: Mapping[Term, NDArray], bad: NDArray) -> dict[Term, NDArray]:
    at = np.flatnonzero(bad)
    weight: NDArray = np.zeros(at.size)
    for v in variables.kinds:
        if v.dtype == INDEX:
            weight = weight + (np.abs(env[v][at]) * (1 + (env[v][at] < 0) * 1e-3)).astype(np.float64)
    best = int(at[int(np.argmin(weight))])
    return {v: values[best : best + 1] for v, values in env.items()}


def _shrunk(variables: Variables, instance: Instance, point: dict[Term, NDArray], length: int) -> dict[Term, NDArray]:
    """The counterexample with each integer as near to zero as steps of powers of two bring it, the others kept."""
    point = dict(point)
    moved = True
    while moved:
        moved = False
        for v, kind in variables.kinds.items():
            if v.dtype != INDEX:
                continue
            now = int(point[v][0])
            sign = 1 if now > 0 else -1
            steps = [abs(now) - (1 << k) for k in range(abs(now).bit_length())]
            nearer = sorted({0, 1, abs(now) // 2, *(s for s in steps if s >= 0)} - {abs(now)})
            tries = [sign * n for n in nearer if n < abs(now) and (kind is not Kind.POS or n > 0)]
            if not tries:
                continue
            env = {x: np.repeat(value, len(tries)) for x, value in point.items()} | {v: _integers(tries)}
            bad = np.flatnonzero(_violations(variables, instance, env, length))
            if bad.size:
                point[v] = env[v][bad[:1]]
                moved = True
    return point


def _shown(variables: Variables, point: Mapping[Term, NDArray]) -> dict[str, Any]:
    shown: dict[str, Any] = {str(v): point[v].tolist()[0] for v in variables.kinds}
    return shown | {str(v): "undefined" for v, p in variables.present.items() if not point[p][0]}
