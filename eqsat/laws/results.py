"""An independent check of operators without a formula that leave something out: what they are defined as is run over
all of their operands and over the parts, at a few positions of every axis, and must have the same results."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from eqsat.ir.dtypes import NDArray, is_float
from eqsat.ir.errors import LayoutError
from eqsat.ir.flat.sizes import value
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.laws.cells import Sides, trials
from eqsat.laws.match import Match
from eqsat.laws.numbers import Numbers, padded_cells, same_bits
from eqsat.laws.places import Places
from eqsat.laws.tree import Operated, Tree, Viewed
from eqsat.operators.definitions import OUTPUT, Definition
from eqsat.operators.labels import CanonicalOp, Name
from eqsat.operators.within import labels_by_name

FEW = 2
"""So many positions of what is computed position by position, at least."""
MANY = 12
"""So many of what is reduced, beside the ends of what is kept."""
MOST_CELLS = 1 << 21
NEAR: Mapping[str, float] = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-4}


def same_results(match: Match, definition: Definition) -> bool:
    """Whether an operator without what a law leaves out has the results that it has with it. Where axes that stay as
    they are make that too many numbers, nothing is run: that the rest is neutral was proved."""
    return _in_trials(match, definition, _Parts)


def same_results_around(match: Match, definition: Definition) -> bool:
    """Whether an operator is the padding of a part that a law says it is: its definition is run at a few positions of
    every axis that it keeps. Where that is too many numbers, nothing is run: what is around the part was proved."""
    return _in_trials(match, definition, _Around)


class _Run:
    """A definition at values of the symbols."""

    def __init__(self, side: Sides, definition: Definition) -> None:
        self.side, self.definition, self.numbers = side, definition, Numbers(side, tame=True)
        self.before = side.match.operator
        self.places = Places(definition, side.numbers)

    def _result(self, operator: CanonicalOp, tree: Operated, at: Mapping[Name, NDArray]) -> NDArray:
        """What the definition computes of the operands at some positions."""
        feeds: dict[str, NDArray] = {}
        match = self.side.match
        values = {match.places[name]: match.numbers[f"n{k}"] for k, name in enumerate(match.plan.values)}
        for k, (order, x) in enumerate(zip(operator.operands, tree.operands, strict=True)):
            cells = self._below(x, self.places.cells(operator, order, k, at))
            dtype = self.definition.program.inputs[k].dtype
            held = self.numbers.at(values[k], cells) if k in values else self.numbers.drawn(-1 - k, cells, dtype)
            feeds[f"x{k}"] = np.broadcast_to(held, cells.shape).astype(dtype)
        return evaluate_outputs(self.definition.program, feeds)[OUTPUT]

    def _below(self, tree: Tree, cells: NDArray) -> NDArray:
        """The cells of the value that a term is a view of."""
        return self._below(tree.source, self.side.map(tree.map).at(cells)) if isinstance(tree, Viewed) else cells

    def agrees(self) -> bool:
        """Whether both sides of the law have the same results."""
        raise NotImplementedError


def _in_trials(match: Match, definition: Definition, sides: type[_Run]) -> bool:
    """Whether sides agree for a few values of each symbol; not, where operands have too many numbers to be known."""
    try:
        return all(sides(Sides(match, sizes), definition).agrees() for sizes in trials(match))
    except LayoutError:
        return False


class _Parts(_Run):
    """Both sides of a law that leaves something out."""

    def __init__(self, side: Sides, definition: Definition) -> None:
        super().__init__(side, definition)
        match = side.match
        left, right = match.plan.left, match.plan.right
        assert isinstance(left, Operated) and isinstance(right, Viewed) and isinstance(right.source, Operated)
        self.left, self.right, self.layout = left, right.source, side.map(right.map)
        self.after = match.interned.operators[match.numbers[right.source.operator]]

    def agrees(self) -> bool:
        whole, part = self._positions()
        if self.places.work(whole) > MOST_CELLS:
            return True
        cells = self.places.cells(self.before, self.before.outputs[0], -1, whole)
        if not np.array_equal(self.layout.at(cells), self.places.cells(self.after, self.after.outputs[0], -1, part)):
            return False
        with np.errstate(all="ignore"):
            one, other = self._result(self.before, self.left, whole), self._result(self.after, self.right, part)
        if not is_float(one.dtype.name):
            return bool(np.array_equal(one, other))
        near = NEAR.get(one.dtype.name, 1e-9)
        wide = np.float64
        return bool(np.allclose(one.astype(wide), other.astype(wide), rtol=near, atol=near, equal_nan=True))

    def _positions(self) -> tuple[dict[Name, NDArray], dict[Name, NDArray]]:
        """Positions of each bundle: in the operator, and the same ones, as far as they are kept, in that over parts."""
        found = self.side.match.left_out
        assert found is not None
        whole: dict[Name, NDArray] = {}
        part: dict[Name, NDArray] = {}
        held = labels_by_name(found.operator)
        for name, sizes in self.definition.sizes.items():
            labels = held.get(name, [])
            extents = [value(found.operator.labels[n].extent, self.side.numbers) for n in labels]
            size = math.prod(extents)
            stays: NDArray = np.ones((1,), np.bool_)
            for n, extent in zip(labels, extents, strict=True):
                low, high = found.kept.get(n, (0, extent))
                here = np.arange(extent)
                stays = (stays[:, None] & ((here >= low) & (here < high))[None, :]).reshape(-1)
            kept = np.flatnonzero(stays)
            if name in self.definition.reduced:
                ends = [*kept[:2], *kept[-2:], *np.flatnonzero(~stays)[:2]]
                picks = np.unique([*np.linspace(0, size - 1, min(size, MANY)).astype(np.int64), *ends])
            else:
                free = all(isinstance(d, Term) for d in sizes)
                picks = np.linspace(0, size - 1, min(size, FEW)).astype(np.int64) if free else np.arange(size)
            whole[name] = picks
            part[name] = np.searchsorted(kept, picks[stays[picks]])
        return whole, part


class _Around(_Run):
    """An operator around a part of its result."""

    def agrees(self) -> bool:
        match, found = self.side.match, self.side.match.settled
        assert isinstance(match.plan.left, Operated) and found is not None
        at = next(
            (x for x in map(self._positions, (MANY, 5)) if self.places.work(x) <= MOST_CELLS), self._positions(FEW)
        )
        cells = self.places.cells(self.before, self.before.outputs[0], -1, at)
        padded = padded_cells(self.side, cells.reshape(-1))
        if padded is None:
            return False
        if self.places.work(at) > MOST_CELLS:
            return True
        with np.errstate(all="ignore"):
            result = self._result(self.before, match.plan.left, at).reshape(-1)[padded]
        return same_bits(result, np.full(result.shape, t.const_value(found.value), found.value.dtype))

    def _positions(self, most: int) -> dict[Name, NDArray]:
        """Positions of each bundle: all of what is reduced, and the ends and some others of what is kept."""
        held, found = labels_by_name(self.before), dict[Name, NDArray]()
        for name, sizes in self.definition.sizes.items():
            size = math.prod(value(self.before.labels[n].extent, self.side.numbers) for n in held.get(name, []))
            few = all(isinstance(d, Term) for d in sizes) and name not in self.definition.reduced
            picks = np.linspace(0, size - 1, min(size, most)) if few else np.arange(size)
            found[name] = np.unique(picks.astype(np.int64))
        return found
