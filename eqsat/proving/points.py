"""Deciding by numpy: all points of a small question, chosen points of a large one, and the check of witnesses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np

from eqsat.ir.dtypes import INDEX, NDArray, float_info, is_float, itemsize
from eqsat.ir.points import first_repeated, row_keys
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.exact import integers
from eqsat.ir.terms.tables import Table, load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, postorder
from eqsat.proving.question import Question, Variable, lower_same

CHUNK = 1 << 17
_INT64 = 1 << 62
_PROBES = 1 << 13
_MEMORIES = 64


@dataclass(frozen=True)
class Answer:
    """What one member found: a verdict, and the values of the variables that refute (two points for a collision)."""

    verdict: str
    method: str
    witness: tuple[Any, ...] | None = None
    second: tuple[Any, ...] | None = None
    note: str = ""


UNKNOWN = Answer("unknown", "")


def evaluable(roots: Sequence[Term]) -> bool:
    """Whether numpy knows the value of everything inside: no loads but of tables, no holes."""
    for node in postorder(*roots):
        if node.op in ("hole", "load_ok") or (node.op == "load" and not isinstance(node.payload, Table)):
            return False
    return True


def _domain_size(v: Variable) -> int | None:
    if v.leaf.dtype != INDEX:
        return 1 << (8 * itemsize(v.leaf.dtype)) if itemsize(v.leaf.dtype) <= 2 and v.leaf.dtype != "bool" else None
    if v.start is None or v.stop is None:
        return None
    first = -(-v.start // v.multiple_of) * v.multiple_of
    return max(0, -(-(v.stop - first) // v.multiple_of))


def point_count(question: Question) -> int | None:
    """The number of points of a question, or None where it is not finite."""
    sizes = [2 if v.leaf.dtype == "bool" else _domain_size(v) for v in question.variables]
    return None if None in sizes else prod(s for s in sizes if s is not None)


def _integers(values: Iterable[int]) -> NDArray:
    """Index values: in int64 where they fit, else as Python integers."""
    known = list(values)
    return np.array(known, np.int64 if all(-_INT64 < x < _INT64 for x in known) else object)


def _all_values(v: Variable) -> NDArray:
    dtype = v.leaf.dtype
    if dtype == INDEX:
        assert v.start is not None and v.stop is not None
        return integers(-(-v.start // v.multiple_of) * v.multiple_of, v.stop, v.multiple_of)
    if dtype == "bool":
        return np.array([False, True])
    bits = 8 * itemsize(dtype)
    return np.arange(1 << bits, dtype=f"uint{bits}").view(dtype)


def _few_values(v: Variable, most: int) -> NDArray:
    """Telling values of a variable, small ones first."""
    dtype = v.leaf.dtype
    if dtype != INDEX:
        if dtype == "bool":
            return _all_values(v)
        if is_float(dtype):
            values: list[Any] = [0.0, 1.0, -1.0, -0.0, np.inf, np.nan, 0.5, -np.inf, 3.0, float(float_info(dtype).max)]
        else:
            info = np.iinfo(dtype)
            values = [0, 1, int(info.max), int(info.min), 2, 3, int(info.max) // 2 + 1, 7]
        return np.array(values[:most], dtype)
    size = _domain_size(v)
    if size is not None and size <= most:
        return _all_values(v)
    step = v.multiple_of
    if v.start is not None:
        first = -(-v.start // step)
        steps = [*range(first, first + 2 * most // 3 + 1), *(first + k for k in (31, 32, 63, 64, 100))]
    elif v.stop is not None:
        last = (v.stop - 1) // step
        steps = [last - k for k in range(most)]
    else:
        steps = [s * k for k in range(most) for s in ((1, -1) if k else (1,))]
    values = [k * step for k in dict.fromkeys(steps)][:most]
    if v.stop is not None:
        top = (v.stop - 1) // step * step
        values = list(dict.fromkeys([*(x for x in values[: max(1, most - 2)] if x <= top), top, top - step]))
        values = [x for x in values if v.start is None or x >= v.start][:most]
    return _integers(values)


def _violations(
    question: Question, env: Mapping[Term, NDArray], shape: tuple[int, ...], load: Any = load_table
) -> NDArray:
    roots = [lower_same(question.goal), *(lower_same(f) for f in question.facts)]
    values = evaluate_masked(roots, env, load)
    bad = np.logical_not(values[0][0])
    for value, _ in values[1:]:
        bad = np.logical_and(bad, value)
    return np.broadcast_to(bad, shape)


def _plain(value: Any) -> Any:
    """A numpy scalar, or a Python integer from an object array, as a Python value."""
    return cast("np.generic[Any]", value).item() if isinstance(value, np.generic) else value


def _pick(values: Sequence[NDArray], at: Sequence[int]) -> tuple[Any, ...]:
    return tuple(_plain(v[k]) for v, k in zip(values, at, strict=True))


def _search(question: Question, values: Sequence[NDArray]) -> tuple[Any, ...] | None:
    """The first point of a product of values that violates the goal, or None; in chunks along the leading variables."""
    rank = len(values)
    lengths = [len(v) for v in values]
    split = 0
    while split < rank and prod(lengths[split:]) > CHUNK:
        split += 1
    inner = lengths[split:]
    block = max(1, CHUNK // max(1, prod(inner)))
    leaves = [v.leaf for v in question.variables]
    outer = np.ndindex(*lengths[: max(0, split - 1)]) if split else iter([()])
    for head in outer:
        step = lengths[split - 1] if split else 1
        for start in range(0, step, block):
            env: dict[Term, NDArray] = {}
            shape: list[int] = []
            for k, (leaf, v) in enumerate(zip(leaves, values, strict=True)):
                part = v[head[k] : head[k] + 1] if k < len(head) else v[start : start + block] if k == split - 1 else v
                view = [1] * rank
                view[k] = len(part)
                shape.append(len(part))
                env[leaf] = part.reshape(view)
            bad = _violations(question, env, tuple(shape))
            if bool(bad.any()):
                at = [int(x) for x in np.unravel_index(int(np.argmax(bad)), tuple(shape))]
                for k in range(split):
                    at[k] += head[k] if k < len(head) else start
                return _pick(values, at)
    return None


def enumerate_points(question: Question, limit: int) -> Answer:
    """Decide a finite question by trying every point."""
    count = point_count(question)
    if count is None or count > limit or not evaluable(question.roots):
        return UNKNOWN
    found = _search(question, [_all_values(v) for v in question.variables])
    if found is None:
        return Answer("proved", "enumeration", note=f"{count} points")
    return Answer("refuted", "enumeration", found)


def probe(question: Question) -> Answer:
    """Look for a small counterexample among chosen points."""
    if not evaluable(question.roots):
        return UNKNOWN
    n = max(1, len(question.variables))
    most = max(2, int(_PROBES ** (1 / n)))
    values = [_few_values(v, most) for v in question.variables]
    if prod(len(v) for v in values) > 4 * _PROBES:
        return UNKNOWN
    found = _search(question, values)
    return UNKNOWN if found is None else Answer("refuted", "enumeration", found)


def contradicted(question: Question) -> bool:
    """Whether memory may hold values that contradict a claim about loads: then there is no proof of it, while what
    memory holds is no witness.

    >>> from eqsat.proving.question import claim
    >>> x, y = (t.load(name, [], "float32") for name in "xy")
    >>> contradicted(claim(t.compare("eq", x + y, x), {}).question)
    True
    """
    loads = {(n.payload, n.dtype) for n in nodes_of("load", *question.roots) if not isinstance(n.payload, Table)}
    if not loads or any(n.op in ("hole", "load_ok") for n in postorder(*question.roots)):
        return False
    values = [_few_values(v, 4) for v in question.variables]
    shape = (_MEMORIES, *map(len, values))
    if prod(shape) > CHUNK:
        return False
    dtypes = dict(loads)
    numbers = {source: k + 1 for k, source in enumerate(sorted(dtypes, key=str))}
    seeds = np.arange(_MEMORIES, dtype=np.uint64).reshape(-1, *[1] * len(values))

    def load(source: Any, index: Sequence[NDArray]) -> tuple[NDArray, NDArray | None]:
        if isinstance(source, Table):
            return load_table(source, index)
        word: NDArray = seeds * np.uint64(97) + np.uint64(numbers[source])
        with np.errstate(over="ignore"):
            for i in index:
                word = (word ^ (word >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15) + i.astype(np.uint64)
            word = (word ^ (word >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
        known = _few_values(Variable(t.make("var", (), "value", dtypes[source]), None, None), 8)
        return known[(word >> np.uint64(40)).astype(np.int64) % len(known)], None

    env = {v.leaf: x.reshape([-1 if n == k + 1 else 1 for n in range(len(shape))])
           for k, (v, x) in enumerate(zip(question.variables, values, strict=True))}  # fmt: skip
    return bool(_violations(question, env, shape, load).any())


def _point(question: Question, values: Sequence[Any]) -> dict[Term, NDArray]:
    env: dict[Term, NDArray] = {}
    for v, value in zip(question.variables, values, strict=True):
        env[v.leaf] = _integers([value]).reshape(()) if v.leaf.dtype == INDEX else np.asarray(value, v.leaf.dtype)
    return env


def in_range(v: Variable, value: Any) -> bool:
    """Whether a value is one of the variable's."""
    if v.leaf.dtype != INDEX:
        return True
    low = v.start is None or value >= v.start
    return low and (v.stop is None or value < v.stop) and value % v.multiple_of == 0


