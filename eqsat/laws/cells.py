"""An independent check of answers: both sides of a law, run on tensors of random words, cell by cell.

A tensor is a word for each of its cells, an element-wise function a mixture of the words of its operands, so two sides
agree where, and almost surely only where, they read the same cells in the same way.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import LayoutError
from eqsat.ir.flat.map import FlatMap, substitute
from eqsat.ir.flat.size_samples import symbol_sample
from eqsat.ir.flat.sizes import Size, number, value
from eqsat.ir.flat.table import Map, from_array, widened
from eqsat.ir.law import OPERATORS, nodes
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import symbols
from eqsat.laws.match import Match
from eqsat.laws.tree import Class, Operated, Tree, Viewed
from eqsat.operators.labels import Signed
from eqsat.operators.moves import applied
from eqsat.operators.selections import owners

ALL_CELLS = 1 << 16
SAMPLES = 2048
CORNERS = 1 << 15
SYMBOL_TRIALS = 3
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Words:
    """Words of cells; which of them are fills, by their numbers (-1: none); and the tensor that each is a cell of, by
    its number (-1: of none, or of several)."""

    words: NDArray
    fills: NDArray
    tensors: NDArray


def same_cells(match: Match) -> bool:
    """Whether both sides of a law are the same at a match: at every cell of small boxes, at the corners of every digit
    and at random cells of large ones, for a few values of each symbol.

    Where a hypothesis is about the cells of tensors, cells of two of these, or of one and a fill, are not compared:
    what they hold was proved.
    """
    views = [match.universe.reindexes[match.numbers[name]].map for name in _maps(match)]
    checked = False
    for numbers in _trials(views, match):
        side = _Run(match, numbers)
        try:
            cells = side.cells()
            left = side.run(match.plan.left, cells)
        except LayoutError:
            continue  # there are no such tensors at these sizes
        try:
            right = side.run(match.plan.right, cells)
        except LayoutError:
            return False
        filled = left.fills >= 0
        agree: NDArray = (right.fills < 0) & (left.words == right.words)
        agree[filled] = (left.fills == right.fills)[filled]
        if match.plan.values:
            agree |= side.stated(left) & side.stated(right) & (left.tensors != right.tensors)
        if not bool(np.all(agree)):
            return False
        checked = True
    return checked


def _maps(match: Match) -> Iterator[str]:
    def of(tree: Tree) -> Iterator[str]:
        if isinstance(tree, Viewed):
            yield tree.map
            yield from of(tree.source)
        elif isinstance(tree, Operated):
            for x in tree.operands:
                yield from of(x)

    yield from of(match.plan.left)
    yield from of(match.plan.right)


def _trials(maps: list[Map], match: Match) -> Iterator[dict[Term, int]]:
    """Values for the symbols: different ones in each trial, and for different symbols, if they may be."""
    sizes = [s for m in maps for s in _sizes(m) if not isinstance(s, int)]
    if "s" in match.numbers:
        sizes += [x.extent for x in match.signed.labels if not isinstance(x.extent, int)]
    found = symbols(*dict.fromkeys(f for s in sizes for f in s.factors))
    for trial in range(SYMBOL_TRIALS if found else 1):
        yield {s: symbol_sample(s, 2 + (3 * trial + k) % 7) for k, s in enumerate(found)}


def _sizes(m: Map) -> Iterator[Size]:
    yield m.n_in
    if isinstance(m, FlatMap):
        yield m.offset
        for d in m.digits:
            yield from d
    else:
        yield from (m.outer, m.inner)


def numeric(m: Map, numbers: Mapping[Term, int]) -> Map:
    """A map at values of its symbols. Errors: there is none (LayoutError)."""
    if isinstance(m, FlatMap):
        return substitute(m, numbers)
    return widened(value(m.outer, numbers), from_array(m.table.array, m.table_in), value(m.inner, numbers))


def _mixed(*words: NDArray) -> NDArray:
    """One word of several, in order."""
    total = np.zeros((), np.uint64)
    with np.errstate(over="ignore"):
        for w in words:
            total = (total ^ w.astype(np.uint64)) * GOLDEN
            total = total ^ (total >> np.uint64(29))
    return total


class _Run:
    """Both sides at values of the symbols."""

    def __init__(self, match: Match, numbers: Mapping[Term, int]) -> None:
        self.match, self.numbers = match, numbers
        self.fills: dict[Term, int] = {}
        self.known: dict[str, Map] = {}
        self.tensors: dict[str, int] = {}

    def stated(self, words: Words) -> NDArray:
        """The cells that are fills, or cells of tensors (-1: of the operator) that a hypothesis is about."""
        plan = self.match.plan
        about = [self.tensors.get(plan.classes[name], -2) for name in plan.values]
        stated = [e for h in plan.law.hypotheses for e in nodes(h) if e.op == "same_value"]
        about += [-1] if any(e.op in OPERATORS for h in stated for e in nodes(h)) else []
        return (words.fills >= 0) | np.isin(words.tensors, about)

    def map(self, name: str) -> Map:
        found = self.known.get(name)
        if found is None:
            m = self.match.universe.reindexes[self.match.numbers[name]].map
            found = self.known[name] = numeric(m, self.numbers) if self.numbers else m
        return found

    def cells(self) -> NDArray:
        """The cells of the result at which the sides are compared."""
        left = self.match.plan.left
        if isinstance(left, Viewed):
            size = number(self.map(left.map).n_out)
        else:
            signed = self.match.signed
            size = value(signed.size(signed.outputs[self.match.numbers["o"]]), self.numbers)
        if size <= ALL_CELLS:
            return np.arange(size, dtype=np.int64)
        picks = [np.random.default_rng(size).integers(0, size, SAMPLES)]
        for tree in (left, self.match.plan.right):
            while isinstance(tree, Viewed):
                m = self.map(tree.map)
                if isinstance(m, FlatMap) and m.n_out == size:
                    picks.append(_corners(m))
                tree = tree.source
        return np.unique(np.concatenate(picks)).astype(np.int64)

    def fill(self, term: Term) -> int:
        return self.fills.setdefault(term, len(self.fills))

    def run(self, tree: Tree, cells: NDArray) -> Words:
        """The words of a term at some cells, none of which is outside."""
        if isinstance(tree, Class):
            name = self.tensors.setdefault(tree.name, len(self.tensors))
            none = np.full(cells.shape, -1)
            return Words(_mixed(np.asarray(name + 1, np.uint64), cells), none, np.full(cells.shape, name))
        if isinstance(tree, Viewed):
            return self.view(tree, cells)
        return self.operator(tree, cells)

    def view(self, tree: Viewed, cells: NDArray) -> Words:
        reindex, m = self.match.universe.reindexes[self.match.numbers[tree.map]], self.map(tree.map)
        if not m.n_in or not cells.size:
            return self._padded(cells, reindex.fill)
        if bool(np.any(cells >= number(m.n_out))):
            raise LayoutError("check of a law", "a view is read outside of its box")
        source = m.at(cells)
        inside = source >= 0
        below = self.run(tree.source, np.where(inside, source, 0))
        if bool(np.all(inside)):
            return below
        outside = self._padded(cells, reindex.fill)
        return _where(inside, below, outside)

    def _padded(self, cells: NDArray, fill: Term | None) -> Words:
        if fill is None:
            raise LayoutError("check of a law", "a padded cell has no value")
        none = np.full(cells.shape, -1)
        return Words(np.zeros(cells.shape, np.uint64), np.full(cells.shape, self.fill(fill)), none)

    def operator(self, tree: Operated, cells: NDArray) -> Words:
        signed = self.match.universe.signed[self.match.numbers[tree.operator]]
        if tree.kind == "select":
            return self._selection(signed, tree, cells)
        digits: dict[int, NDArray] = {}
        inner = 1
        for label in reversed(signed.outputs[0]):
            extent = value(signed.labels[label].extent, self.numbers)
            digits[label] = cells // inner % extent
            inner *= extent
        found: list[Words] = []
        for order, x in zip(signed.operands, tree.operands, strict=True):
            at: NDArray = np.zeros(cells.shape, np.int64)
            for label in order:
                at = at * value(signed.labels[label].extent, self.numbers) + digits[label]
            found.append(self.run(x, at))
        return self._mixture(signed, found)

    def _mixture(self, signed: Signed, found: list[Words]) -> Words:
        """The words of a function; of fills alone, it is the constant that it takes them to."""
        words = _mixed(*(np.where(w.fills >= 0, w.fills.astype(np.uint64) + GOLDEN, w.words) for w in found))
        fills = np.full(found[0].fills.shape, -1) if found else np.zeros((), np.int64)
        padded = np.logical_and.reduce([w.fills >= 0 for w in found])
        if bool(np.any(padded)):
            terms = list(self.fills)
            rows = np.stack([np.broadcast_to(w.fills, fills.shape)[padded] for w in found])
            picks: list[list[int]] = np.unique(rows, axis=1).T.tolist()
            for row in picks:
                made = applied(signed, [terms[k] for k in row])
                if made is not None:
                    mine = np.logical_and.reduce([w.fills == k for w, k in zip(found, row, strict=True)])
                    fills = np.where(mine, self.fill(made), fills)
        return Words(words, fills, np.full(np.shape(fills), -1))

    def _selection(self, signed: Signed, tree: Operated, cells: NDArray) -> Words:
        tables = owners(signed)
        if tables is None:
            raise LayoutError("check of a law", "the selection has no table of its size")
        owner, address = tables[0][cells], tables[1][cells]
        if tree.place:
            k = self.match.numbers[tree.place]
            there = self.run(tree.operands[0], np.where(owner == k, address, 0))
            none = np.full(cells.shape, -1)
            return _where(owner == k, there, Words(_mixed(np.asarray(0, np.uint64), owner, address), none, none))
        result: Words | None = None
        for k, x in enumerate(tree.operands):
            found = self.run(x, np.where(owner == k, address, 0))
            result = found if result is None else _where(owner == k, found, result)
        assert result is not None
        return result


def _where(condition: NDArray, yes: Words, no: Words) -> Words:
    return Words(
        np.where(condition, yes.words, no.words),
        np.where(condition, yes.fills, no.fills),
        np.where(condition, yes.tensors, no.tensors),
    )


def _corners(m: FlatMap) -> NDArray:
    values: list[list[int]] = []
    weight = 1
    for d in reversed(m.digits):
        extent, lo, hi = number(d.extent), number(d.lo), number(d.hi)
        picks = sorted({p for p in (0, lo - 1, lo, hi - 1, hi, extent - 1) if 0 <= p < extent})
        values.append([p * weight for p in picks])
        weight *= extent
    total = list(itertools.islice(itertools.product(*values), CORNERS))
    return np.array([sum(p) for p in total], dtype=np.int64)
