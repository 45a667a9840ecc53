"""The default prover of the language: it tries every point, up to a limit, and writes inverses as tables."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from eqsat.ir.decide import Box, Proof
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import LayoutError
from eqsat.ir.map_on_box import MapInverse, MapOnBox
from eqsat.ir.points import ENUMERATION_LIMIT, first_repeated, grid, points, row_keys, values_at, values_on
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import blocks, evaluate_masked
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.tables import Table, load_table, table_load
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import point_names
from eqsat.ir.terms.walk import postorder

BLOCK = 1 << 18


class Enumerator:
    """Decides by trying every point, up to a limit.

    >>> i = t.ax(0, 14)
    >>> Enumerator().prove(i // 4 * 4 + i % 4 < 13, {i: (0, 14)}).witness
    {'i0': 13}
    """

    def __init__(self, limit: int = ENUMERATION_LIMIT) -> None:
        self.limit = limit

    def prove(self, claim: Term, box: Box, assuming: Term | None = None) -> Proof:
        goal = claim if assuming is None else t.logical_or(t.logical_not(assuming), claim)
        if points(box) == 0:
            return Proof("proved", method="enumeration", note="the box is empty")
        used = _leaves([goal], box)
        box = {axis: span for axis, span in box.items() if axis in used} | _unused(box, used)
        reason = self._open(used, box)
        if reason:
            return Proof("unknown", method="enumeration", note=reason)
        for env, full in _pieces(box):
            value, bad = evaluate_masked([goal], env, load_table)[0]
            holds = np.broadcast_to(value if bad is None else np.logical_and(value, np.logical_not(bad)), full)
            if not bool(holds.all()):
                return Proof("refuted", _point(env, int(np.argmin(holds)), full), "enumeration")
        return Proof("proved", method="enumeration")

    def injective(self, outputs: Sequence[Term], box: Box) -> Proof:
        reason = self._open(_leaves(outputs, box), box)
        if reason:
            return Proof("unknown", method="enumeration", note=reason)
        if points(box) == 0:
            return Proof("proved", method="enumeration", note="the box is empty")
        env = grid(box)
        full = np.broadcast_shapes(*(a.shape for a in env.values()))
        columns: list[NDArray] = []
        for value, bad in evaluate_masked(list(outputs), env, load_table):
            if bad is not None and bool(np.any(bad)):
                at = int(np.argmax(np.broadcast_to(bad, full)))
                return Proof("refuted", _point(env, at, full), "enumeration", note="undefined here")
            columns.append(np.broadcast_to(value, full).ravel())
        pair = first_repeated(row_keys(columns, points(box)))
        if pair is None:
            return Proof("proved", method="enumeration")
        first, second = (_point(env, at, full) for at in pair)
        return Proof("refuted", {"first": first, "second": second}, "enumeration")

    def simplify(self, terms: Sequence[Term], box: Box) -> list[Term]:
        """The terms themselves: enumeration knows no rules."""
        return list(terms)

    shortest = simplify

    def map_injective(self, m: MapOnBox) -> Proof:
        """Whether no two points of the box share a cell."""
        if m.numbers is None:
            return Proof("unknown", method="enumeration", note="a size is symbolic")
        return self.injective(m.outputs, m.box)

    def map_bijective(self, m: MapOnBox) -> Proof:
        """Whether every cell of the declared shape belongs to exactly one point."""
        proof = self.map_injective(m)
        if proof.verdict != "proved" or m.numbers is None or prod(m.numbers[0]) == prod(m.numbers[1]):
            return proof
        reached = _reached(m, m.numbers) if prod(m.numbers[1]) <= self.limit else None
        cell = None if reached is None else {"padding": _first_missed(reached, m.numbers[1])}
        return Proof("refuted", cell, "counting", note="cells without an index")

    def map_inverse(self, m: MapOnBox) -> MapInverse:
        """The inverse as tables of numbers, -1 in cells that no point reaches, or the given one, tried at all points.

        Raises LayoutError where two points share a cell, where the given inverse is wrong, and where sizes are symbolic
        or too large to be tried.
        """
        if m.numbers is None or max(prod(sizes) for sizes in m.numbers) > self.limit:
            raise LayoutError(m.what, "enumeration inverts only maps of few points", "register a prover")
        proof = self.map_injective(m)
        if proof.verdict != "proved":
            raise LayoutError(
                m.what, f"not injective: {proof.witness}", "use a map that keeps cells apart", proof.witness
            )
        extents, declared = m.numbers
        reached = _reached(m, m.numbers)
        if 0 in extents:
            values: tuple[Term, ...] = tuple(t.index_const(0) for _ in extents)
            return Tabulated(values, t.FALSE if 0 in declared else t.TRUE, _first_missed(reached, declared))
        strides = [prod(declared[n + 1 :]) for n in range(len(declared))]
        place = t.linear(0, list(zip(strides, m.physical, strict=True)))
        cells = np.flatnonzero(reached >= 0)
        rows = np.unravel_index(reached[cells], extents) if extents else ()
        if m.given is None:
            values = tuple(table_load(_table(cells, row, len(reached)), place) for row in rows)
        else:
            values = m.given
            at = dict(zip(m.physical, np.unravel_index(cells, declared) if declared else (), strict=True))
            found = values_at(values, at, len(cells))
            if found is None or not all(np.array_equal(a, b) for a, b in zip(found, rows, strict=True)):
                raise LayoutError(f"inverse_index_map of {m.what}", "is not the inverse", "leave it out")
        missed = _first_missed(reached, declared)
        padding = t.FALSE if missed is None else t.compare("lt", table_load(np.minimum(reached, 0), place), 0)
        return Tabulated(values, padding, missed)

    def _open(self, used: Iterable[Term], box: Box) -> str:
        """Why enumeration cannot answer, or ''."""
        for node in used:
            if node not in box:
                return f"{node} has no {'finite range' if node.op in ('axis', 'var', 'sym') else 'known value'}"
        return f"{points(box)} points are more than {self.limit}" if points(box) > self.limit else ""


@dataclass(frozen=True, eq=False)
class Tabulated(Record):
    """An inverse that was found point by point."""

    values: tuple[Term, ...]
    padding: Term
    first_padding: tuple[int, ...] | None


def _reached(m: MapOnBox, numbers: tuple[tuple[int, ...], tuple[int, ...]]) -> NDArray:
    """For each flat cell of the declared shape the flat point that it belongs to, or -1."""
    extents, declared = numbers
    result: NDArray = np.full(prod(declared), -1, np.int64)
    images = values_on(m.outputs, m.inputs, extents)
    if images is None:
        raise LayoutError(m.what, "an output is undefined at a point of the box")
    flat: NDArray = np.zeros(prod(extents), np.int64)
    for image, extent in zip(images, declared, strict=True):
        flat = flat * extent + image
    result[flat] = np.arange(prod(extents), dtype=np.int64)
    return result


def _first_missed(reached: NDArray, declared: tuple[int, ...]) -> tuple[int, ...] | None:
    if not reached.size or bool((reached >= 0).all()):
        return None
    return tuple(int(x) for x in np.unravel_index(int(np.argmax(reached < 0)), declared)) if declared else ()


def _table(cells: NDArray, values: NDArray, size: int) -> NDArray:
    table: NDArray = np.full(size, -1, np.int64)
    table[cells] = values
    return table


def _leaves(roots: Sequence[Term], box: Box) -> dict[Term, None]:
    """The variables of terms, and what else only a program or a user could give a value, in order of appearance."""
    nodes = list(postorder(*roots, done=box))
    used = dict.fromkeys(a for a in (*roots, *(a for n in nodes for a in n.args)) if a in box)
    for n in nodes:
        if n.op in ("axis", "var", "sym", "hole", "given") or (n.op == "load" and not isinstance(n.payload, Table)):
            used[n] = None
    return used


def _unused(box: Box, used: Container[Term]) -> dict[Term, tuple[int, int]]:
    """One point of each axis that the claim does not mention, for the witness."""
    return {axis: (start, start + 1) for axis, (start, _) in box.items() if axis not in used}


def _pieces(box: Box) -> Iterator[tuple[dict[Term, NDArray], tuple[int, ...]]]:
    """The points of a box as environments of a bounded size, with the shape of each."""
    whole = grid(box)
    for block in blocks([a.size for a in whole.values()], BLOCK):
        env: dict[Term, NDArray] = {}
        for n, (axis, values) in enumerate(whole.items()):
            env[axis] = values[tuple(block[n] if k == n else slice(None) for k in range(values.ndim))]
        yield env, tuple(s.stop - s.start for s in block)


def _point(env: Mapping[Term, NDArray], at: int, full: tuple[int, ...]) -> dict[str, int]:
    where = np.unravel_index(at, full) if full else ()
    rows = zip(point_names(list(env)), env.values(), where, strict=True)
    return {name: int(values.ravel()[int(p)]) for name, values, p in rows}