def confirms(question: Question, values: Sequence[Any]) -> bool:
    """Whether numpy agrees that the facts hold and the goal fails at this point."""
    if not evaluable(question.roots) or not all(map(in_range, question.variables, values)):
        return False
    return bool(_violations(question, _point(question, values), ()))


def confirms_collision(question: Question, first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether numpy agrees that two different points satisfy the facts and have the same outputs."""
    if list(first) == list(second) or not evaluable(question.roots):
        return False
    rows: list[list[Any]] = []
    for values in (first, second):
        if not all(map(in_range, question.variables, values)):
            return False
        found = evaluate_masked([*question.outputs, *question.facts], _point(question, values), load_table)
        n = len(question.outputs)
        if any(bad is not None and bool(np.any(bad)) for _, bad in found) or not all(bool(f) for f, _ in found[n:]):
            return False
        rows.append([v.item() for v, _ in found[:n]])
    return rows[0] == rows[1]


def _every_point(question: Question) -> tuple[dict[Term, NDArray], tuple[int, ...]]:
    """All points of a finite question, one broadcastable array for each variable, and their common shape."""
    values = [_all_values(v) for v in question.variables]
    sides = [[len(x) if d == k else 1 for d in range(len(values))] for k, x in enumerate(values)]
    env = {v.leaf: x.reshape(s) for v, x, s in zip(question.variables, values, sides, strict=True)}
    return env, tuple(len(x) for x in values)


def enumerate_collisions(question: Question, limit: int) -> Answer:
    """Decide injectivity of a small map by tabulating it."""
    count = point_count(question)
    if count is None or count > limit or not evaluable(question.roots):
        return UNKNOWN
    if count <= 1:
        return Answer("proved", "enumeration", note="at most one point")
    env, shape = _every_point(question)
    found = evaluate_masked([*question.outputs, *question.facts], env, load_table)
    n = len(question.outputs)
    inside = np.ones(shape, bool)
    for value, _ in found[n:]:
        inside = np.logical_and(inside, value)
    kept = np.flatnonzero(inside.ravel())
    rows = (np.broadcast_to(value, shape).ravel()[kept] for value, _ in found[:n])
    pair = first_repeated(row_keys(rows, kept.size))
    if pair is None:
        return Answer("proved", "enumeration", note=f"{count} points")
    values = [env[v.leaf].ravel() for v in question.variables]
    points = [_pick(values, [int(x) for x in np.unravel_index(int(kept[k]), shape)]) for k in pair]
    return Answer("refuted", "enumeration", points[0], points[1])


def trivial(question: Question) -> Answer:
    """The answer that folding alone gives."""
    if question.goal is t.TRUE:
        return Answer("proved", "structure")
    if any(f is t.FALSE for f in question.facts):
        return Answer("proved", "structure", note="the assumptions never hold")
    return UNKNOWN
