"""An independent check of reductions that leave something out: what is left out is run on hostile numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from eqsat.ir.dtypes import BOOL, NDArray, highest, is_float, lowest
from eqsat.ir.errors import LayoutError
from eqsat.ir.flat.sizes import number, value
from eqsat.ir.tensors.run import evaluate_outputs, reduction
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import Table, load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, symbols
from eqsat.laws.cells import Sides, numeric, trials
from eqsat.laws.match import Match
from eqsat.laws.neutral import padded_shapes
from eqsat.laws.places import Places
from eqsat.laws.tree import Operated, Viewed
from eqsat.operators.definitions import OUTPUT, Definition
from eqsat.operators.interned import Hub, Interned, ViewOf
from eqsat.operators.labels import CanonicalOp, ComputeKind, Coordinate, Name, Slot
from eqsat.operators.within import labels_by_name, labels_of

MOST_ROWS = 1 << 16
MOST_COMBINED = 1 << 23
"""So many numbers, of which results below an operator are combined, for one check."""
EACH, MOST_DEEP = 1 << 10, 16
"""What a result below costs beside its numbers, and so many of them stand one below another."""
COMBINE: Mapping[str, Any] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def _in_trials(match: Match, same: Callable[[Sides, NDArray], bool]) -> bool:
    """Whether a check holds at some cells, for a few values of each symbol, and there are some."""
    checked = False
    for sizes in trials(match):
        side = Sides(match, sizes)
        try:
            cells = side.cells()
            if not cells.size:
                continue
            if not same(side, cells):
                return False
        except LayoutError:
            return False
        checked = True
    return checked


def _some(side: Sides, cells: NDArray) -> NDArray:
    """As many of some cells as can be combined, one at least."""
    return cells[:: max(1, cells.size * side.reads() * _below(side.match, side) // MOST_ROWS)]


def _below(match: Match, side: Sides) -> int:
    """Of how many numbers a cell of an operand is combined, by the operators below it."""
    interned = match.interned

    @cache
    def below(number_of: int, depth: int) -> int:
        item = interned.values[number_of]
        if isinstance(item, ViewOf):
            return below(item.base, depth)
        if not isinstance(item, Hub) or depth == MOST_DEEP or not _may_be_known(interned, item):
            return 1
        operator = interned.operators[item.operator]
        along = [n for n in labels_of(operator) if n not in operator.outputs[item.output]]
        own = math.prod(max(1, value(operator.labels[n].extent, side.numbers)) for n in along)
        return own * max((below(x, depth + 1) for x in item.operands), default=1)

    return max((below(match.numbers[f"n{k}"], 0) for k in range(len(match.plan.values))), default=1)


def _may_be_known(interned: Interned, item: Hub) -> bool:
    """Whether the numbers of a result say more than any numbers: it is computed one by one, or combined of padding."""
    kind = interned.operators[item.operator].kind
    if isinstance(kind, ComputeKind) and kind.combiner is None:
        return True
    return any(True for x in item.operands for _ in padded_shapes(interned, x))


def same_terms(match: Match) -> bool:
    """Whether the right side of a law combines terms of the left side, each once, and all others change nothing that is
    combined: at some cells, for a few values of each symbol, on numbers that hold NaN, infinities and zeros of both
    signs."""
    return _in_trials(match, _same_terms)


def _same_terms(side: Sides, cells: NDArray) -> bool:
    match, left, right = side.match, side.match.plan.left, side.match.plan.right
    assert isinstance(left, Operated) and isinstance(right, Viewed) and isinstance(right.source, Operated)
    cells = _some(side, cells)
    before = side.rows(match.operator, left, cells)
    after = match.interned.operators[match.numbers[right.source.operator]]
    kept = side.rows(after, right.source, side.map(right.map).at(cells)).words
    stays: NDArray = np.stack([np.isin(row, mine) for row, mine in zip(before.words, kept, strict=True)])
    if any(len(np.unique(mine)) != mine.size or row.sum() != mine.size for row, mine in zip(stays, kept, strict=True)):
        return False
    kind = match.operator.kind
    assert isinstance(kind, ComputeKind) and kind.combiner is not None
    values = Numbers(side).body(match.operator, match.numbers, before.at, before.read)
    table = np.broadcast_to(values, (before.words.size,)).reshape(before.words.shape)
    for row, stay in zip(table, stays, strict=True):
        if stay.all():
            continue
        if not stay.any():
            return False
        # What a sum begins with is 0, and of two zeros a maximum takes either: the sign of a zero says nothing.
        rest = row[stay]
        with np.errstate(all="ignore"):
            both = COMBINE[kind.combiner](rest[:, None], np.unique(row[~stay])[None, :])
        if not np.array_equal(both, np.broadcast_to(rest[:, None], both.shape), equal_nan=is_float(kind.dtypes[0])):
            return False
    return True


def same_around(match: Match) -> bool:
    """Whether an operator is the padding of a part that a law says it is: around that part, what it combines makes the
    value of the padding, bit by bit, on hostile numbers; in the part the padding shows each cell in its place."""
    return _in_trials(match, _same_around)


def _same_around(side: Sides, cells: NDArray) -> bool:
    match, left, found = side.match, side.match.plan.left, side.match.settled
    padded = padded_cells(side, cells)
    assert isinstance(left, Operated) and found is not None
    if padded is None or not padded.any():
        return False
    rows = side.rows(match.operator, left, _some(side, cells[padded]))
    values = Numbers(side).body(match.operator, match.numbers, rows.at, rows.read)
    table = np.broadcast_to(values, (rows.words.size,)).reshape(rows.words.shape)
    result = combined(match.operator, table, side.numbers)
    return same_bits(result, np.full(result.shape, t.const_value(found.value), match.operator.kind.dtypes[0]))


def padded_cells(side: Sides, cells: NDArray) -> NDArray | None:
    """Which cells the right side of a law pads, where it shows each other one in its place; None where it does not."""
    tree = side.match.plan.right
    at, padded = cells, np.zeros(cells.shape, np.bool_)
    while isinstance(tree, Viewed):
        at = side.map(tree.map).at(np.maximum(at, 0))
        padded |= at < 0
        tree = tree.source
    return padded if isinstance(tree, Operated) and np.array_equal(at[~padded], cells[~padded]) else None


def same_bits(a: NDArray, b: NDArray) -> bool:
    """Whether arrays hold the same, the sign of a zero too; any NaN is like any other."""
    if a.dtype != b.dtype or not is_float(a.dtype.name):
        return a.dtype == b.dtype and bool(np.array_equal(a, b))
    with np.errstate(all="ignore"):
        return bool(np.all(((a == b) & (np.signbit(a) == np.signbit(b))) | ((a != a) & (b != b))))


class Numbers:
    """The cells of values, as numbers: those at the ends of each type among them, unless they are to be `tame`.

    Results of which nothing can be known are any numbers: those that lie too deep, and those that combine what has no
    padding.
    """

    def __init__(self, side: Sides, tame: bool = False) -> None:
        self.side, self.interned, self.tame = side, side.match.interned, tame
        self.left, self.depth = MOST_COMBINED, 0
        self._found: dict[tuple[int, bytes], NDArray] = {}

    def body(
        self, operator: CanonicalOp, numbers: Mapping[str, int], at: Mapping[int, NDArray], read: Sequence[NDArray]
    ) -> NDArray:
        """What a reduction combines."""
        names = self.side.match.plan.values
        values = {self.side.match.places[name]: numbers[f"n{k}"] for k, name in enumerate(names)}
        return self.formula(operator, values, at, read)

    def formula(
        self,
        operator: CanonicalOp,
        values: Mapping[int, int],
        at: Mapping[int, NDArray],
        read: Sequence[NDArray],
    ) -> NDArray:
        """A formula over cells of values."""
        assert isinstance(operator.kind, ComputeKind)
        body = operator.kind.body
        slots = {x.name.number: at[n] for n, x in enumerate(operator.labels) if isinstance(x.name, Slot) and n in at}
        none = np.zeros((), np.int64)
        env = {axis: slots.get(axis.payload[1], none) for axis in nodes_of("axis", body)}
        env |= {s: np.asarray(n) for s, n in self.side.numbers.items()}
        if unknown := [s for s in symbols(body) if s not in env]:
            raise LayoutError(f"check of {body}", f"{unknown[0]} has no value")

        def load(source: object, index: Sequence[NDArray]) -> tuple[NDArray, NDArray | None]:
            if isinstance(source, Table):
                return load_table(source, index)
            assert isinstance(source, int)
            flat = read[source]
            cells = np.maximum(flat, 0)
            known = (
                self.at(values[source], cells) if source in values else self.drawn(-1 - source, cells, dtypes[source])
            )
            return known, flat < 0

        dtypes = {x.payload: x.dtype for x in nodes_of("load", body)}
        found, bad = evaluate_masked([body], env, load)[0]
        if bad is not None and bool(np.any(bad)):
            raise LayoutError("check of a law", "a term is not defined")
        return found

    def at(self, number_of: int, cells: NDArray) -> NDArray:
        """Some cells of a value."""
        interned, known = self.interned, self.interned.constants.get(number_of)
        dtype = interned.types[number_of].dtype
        if known is not None:
            return np.full(cells.shape, t.const_value(known), dtype)
        item = interned.values[number_of]
        if isinstance(item, ViewOf):
            view = interned.reindexes[item.reindex]
            m = numeric(view.map, self.side.numbers) if self.side.numbers else view.map
            source = m.at(cells) if number(m.n_in) else np.full(cells.shape, -1)
            inner = self.at(item.base, np.maximum(source, 0))
            return inner if view.fill is None else np.where(source >= 0, inner, _constant(view.fill))
        found = self._result(number_of, item, cells) if isinstance(item, Hub) and self.depth < MOST_DEEP else None
        return self.drawn(number_of, cells, dtype, number_of in interned.finite) if found is None else found

    def _result(self, number_of: int, item: Hub, cells: NDArray) -> NDArray | None:
        """Some cells of a result, once for all that read them; None where nothing is known of it."""
        key = number_of, cells.tobytes()
        if key in self._found:
            return self._found[key].reshape(cells.shape)
        if not _may_be_known(self.interned, item):
            return None
        operator, definition = self.interned.operators[item.operator], self.interned.definitions.get(item.operator)
        self.depth += 1
        if isinstance(operator.kind, ComputeKind) and _has_labels(operator):
            found = self._computed(operator, item, cells)
        elif definition is not None:
            found = self._defined(operator, definition, item, cells)
        else:
            found = None
        self.depth -= 1
        if found is not None:
            self._found[key] = found
        return found

    def drawn(self, seed: int, cells: NDArray, dtype: str, finite: bool = False) -> NDArray:
        """Numbers of a type for some cells, with all that arithmetic treats in a way of its own; or finite ones."""
        if dtype == BOOL:
            chosen: list[Any] = [False, True]
        else:
            chosen = [0, 1, 3, 7]
            chosen += [] if self.tame or (finite and is_float(dtype)) else [lowest(dtype), highest(dtype)]
            chosen += [-0.0, -1.5] if is_float(dtype) else []
            chosen += [float("nan")] if is_float(dtype) and not finite and not self.tame else []
        with np.errstate(over="ignore"):
            mixed = (cells.astype(np.uint64) + np.uint64(1 + seed % 997)) * np.uint64(0x9E3779B97F4A7C15)
        return np.asarray(chosen, dtype)[(mixed >> np.uint64(33)).astype(np.int64) % len(chosen)]

    def _computed(self, operator: CanonicalOp, item: Hub, cells: NDArray) -> NDArray:
        """Cells that a formula computes, or combines of what it computes."""
        kind, extents = operator.kind, {n: value(x.extent, self.side.numbers) for n, x in enumerate(operator.labels)}
        assert isinstance(kind, ComputeKind)
        along = [n for n in labels_of(operator) if n not in operator.outputs[0] and _is_axis(operator, n)]
        own, back = np.unique(cells, return_inverse=True)
        shape = own.size, math.prod(extents[n] for n in along)
        self._spend(math.prod(shape))
        at: dict[int, NDArray] = {}
        for order, place in ((operator.outputs[0], own[:, None]), (along, np.arange(shape[1])[None, :])):
            left = place
            for n in reversed(order):
                at[n], left = np.broadcast_to(left % max(extents[n], 1), shape).reshape(-1), left // max(extents[n], 1)
        read: list[NDArray] = []
        for k in range(len(operator.operands)):
            index, out = self.side.load(operator, k, at)
            read.append(np.broadcast_to(np.where(out, -1, index), math.prod(shape)))
        found = np.broadcast_to(self.formula(operator, dict(enumerate(item.operands)), at, read), math.prod(shape))
        return combined(operator, found.reshape(shape), self.side.numbers)[back].reshape(cells.shape)

    def _defined(self, operator: CanonicalOp, definition: Definition, item: Hub, cells: NDArray) -> NDArray:
        """Cells that an operator without a formula computes, by its definition: at all positions of what is combined,
        and those that are asked for of all else."""
        places, held = Places(definition, self.side.numbers), labels_by_name(operator)
        own, back = np.unique(cells, return_inverse=True)
        digits: dict[int, NDArray] = {}
        left = own
        for n in reversed(operator.outputs[0]):
            extent = value(operator.labels[n].extent, self.side.numbers)
            digits[n], left = left % max(extent, 1), left // max(extent, 1)
        at: dict[Name, NDArray] = {}
        for name, sizes in definition.sizes.items():
            labels = held.get(name, [])
            extents = [value(operator.labels[n].extent, self.side.numbers) for n in labels]
            at[name] = np.arange(math.prod(extents))
            one_by_one = all(isinstance(d, Term) for d in sizes) and name not in definition.reduced
            if one_by_one and labels and all(n in digits for n in labels):
                place = np.zeros(own.shape, np.int64)
                for n, extent in zip(labels, extents, strict=True):
                    place = place * extent + digits[n]
                at[name] = np.unique(place)
        self._spend(places.work(at))
        feeds: dict[str, NDArray] = {}
        for k, order in enumerate(operator.operands):
            read = places.cells(operator, order, k, at)
            feeds[f"x{k}"] = self.at(item.operands[k], read).astype(definition.program.inputs[k].dtype)
        with np.errstate(all="ignore"):
            found = evaluate_outputs(definition.program, feeds)[OUTPUT].reshape(-1)
        made = places.cells(operator, operator.outputs[0], -1, at).reshape(-1)
        order = np.argsort(made)
        return found[order[np.searchsorted(made[order], own)]][back].reshape(cells.shape)

    def _spend(self, count: int) -> None:
        self.left -= count + EACH
        if self.left < 0:
            raise LayoutError("check of a law", "results are combined of too many numbers")


def _has_labels(operator: CanonicalOp) -> bool:
    """Whether all axes that a formula computes with are labels, so that each has positions."""
    assert isinstance(operator.kind, ComputeKind)
    slots = {x.name.number for x in operator.labels if isinstance(x.name, Slot)}
    return all(axis.payload[1] in slots for axis in nodes_of("axis", operator.kind.body))


def _is_axis(operator: CanonicalOp, n: int) -> bool:
    """Whether a label is an axis of its own, not a place that a formula computes."""
    return not isinstance(operator.labels[n].name, Coordinate)


def combined(operator: CanonicalOp, table: NDArray, numbers: Mapping[Term, int]) -> NDArray:
    """What an operator combines rows of numbers to, each as often as the operator does."""
    kind = operator.kind
    assert isinstance(kind, ComputeKind)
    times = math.prod(value(x, numbers) for x in kind.idle)
    table = np.broadcast_to(table[..., None], (*table.shape, times))
    return table[:, 0, 0] if kind.combiner is None else reduction(table, kind.combiner, 1, kind.dtypes[0])


def _constant(fill: Term) -> NDArray:
    return np.asarray(t.const_value(fill), fill.dtype)
