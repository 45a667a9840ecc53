"""Reading index formulas as digits and tables: what is no digit of an axis, but a function of few axes, is a table.

A modulus that wraps around, a load of a table, a bit operation, or a choice by position is evaluated over the axes that
it depends on, and is a piece of its own from there on. So no table is longer than those axes, and the sizes of all
others may be symbols.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from eqsat.ir.dtypes import INDEX, NDArray
from eqsat.ir.flat.join import summed
from eqsat.ir.flat.map import Digit, IntArray, all_padding, digit
from eqsat.ir.flat.read import Claim, claim_of, windows
from eqsat.ir.flat.reader import Cut, NoDigits, Piece, Reader, Sum, with_cuts
from eqsat.ir.flat.recognise import BoolArray, Rows, Sets
from eqsat.ir.flat.size_terms import as_size
from eqsat.ir.flat.sizes import Size, numbers, product
from eqsat.ir.flat.table import Listed
from eqsat.ir.flat.tabled import tabled
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.shape import Shape, output_axes
from eqsat.ir.terms.tables import Table, load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import conjuncts, nodes_of, postorder, symbols

MOST_ROWS = 1 << 16
"""The longest table that is read from a formula."""


class _TableReader(Reader):
    """A reading in which functions of few axes are pieces: (-1 - number, 0), counted from their least value."""

    def __init__(self, shape: Shape, cuts: Sequence[Sequence[Size]], n_in: Size) -> None:
        self.sizes = [as_size(d) for d in shape]
        super().__init__(self.sizes, cuts, n_in)
        self.axes = output_axes(shape)
        self.cuts = cuts
        self.tables: list[tuple[tuple[int, ...], IntArray]] = []
        self.known: dict[Term, Sum] = {}

    def read(self, term: Term) -> Sum:
        done = {axis: self.axis(axis.payload[1]) for axis in nodes_of("axis", term)}
        for node in postorder(term, done=done):
            if node.dtype == INDEX:
                done[node] = self.node(node, done)
        if term not in done:
            raise NoDigits
        return done[term]

    def node(self, node: Term, done: Mapping[Term, Sum]) -> Sum:
        if node in self.known:
            return self.known[node]
        try:
            return super().node(node, done)
        except (NoDigits, KeyError):
            axes, (values, valid) = self.values(node)
            if not bool(np.all(valid)):
                raise NoDigits from None
            found = self.known[node] = self.table(axes, values)
            return found

    def ask_cut(self, rest: Mapping[Piece, Size], c: Size) -> None:
        try:
            super().ask_cut({p: k for p, k in rest.items() if p[0] >= 0}, c)
        except Cut as cut:
            if cut.stride in self.cuts[cut.axis]:
                raise NoDigits from None
            raise

    def values(self, node: Term) -> tuple[tuple[int, ...], tuple[NDArray, BoolArray]]:
        """The axes that a formula of indices depends on, and its values over them; where they are defined."""
        axes = tuple(n for n, a in enumerate(self.axes) if any(a is x for x in nodes_of("axis", node)))
        extents = self.extents(axes)
        if symbols(node) or any(not isinstance(x.payload, Table) for x in nodes_of("load", node)):
            raise NoDigits
        env = {self.axes[n]: position for n, position in zip(axes, np.indices(extents, sparse=True), strict=True)}
        found, bad = evaluate_masked([node], env, load_table)[0]
        valid: BoolArray = np.ones(extents, dtype=np.bool_) if bad is None else ~np.broadcast_to(bad, extents)
        return axes, (np.broadcast_to(found, extents), valid)

    def extents(self, axes: Sequence[int]) -> list[int]:
        known = numbers([self.sizes[n] for n in axes])
        if known is None or math.prod(known) > MOST_ROWS or 0 in known:
            raise NoDigits
        return known

    def table(self, axes: tuple[int, ...], values: NDArray) -> Sum:
        """Values over some axes as a constant and a piece."""
        least = int(values.min())
        if least == int(values.max()):
            return Sum(least, {})
        key = (-1 - len(self.tables), 0)
        self.tables.append((axes, (values - least).astype(np.int64).reshape(-1)))
        self.pieces[key] = int(values.max()) - least + 1, 1
        return Sum(least, {key: 1})


def _over(values: NDArray, some: Sequence[int], axes: Sequence[int], extents: Sequence[int]) -> NDArray:
    """Values over some axes as an array over all of them."""
    return values.reshape([e if n in some else 1 for n, e in zip(axes, extents, strict=True)])


def tables_of(shape: Shape, n_in: Size, address: Term, valid: Term) -> Listed | None:
    """The map of formulas over the axes of a shape, by digits and tables of few axes; None where these do not explain
    them, or where some cell may be read outside of a source in numbers.

    >>> from eqsat.ir.terms import term as t
    >>> i, j = t.ax(0, 3), t.ax(1, t.sym("N"))
    >>> print(tables_of((3, t.sym("N")), as_size(3 * t.sym("N")), (i + 2) % 3 * t.sym("N") + j, t.TRUE))
    (3:table, N:1) by table of 0 in steps of N of 3*N
    """
    return with_cuts(len(shape), lambda cuts: _read(_TableReader(shape, cuts, n_in), n_in, address, valid))


def _read(reader: _TableReader, n_in: Size, address: Term, valid: Term) -> Listed | None:
    at = reader.read(address)
    claims: list[Claim] = []
    masks: list[tuple[tuple[int, ...], BoolArray]] = []
    for comparison in conjuncts(valid):
        claim = _claim(reader, comparison)
        if claim is None:
            axes, (truth, defined) = reader.values(comparison)
            if not bool(np.all(defined)):
                raise NoDigits
            if not bool(np.any(truth)):
                return all_padding(n_in, product(reader.sizes))
            if not bool(np.all(truth)):
                masks.append((axes, truth.astype(np.bool_).reshape(-1)))
        else:
            claims.append(claim)
    bounds = windows(reader, claims)
    pieces = [p for p in sorted(reader.pieces) if p[0] >= 0]
    place = {p: n for n, p in enumerate(pieces)}
    digits = [Digit(reader.pieces[p][0], at.parts.get(p, 0), *bounds.get(p, (0, reader.pieces[p][0]))) for p in pieces]
    rows: list[Rows] = []
    for n, (axes, values) in enumerate(reader.tables):
        unit = at.parts.get((-1 - n, 0), 0)
        if unit != 0:
            places = tuple(place[p] for p in pieces if p[0] in axes)
            rows.append(Rows(places, values, np.ones(len(values), dtype=np.bool_), unit))
    for axes, mask in masks:
        rows.append(Rows(tuple(place[p] for p in pieces if p[0] in axes), np.zeros(len(mask), np.int64), mask))
    apart = _apart(digits, rows)
    found = None if apart is None else tabled(n_in, *apart, at.constant)
    return found if found is not None and _inside(found) else None


def _claim(reader: _TableReader, comparison: Term) -> Claim | None:
    """What a comparison says of one piece, if it does."""
    try:
        claim = claim_of(reader, comparison)
        windows(reader, [claim])
    except NoDigits:
        return None
    return claim if all(p[0] >= 0 for p in claim.room.parts) else None


def _apart(digits: Sequence[Digit], rows: Sequence[Rows]) -> tuple[list[Digit], list[Rows]] | None:
    """Digits and rows of which each digit has one: rows that share digits are one, with what these add themselves."""
    sets = Sets(len(digits))
    for r in rows:
        for p in r.places:
            sets.join(r.places[0], p)
    done, joined = list(digits), list[Rows]()
    for group in sets.groups():
        own = [r for r in rows if r.places[0] in group]
        if not own:
            continue
        known = numbers([s for p in group for s in (digits[p].extent, digits[p].lo, digits[p].hi)])
        if known is None or math.prod(known[::3]) > MOST_ROWS:
            return None
        extents = known[::3]
        valid: BoolArray = np.ones(extents, dtype=np.bool_)
        added: list[tuple[Size, IntArray]] = []
        for n, p in enumerate(group):
            position = np.arange(extents[n], dtype=np.int64)
            window = (position >= known[3 * n + 1]) & (position < known[3 * n + 2])
            added.append((digits[p].stride, _over(position, (p,), group, extents)))
            valid = valid & _over(window, (p,), group, extents)
            done[p] = digit(extents[n], 0)
        for r in own:
            added.append((r.unit, _over_rows(r.values, r, group, extents)))
            valid = valid & _over_rows(r.valid, r, group, extents)
        found = summed(tuple(group), extents, [x for x in added if x[0] != 0], valid)
        if found is None:
            return None
        joined.append(found)
    return done, joined


def _over_rows(values: NDArray, r: Rows, group: Sequence[int], extents: Sequence[int]) -> NDArray:
    return values.reshape([e if p in r.places else 1 for p, e in zip(group, extents, strict=True)])


def _inside(m: Listed) -> bool:
    """Whether a map stays inside of its source, as far as there are numbers."""
    known = numbers([m.n_in, m.offset, *(part for d in m.digits for part in d)])
    if known is None or m.is_all_padding:
        return True
    low = high = known[1]
    for stride, lo, hi in zip(known[3::4], known[4::4], known[5::4], strict=True):
        low, high = low + min(stride * lo, stride * (hi - 1)), high + max(stride * lo, stride * (hi - 1))
    for x in getattr(m, "lookups", ()):
        high += int(x.table.array.max()) * x.unit if isinstance(x.unit, int) else 0
    return low >= 0 and high < known[0]
