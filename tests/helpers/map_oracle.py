"""What enumeration says about index maps, computed apart from the library: an interpreter of terms in plain numpy, and
the comparison of every answer of a map with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from random import Random
from typing import Any

import numpy as np

from eqsat.ir.errors import LayoutError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.terms import term as t
from eqsat.ir.terms.tables import Table
from eqsat.ir.terms.term import Term
from eqsat.maps.inverse import LARGEST_TABLE

Array = np.ndarray[Any, Any]
ALL_CELLS = 1 << 22
SAMPLES = 4096


class Undefined(Exception):
    """A term without a value at one of the points."""


def values(roots: Sequence[Term], env: Mapping[Term, Array]) -> list[Array]:
    """The values of terms, operation by operation as numpy defines them; all branches are computed."""
    known: dict[Term, Any] = dict(env)

    def value(node: Term) -> Any:
        if node not in known:
            known[node] = _apply(node, [value(a) for a in node.args])
        return known[node]

    return [np.asarray(value(r)) for r in roots]


def _apply(node: Term, args: list[Any]) -> Any:
    op = node.op
    if op == "const":
        return np.bool_(node.payload) if node.dtype == "bool" else np.int64(node.payload)
    if op == "sum":
        total = node.payload[0]
        for c, a in zip(node.payload[1], args, strict=True):
            total = total + (a if c == 1 else c * a)
        return total
    if op == "load":
        table = node.payload
        assert isinstance(table, Table)
        index = np.asarray(args[0])
        if bool(np.any((index < 0) | (index >= len(table.array)))):
            raise Undefined(str(node))
        return table.array[index]
    if op in ("floordiv", "mod", "truncdiv", "truncmod") and bool(np.any(np.asarray(args[1]) == 0)):
        raise Undefined(str(node))
    if op == "truncdiv":
        return np.sign(args[0]) * np.sign(args[1]) * (np.abs(args[0]) // np.abs(args[1]))
    if op in ("and", "or", "prod"):
        result = args[0]
        for a in args[1:]:
            result = result * a if op == "prod" else result & a if op == "and" else result | a
        return result
    return getattr(np, _NUMPY[op])(*args)


_NUMPY = {
    "floordiv": "floor_divide", "mod": "mod", "truncmod": "fmod", "min": "minimum", "max": "maximum", "abs": "abs",
    "bitand": "bitwise_and", "bitor": "bitwise_or", "bitxor": "bitwise_xor", "shl": "left_shift", "shr": "right_shift",
    "where": "where", "not": "logical_not", "lt": "less", "le": "less_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip


def widest(node: Term, box: Mapping[Term, int]) -> tuple[int, int]:
    """The interval of a term in which every digit `% c` may be anything in [0, c)."""
    if node in box:
        return 0, box[node] - 1
    if node.op == "const":
        return node.payload, node.payload
    ends = [widest(a, box) for a in node.args]
    if node.op == "sum":
        low = high = node.payload[0]
        for c, (a, b) in zip(node.payload[1], ends, strict=True):
            low, high = low + min(c * a, c * b), high + max(c * a, c * b)
        return low, high
    if node.op == "mod":
        return 0, ends[1][0] - 1
    if node.op == "floordiv":
        return ends[0][0] // ends[1][0], ends[0][1] // ends[1][0]
    return -(1 << 62), 1 << 62


@dataclass
class Truth:
    """A map at every point of a box, as flat arrays; `key` numbers the cells (Python integers where 64 bits do not)."""

    m: IndexMap
    shape: tuple[int, ...]
    declared: tuple[int, ...]

    def __post_init__(self) -> None:
        self.points: list[Array] = [a.ravel() for a in np.indices(self.shape, dtype=np.int64)]
        self.size = prod(self.shape)
        found = values(self.m.outputs, dict(zip(self.m.inputs, self.points, strict=True)))
        self.images = [np.broadcast_to(v, (self.size,)) for v in found]
        self.key = self.number(self.images)
        self.injective = self._distinct()
        self.bijective = self.injective and prod(self.declared) == self.size

    def _distinct(self) -> bool:
        if prod(self.declared) <= ALL_CELLS:
            hit = np.zeros(prod(self.declared), np.bool_)
            hit[self.key] = True
            return int(np.count_nonzero(hit)) == self.size
        ordered = np.sort(self.key)
        return not bool(np.any(ordered[1:] == ordered[:-1]))

    def number(self, cells: Sequence[Array]) -> Array:
        small = prod(self.declared) < 1 << 62
        key: Array = np.zeros(len(cells[0]) if cells else self.size, np.int64 if small else object)
        for c, extent in zip(cells, self.declared, strict=True):
            key = key * extent + c
        return key

    def cells(self) -> tuple[list[Array], Array]:
        """All cells of the declared shape, or a sample of cells near those that are reached; and which are reached."""
        total = prod(self.declared)
        if total <= ALL_CELLS:
            hit = np.zeros(total, np.bool_)
            hit[self.key] = True
            return [a.ravel() for a in np.indices(self.declared, dtype=np.int64)], hit
        random = np.random.default_rng(total % 1000)
        picks = random.integers(0, self.size, SAMPLES)
        rows = [np.asarray(x)[picks] + random.integers(-1, 2, SAMPLES) for x in self.images]
        rows = [np.clip(x, 0, n - 1) for x, n in zip(rows, self.declared, strict=True)]
        rows = [np.concatenate([x, random.integers(0, n, SAMPLES)]) for x, n in zip(rows, self.declared, strict=True)]
        return rows, np.isin(self.number(rows), self.key)


def disagreements(m: IndexMap, shape: tuple[int, ...], rng: Random) -> Iterator[str]:
    """Every answer about a map that is not what enumeration says; none is expected."""
    declared = tuple(int(str(d)) for d in m.map_shape(shape))
    truth = Truth(m, shape, declared)
    yield from _shape(truth)
    yield from _verdicts(truth)
    if not truth.injective:
        try:
            yield f"an inverse: {m.non_surjective_inverse(shape)}"
        except LayoutError as error:
            if "both map to" not in str(error):
                yield f"inverse says {error}"
        return
    try:
        inverse, padding = m.non_surjective_inverse(shape)
    except LayoutError as error:
        # Without a formula a table has an entry for each declared cell: documented to be refused where these are many.
        if prod(declared) <= LARGEST_TABLE or "no formula is known" not in str(error):
            yield f"inverse says {error}"
        return
    yield from _inverse(truth, inverse, padding)
    back = m.then(inverse, shape)
    if not back.is_identity(shape):
        yield f"{back} is not proved to be the identity"
    if rng.randrange(8) == 0:
        yield from _changed(truth, rng)


def _shape(truth: Truth) -> Iterator[str]:
    box = dict(zip(truth.m.inputs, truth.shape, strict=True))
    for output, image, extent in zip(truth.m.outputs, truth.images, truth.declared, strict=True):
        most = int(image.max()) + 1
        digits = any(n.op == "mod" for n in _nodes(output))
        if extent < most or (extent > most and not (digits and extent <= widest(output, box)[1] + 1)):
            yield f"{output} declares {extent}, its greatest value is {most - 1}"


def _nodes(term: Term) -> set[Term]:
    found: set[Term] = set()
    stack = [term]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(node.args)
    return found


def _at(m: IndexMap, point: Sequence[int]) -> list[int]:
    env = {v: np.asarray(c, np.int64) for v, c in zip(m.inputs, point, strict=True)}
    return [int(x) for x in values(m.outputs, env)]


def _verdicts(truth: Truth) -> Iterator[str]:
    m, shape = truth.m, truth.shape
    single, both = m.is_injective(shape), m.is_bijective(shape)
    if single.verdict != ("proved" if truth.injective else "refuted"):
        yield f"is_injective: {single}"
    if both.verdict != ("proved" if truth.bijective else "refuted"):
        yield f"is_bijective: {both}"
    for proof in (single, both):
        witness: Any = proof.witness
        if proof.verdict == "refuted" and witness is None and prod(truth.declared) < 1 << 62:
            yield f"no witness: {proof}"
        elif proof.verdict == "refuted" and witness is not None and "first" in witness:
            first, second = (list(witness[k].values()) for k in ("first", "second"))
            inside = all(0 <= c < n for c, n in zip([*first, *second], [*shape, *shape], strict=True))
            if first == second or not inside or _at(m, first) != _at(m, second):
                yield f"bad witness: {proof}"
        elif proof.verdict == "refuted" and witness is not None:
            cell = [np.asarray([c]) for c in witness["padding"]]
            if bool(np.isin(truth.number(cell), truth.key)[0]):
                yield f"bad witness: {proof}"


def _inverse(truth: Truth, inverse: IndexMap, padding: Term) -> Iterator[str]:
    there = dict(zip(inverse.inputs, truth.images, strict=True))
    back = [np.broadcast_to(v, (truth.size,)) for v in values(inverse.outputs, there)]
    if not all(np.array_equal(a, b) for a, b in zip(back, truth.points, strict=True)):
        yield f"inverse {inverse} does not lead back"
    cells, reached = truth.cells()
    env = dict(zip(inverse.inputs, cells, strict=True))
    try:
        values(inverse.outputs, env)
        marks = np.broadcast_to(values([padding], env)[0], (len(reached),))
    except Undefined as error:
        yield f"inverse {inverse} or padding {padding} is undefined: {error}"
        return
    if not np.array_equal(marks, ~reached):
        yield f"padding {padding} is wrong at {[int(c[int(np.argmax(marks == reached))]) for c in cells]}"
    if truth.bijective != (padding is t.FALSE):
        yield f"padding {padding} of a map that is {'' if truth.bijective else 'not '}bijective"


def _changed(truth: Truth, rng: Random) -> Iterator[str]:
    """The map with one output changed at one point differs there and nowhere else."""
    m = truth.m
    flat = rng.randrange(truth.size)
    point = {v: int(p[flat]) for v, p in zip(m.inputs, truth.points, strict=True)}
    there = t.logical_and(*(t.compare("eq", v, c) for v, c in point.items()))
    changed = IndexMap(m.names, (t.where(there, m.outputs[0] + 1, m.outputs[0]), *m.outputs[1:]))
    proof = m.is_equivalent_to(changed, truth.shape)
    if proof.verdict != "refuted" or proof.witness != {str(v): c for v, c in point.items()}:
        yield f"is_equivalent_to {changed}: {proof}"
    same = m.is_equivalent_to(m.simplify(truth.shape), truth.shape)
    if not same:
        yield f"simplified to {m.simplify(truth.shape)}: {same}"
