"""An independent check of answers: both sides of a law, run on tensors of random words, cell by cell.

A tensor is a word for each of its cells, an element-wise function a mixture of the words of its operands, so two sides
agree where, and almost surely only where, they read the same cells in the same way.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.formulas import accesses
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import LayoutError
from eqsat.ir.flat.map import FlatMap, substitute
from eqsat.ir.flat.size_samples import symbol_sample
from eqsat.ir.flat.sizes import Size, number, size_of, value
from eqsat.ir.flat.table import Map, TableMap
from eqsat.ir.flat.tabled import with_numbers
from eqsat.ir.flat.term_map import TermMap
from eqsat.ir.law import OPERATORS, nodes
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import Table, load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, symbols
from eqsat.ir.terms.walk import substitute as substitute_terms
from eqsat.laws.match import Match
from eqsat.laws.tree import Class, Operated, Tree, Viewed
from eqsat.operators.interned import Hub, Interned, ViewOf
from eqsat.operators.labels import CanonicalOp, ComputeKind, Coordinate, Slot
from eqsat.operators.moves import applied, is_pointwise
from eqsat.operators.selections import owners_at
from eqsat.operators.stacks import is_selection

ALL_CELLS = 1 << 16
SAMPLES = 2048
CORNERS = 1 << 15
MOST_READS, FEWEST = 1 << 18, 16
"""Cells that operators with axes of their own are run on: so many reads, but no fewer cells of the result."""
SYMBOL_TRIALS = 3
MOST_KNOWN = 1 << 13
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Words:
    """Words of cells; which of them are fills, by their numbers (-1: none); and the tensor that each is a cell of, by
    its number (-1: of none, or of several)."""

    words: NDArray
    fills: NDArray
    tensors: NDArray


class Rows:
    """Of an operator, a word for each cell of its result and each index along axes of its own; for all of these in one
    row the positions on its labels, and the cells of its operands that are read (-1: outside)."""

    def __init__(self, words: NDArray, at: Mapping[int, NDArray], read: Sequence[NDArray]) -> None:
        """`at` and `read` may be of any shape that broadcasts to that of the words: the cells, then the axes."""
        self.shape, self._at, self._read = words.shape, at, read
        self.words: NDArray = words.reshape(words.shape[0], math.prod(words.shape[1:]))

    @property
    def at(self) -> dict[int, NDArray]:
        return {n: self._flat(x) for n, x in self._at.items()}

    @property
    def read(self) -> list[NDArray]:
        return [self._flat(x) for x in self._read]

    def _flat(self, x: NDArray) -> NDArray:
        return np.broadcast_to(x, self.shape).reshape(-1)


def same_cells(match: Match) -> bool:
    """Whether both sides of a law are the same at a match: at every cell of small boxes, at the corners of every digit
    and at random cells of large ones, for a few values of each symbol.

    Where a hypothesis is about the cells of tensors, cells of two of these, or of one and a fill, are not compared:
    what they hold was proved.
    """
    key = _compared(match)
    if key is None:
        return _same_cells(match)
    known = _known.get(key)
    if known is None:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        known = _known[key] = _same_cells(match)
    return known


_known: dict[object, bool] = {}
"""What was found, by all that it follows from: a program that is searched again asks much of the same."""


def _compared(match: Match) -> object | None:
    """All that both sides follow from; None where that is also what is known of tensors."""
    plan, u, numbers = match.plan, match.interned, match.numbers
    if plan.values:
        return None
    operators = tuple(u.operators[numbers[name]] for name in _operators(match))
    maps = tuple(u.reindexes[numbers[name]] for name in _maps(match))
    held = tuple((k, None if x is None else x.digest) for k, x in match.unvarying.items()) if operators else ()
    return plan.left, plan.right, operators, maps, held, numbers.get("o"), numbers.get("k")


def _same_cells(match: Match) -> bool:
    checked = False
    for numbers in trials(match):
        side = Sides(match, numbers)
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


def _terms(match: Match) -> Iterator[Tree]:
    """Both sides and all that is in them, outer terms first."""
    left = [match.plan.right, match.plan.left]
    while left:
        yield (tree := left.pop())
        below = (tree.source,) if isinstance(tree, Viewed) else tree.operands if isinstance(tree, Operated) else ()
        left += reversed(below)


def _maps(match: Match) -> Iterator[str]:
    return (tree.map for tree in _terms(match) if isinstance(tree, Viewed))


def _operators(match: Match) -> Iterator[str]:
    return (tree.operator for tree in _terms(match) if isinstance(tree, Operated))


def trials(match: Match) -> Iterator[dict[Term, int]]:
    """Values for the symbols: different ones in each trial, and for different symbols, if they may be."""
    maps = [match.interned.reindexes[match.numbers[name]].map for name in _maps(match)]
    sizes = [s for m in maps for s in _sizes(m) if not isinstance(s, int)]
    bodies: list[Term] = []
    if "s" in match.numbers:
        sizes += [x.extent for x in match.operator.labels if not isinstance(x.extent, int)]
        bodies += [match.operator.kind.body] if isinstance(match.operator.kind, ComputeKind) else []
    below = (s for k in range(len(match.plan.values)) for s in _symbols_of(match.interned, match.numbers[f"n{k}"]))
    found = symbols(*dict.fromkeys(f for s in sizes for f in s.factors), *bodies, *dict.fromkeys(below))
    for trial in range(SYMBOL_TRIALS if found else 1):
        yield {s: symbol_sample(s, 2 + (3 * trial + k) % 7) for k, s in enumerate(found)}


def _symbols_of(interned: Interned, number_of: int) -> Sequence[Term]:
    """The symbols of a value and of all that it is made of, which have smaller numbers."""
    for n in range(len(interned.symbols), number_of + 1):
        item, made_of = interned.values[n], tuple[int, ...]()
        sizes, terms = [interned.types[n].size], list[Term]()
        if isinstance(item, ViewOf):
            made_of = (item.base,)
            sizes += _sizes(interned.reindexes[item.reindex].map)
        elif isinstance(item, Hub):
            made_of, operator = item.operands, interned.operators[item.operator]
            sizes += [x.extent for x in operator.labels]
            if isinstance(operator.kind, ComputeKind):
                sizes += operator.kind.idle
                terms.append(operator.kind.body)
        terms += [f for s in sizes if not isinstance(s, int) for f in s.factors]
        more = (s for x in made_of for s in interned.symbols[x])
        interned.symbols.append(tuple(symbols(*terms, *more)))
    return interned.symbols[number_of]


def _sizes(m: Map) -> Iterator[Size]:
    yield m.n_in
    if isinstance(m, TermMap):
        yield m.n_out
        yield from (size_of(s) for s in symbols(m.address, m.valid))
        return
    yield m.offset
    for d in m.digits:
        yield from d
    yield from (x.unit for x in m.lookups) if isinstance(m, TableMap) else ()


def numeric(m: Map, numbers: Mapping[Term, int]) -> Map:
    """A map at values of its symbols. Errors: there is none (LayoutError)."""
    if isinstance(m, FlatMap):
        return substitute(m, numbers)
    if isinstance(m, TermMap):
        table = {s: t.index_const(n) for s, n in numbers.items()}
        formulas = (substitute_terms(x, table) for x in (m.address, m.valid))
        return TermMap(value(m.n_in, numbers), value(m.n_out, numbers), *formulas)
    return with_numbers(m, numbers)


def _mixed(*words: NDArray) -> NDArray:
    """One word of several, in order."""
    total: NDArray = np.zeros((), np.uint64)
    with np.errstate(over="ignore"):
        for w in words:
            total = np.asarray(total ^ w.astype(np.uint64, copy=False))
            total *= GOLDEN
            total ^= total >> np.uint64(29)
    return total


class Sides:
    """Both sides at values of the symbols."""

    def __init__(self, match: Match, numbers: Mapping[Term, int]) -> None:
        self.match, self.numbers = match, numbers
        self.fills: dict[Term, int] = {}
        self.known: dict[str, Map] = {}
        self.tensors: dict[str, int] = {}
        self.constants = {f"v{k}": held for k, held in match.unvarying.items()}

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
            m = self.match.interned.reindexes[self.match.numbers[name]].map
            found = self.known[name] = numeric(m, self.numbers) if self.numbers else m
        return found

    def cells(self) -> NDArray:
        """The cells of the result at which the sides are compared."""
        left = self.match.plan.left
        if isinstance(left, Viewed):
            size = number(self.map(left.map).n_out)
        else:
            operator = self.match.operator
            size = value(operator.size(operator.outputs[self.match.numbers["o"]]), self.numbers)
        few = MOST_READS // max(1, self.reads())
        if size <= min(ALL_CELLS, few):
            return np.arange(size, dtype=np.int64)
        picks = [np.random.default_rng(size).integers(0, size, SAMPLES)]
        for tree in (left, self.match.plan.right):
            while isinstance(tree, Viewed):
                m = self.map(tree.map)
                if isinstance(m, FlatMap) and m.n_out == size:
                    picks.append(_corners(m))
                tree = tree.source
        found = np.unique(np.concatenate(picks)).astype(np.int64)
        few = min(len(found), max(few, FEWEST))
        return found if few == len(found) else np.random.default_rng(few).choice(found, few, replace=False)

    def reads(self) -> int:
        """How many cells of an operand the operator reads for one of its result."""
        if "s" not in self.match.numbers or self.match.is_selection:
            return 1
        operator = self.match.operator
        return math.prod(len(places) for places in self.along(operator, self.match.numbers["o"]).values())

    def fill(self, term: Term) -> int:
        return self.fills.setdefault(term, len(self.fills))

    def run(self, tree: Tree, cells: NDArray) -> Words:
        """The words of a term at some cells, none of which is outside."""
        if isinstance(tree, Class):
            held = self.constants.get(tree.name)
            if held is not None:
                return self._padded(cells, held)
            name = self.tensors.setdefault(tree.name, len(self.tensors))
            none = np.full(cells.shape, -1)
            return Words(_mixed(np.asarray(name + 1, np.uint64), cells), none, np.full(cells.shape, name))
        if isinstance(tree, Viewed):
            return self.view(tree, cells)
        return self.operator(tree, cells)

    def view(self, tree: Viewed, cells: NDArray) -> Words:
        reindex, m = self.match.interned.reindexes[self.match.numbers[tree.map]], self.map(tree.map)
        if not m.n_in or not cells.size:
            return self._padded(cells, reindex.fill)
        if bool(np.any(cells >= number(m.n_out))):
            raise LayoutError("check of a law", "a view is read outside of its box")
        source = m.at(cells)
        inside = source >= 0
        if bool(np.all(inside)):
            return self.run(tree.source, source)
        below = self.run(tree.source, np.where(inside, source, 0))
        outside = self._padded(cells, reindex.fill)
        return _where(inside, below, outside)

    def _padded(self, cells: NDArray, fill: Term | None) -> Words:
        if fill is None:
            raise LayoutError("check of a law", "a padded cell has no value")
        none = np.full(cells.shape, -1)
        return Words(np.zeros(cells.shape, np.uint64), np.full(cells.shape, self.fill(fill)), none)

    def operator(self, tree: Operated, cells: NDArray) -> Words:
        operator = self.match.interned.operators[self.match.numbers[tree.operator]]
        if tree.kind == "select" or (self.match.cut is not None and is_selection(operator)):
            return self._selection(operator, tree, cells)  # of which a part is another formula
        if not is_pointwise(operator):
            return self._computed(operator, tree, cells)
        digits: dict[int, NDArray] = {}
        inner = 1
        for label in reversed(operator.outputs[0]):
            extent = value(operator.labels[label].extent, self.numbers)
            digits[label] = cells // inner % extent
            inner *= extent
        found: list[Words] = []
        for order, x in zip(operator.operands, tree.operands, strict=True):
            at: NDArray = np.zeros(cells.shape, np.int64)
            for label in order:
                at = at * value(operator.labels[label].extent, self.numbers) + digits[label]
            found.append(self.run(x, at))
        return self._mixture(operator, found)

    def _mixture(self, operator: CanonicalOp, found: list[Words]) -> Words:
        """The words of a function; of fills alone, it is the constant that it takes them to."""
        words = _mixed(*(np.where(w.fills >= 0, w.fills.astype(np.uint64) + GOLDEN, w.words) for w in found))
        fills = np.full(found[0].fills.shape, -1) if found else np.zeros((), np.int64)
        padded = np.logical_and.reduce([w.fills >= 0 for w in found])
        if bool(np.any(padded)):
            terms = list(self.fills)
            rows = np.stack([np.broadcast_to(w.fills, fills.shape)[padded] for w in found])
            picks: list[list[int]] = np.unique(rows, axis=1).T.tolist()
            for row in picks:
                made = applied(operator, [terms[k] for k in row])
                if made is not None:
                    mine = np.logical_and.reduce([w.fills == k for w, k in zip(found, row, strict=True)])
                    fills = np.where(mine, self.fill(made), fills)
        return Words(words, fills, np.full(np.shape(fills), -1))

    def _computed(self, operator: CanonicalOp, tree: Operated, cells: NDArray) -> Words:
        """The words of an operator with axes of its own: one for all cells that it reads for a cell, in any order of
        what it reduces."""
        words = self.rows(operator, tree, cells).words.sum(axis=-1, dtype=np.uint64)
        return Words(words.reshape(cells.shape), none := np.full(cells.shape, -1), none)

    def rows(self, operator: CanonicalOp, tree: Operated, cells: NDArray) -> Rows:
        """What an operator with axes of its own reads for each cell."""
        output = self.match.numbers["o"] if tree.output == "o" else int(tree.output)
        written, extents = operator.outputs[output], self.extents(operator)
        along = self.along(operator, output)
        shape = (cells.size, *(len(places) for places in reversed(along.values())))
        own = _positions(written, extents, cells.reshape(-1, *(1 for _ in along)))
        at = dict(own)
        apart: list[NDArray] = []
        for k, (n, places) in enumerate(along.items()):
            here = places.reshape(-1, *(1 for _ in range(k)))
            if n in own:
                apart.append(own[n] == here if operator.labels[n].role == "equivariant" else own[n])
            at[n] = here
        named = sorted(
            (str(x.name), n) for n, x in enumerate(operator.labels) if n in at and x.name and x.role == "fixed"
        )
        words = [*apart, *(at[n] for _, n in named)]
        read: list[NDArray] = []
        for k, x in enumerate(tree.operands):
            index, out = self.load(operator, k, at)
            size = math.prod(extents[n] for n in operator.operands[k])
            there, outside = self._looked_up(x, index, size), bool(np.any(out))
            words.append(np.where(out, np.uint64(0), there) if outside else there)
            read.append(np.where(out, -1, index) if outside else index)
        mixed = _mixed(np.asarray(hash(operator.kind) & 0xFFFF), *words)
        return Rows(np.broadcast_to(mixed, shape), at, read)

    def _looked_up(self, tree: Tree, index: NDArray, size: int) -> NDArray:
        """The words of a term of some size at some cells, 0 for a fill: of all its cells, where many of these are the
        same."""
        if 0 < 2 * size <= index.size:
            try:
                whole = self.run(tree, np.arange(size, dtype=np.int64))
            except LayoutError:
                pass  # cells that are not read may have no value
            else:
                return np.where(whole.fills >= 0, np.uint64(0), whole.words)[index]
        there = self.run(tree, index)
        return np.where(there.fills >= 0, np.uint64(0), there.words)

    def extents(self, operator: CanonicalOp) -> dict[int, int]:
        return {n: value(x.extent, self.numbers) for n, x in enumerate(operator.labels)}

    def along(self, operator: CanonicalOp, output: int) -> dict[int, NDArray]:
        """The axes along which a cell of a result reads several positions, with these.

        An operator without a formula may read all of each axis that it does not treat position by position; of those
        that stay as they are, a few positions will do.
        """
        written, extents = operator.outputs[output], self.extents(operator)
        found: dict[int, NDArray] = {}
        for n, x in enumerate(operator.labels):
            if isinstance(operator.kind, ComputeKind):
                if n not in written and not isinstance(x.name, Coordinate):
                    found[n] = np.arange(extents[n], dtype=np.int64)
            elif x.role != "map" or n not in written:
                few = sorted({0, extents[n] // 2, extents[n] - 1}) if x.role == "fixed" else range(extents[n])
                found[n] = np.asarray(list(few), np.int64)
        return found

    def load(self, operator: CanonicalOp, k: int, at: Mapping[int, NDArray]) -> tuple[NDArray, NDArray]:
        """The cells of an operand that are read at positions on the axes, and where those are outside of it."""
        kind = operator.kind
        load = next(x for x in accesses(kind.body) if x.payload == k) if isinstance(kind, ComputeKind) else None
        table = {s: t.index_const(n) for s, n in self.numbers.items()}
        slots = {x.name.number: n for n, x in enumerate(operator.labels) if isinstance(x.name, Slot)}
        flat: NDArray = np.zeros((), np.int64)
        out: NDArray = np.zeros((), np.bool_)
        for n in operator.operands[k]:
            label = operator.labels[n]
            here = at.get(n)
            if isinstance(label.name, Coordinate) and load is not None:
                index = substitute_terms(load.args[label.name.number], table)
                if any(not isinstance(x.payload, Table) for x in nodes_of("load", index)):
                    raise LayoutError("check of a law", "which cell is read depends on others")
                env = {axis: _along(axis, slots, at) for axis in nodes_of("axis", index)}
                here, bad = evaluate_masked([index], env, load_table)[0]
                out = out if bad is None else out | bad
                out = out | (here < 0) | (here >= (extent := value(label.extent, self.numbers)))
                here = np.clip(here, 0, max(extent - 1, 0))
            assert here is not None
            flat = flat * value(label.extent, self.numbers) + here
        return flat, out

    def _selection(self, operator: CanonicalOp, tree: Operated, cells: NDArray) -> Words:
        found = owners_at(operator, cells, self.numbers)
        if found is None:
            raise LayoutError("check of a law", "the selection reads outside of an operand")
        owner, address = found
        if tree.place:
            k = self.match.numbers[tree.place]
            there = self.run(tree.operands[0], np.where(owner == k, address, 0))
            none = np.full(cells.shape, -1)
            return _where(owner == k, there, Words(_mixed(np.asarray(0, np.uint64), owner, address), none, none))
        result: Words | None = None
        for k, x in enumerate(tree.operands):
            there = self.run(x, np.where(owner == k, address, 0))
            result = there if result is None else _where(owner == k, there, result)
        assert result is not None
        return result


def _along(axis: Term, slots: Mapping[int, int], at: Mapping[int, NDArray]) -> NDArray:
    """The positions on an axis; one of a single cell has no label."""
    label = slots.get(axis.payload[1])
    if label is not None:
        return at[label]
    if t.int_value(axis.args[0]) != 1:
        raise LayoutError("check of a law", f"{axis} is no axis of the operator")
    return np.zeros((), np.int64)


def _positions(order: Sequence[int], extents: Mapping[int, int], flat: NDArray) -> dict[int, NDArray]:
    """The position on each axis of flat indices over an order of axes."""
    found: dict[int, NDArray] = {}
    inner = 1
    for n in reversed(order):
        found[n] = flat // inner % max(extents[n], 1)
        inner *= extents[n]
    return found


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
