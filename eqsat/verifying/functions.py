"""Functions over buffers unfolded cell by cell: their statements run in order, on numbers that stand for values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

import numpy as np

from eqsat.ir import clock
from eqsat.ir.dtypes import BOOL, INDEX, NDArray, is_float
from eqsat.ir.points import grid
from eqsat.ir.statements.called import Called
from eqsat.ir.statements.sizes import numbers
from eqsat.ir.statements.ssa import to_ssa
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, For, If, Seq, Stmt, Store
from eqsat.ir.tensors.run import neutral
from eqsat.ir.tensors.tensor import Opaque
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import Mask, evaluate_masked
from eqsat.ir.terms.tables import Table, load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder
from eqsat.passes.accumulated import COMBINERS, combined_with_cell

MOST_STEPS = 1 << 17
"""Operations on data in a function that is followed."""
NOTHING = 0
"""The number of a cell that was not written, or that is not there."""
Place = tuple[str, int]
"""A buffer that owns its memory, and an element of it."""


class NotFollowed(Exception):
    """A function that does what is not followed here, or too much of it."""


class Constants(Protocol):
    """Numbers of constants, and what they stand for."""

    constants: dict[int, Any]

    def literal(self, array: NDArray) -> NDArray:
        """The numbers of constants."""
        ...


class Values(Protocol):
    """What gives numbers to values (`cells.Unfolding`)."""

    @property
    def values(self) -> Constants:
        """The numbers that there are."""
        ...

    def literal(self, value: NDArray, bad: Mask, dtype: str) -> NDArray:
        """The numbers of constants that are undefined at some places."""
        ...

    def number(self, x: Term, row: tuple[int, ...]) -> int:
        """The number of an operation on values."""
        ...

    def combined(self, row: NDArray, combiner: str, dtype: str, ordered: bool) -> int:
        """The number of values that are combined."""
        ...


@dataclass
class _Sum:
    """What loops have combined into a cell so far, in no order. at: the store, and the loops whose order is fixed."""

    at: tuple[int, ...]
    combiner: str
    dtype: str
    items: list[int]


@dataclass
class _Formula:
    """Terms at all positions of the loops around: `known` numbers of parts without data, `places` of loads, and the
    operations on data in their order."""

    roots: Sequence[Term]
    known: dict[int, NDArray]
    places: dict[int, NDArray]
    order: list[Term]


@dataclass
class _Run:
    """One run of a function: the numbers in its memory, and the positions of the loops around a statement."""

    unfolding: Values
    memory: dict[str, list[int]] = field(default_factory=dict[str, "list[int]"])
    shown: dict[str, tuple[str, BufferDecl]] = field(default_factory=dict[str, "tuple[str, BufferDecl]"])
    starts: dict[str, int] = field(default_factory=dict[str, int])
    sums: dict[Place, _Sum] = field(default_factory=dict[Place, "_Sum"])
    loops: list[For] = field(default_factory=list["For"])
    at: list[int] = field(default_factory=list[int])
    changed: list[dict[Place, int]] = field(default_factory=list["dict[Place, int]"])
    """What cells held before the branches around, which data choose."""
    formulas: dict[tuple[int, int], _Formula] = field(default_factory=dict["tuple[int, int]", "_Formula"])
    done: dict[tuple[int, ...], int] = field(default_factory=dict["tuple[int, ...]", int])
    steps: int = 0

    def declare(self, decl: BufferDecl, root: str = "", start: int = 0) -> None:
        """A buffer over its own memory, or over that of another."""
        if not decl.is_dense or decl.lanes > 1:
            raise NotFollowed
        self.shown[decl.name] = (root or decl.name, decl)
        self.starts[decl.name] = start

    def run(self, stmt: Stmt) -> None:
        """The effect of a statement."""
        if isinstance(stmt, Seq):
            for part in stmt.parts:
                self.run(part)
        elif isinstance(stmt, For):
            self.loops.append(stmt)
            for position in range(stmt.extent):
                self.at.append(position)
                self.run(stmt.body)
                self.at.pop()
            self.loops.pop()
        elif isinstance(stmt, Alloc):
            self.declare(stmt.buffer)
            self.memory[stmt.buffer.name] = [NOTHING] * stmt.buffer.size
            self.sums = {p: s for p, s in self.sums.items() if p[0] != stmt.buffer.name}
            self.run(stmt.body)
        elif isinstance(stmt, Alias):
            root, of = self.shown[stmt.data]
            if of.dtype != stmt.buffer.dtype:
                raise NotFollowed
            self.declare(stmt.buffer, root, self.starts[stmt.data] + stmt.offset)
            self.run(stmt.body)
        elif isinstance(stmt, Store | If):
            self.choose_or_store(stmt)
        elif self.truth(self.values(stmt, [stmt.condition])[0][0]) is not True:
            raise NotFollowed  # what a function assumes, it needs not do elsewhere

    def choose_or_store(self, stmt: Store | If) -> None:
        """A store, a step of a combination, or a branch."""
        found = None if self.changed else combined_with_cell(stmt)
        if found is not None:
            store, combiner, rest, guard = found
            fixed = [p for loop, p in zip(self.loops, self.at, strict=True) if not loop.reduce]
            if not is_float(store.value.dtype) or len(fixed) < len(self.at):
                term = rest if guard is t.TRUE else t.where(guard, rest, _neutral(combiner, rest.dtype))
                (value,), places = self.values(stmt, [term], store)
                at = (id(store), *(fixed if is_float(store.value.dtype) else ()))
                self.combine(self.place(store, places), value, _Sum(at, COMBINERS[combiner], rest.dtype, []))
                return
        if isinstance(stmt, Store):
            (value,), places = self.values(stmt, [stmt.value], stmt)
            self.write(self.place(stmt, places), value)
            return
        condition = self.values(stmt, [stmt.condition])[0][0]
        truth = self.truth(condition)
        if truth is None:
            self.either(condition, stmt)
        elif truth or stmt.orelse is not None:
            self.run(stmt.then if truth or stmt.orelse is None else stmt.orelse)

    def either(self, condition: int, stmt: If) -> None:
        """Both branches, where data choose: each cell is chosen among what they leave."""
        left: list[dict[Place, int]] = []
        for branch in (stmt.then, stmt.orelse):
            self.changed.append({})
            if branch is not None:
                self.run(branch)
            before = self.changed.pop()
            left.append({place: self.read(place) for place in before})
            for place, number in before.items():
                self.memory[place[0]][place[1]] = number
        for place in dict.fromkeys([*left[0], *left[1]]):
            old = self.read(place)
            row = (condition, left[0].get(place, old), left[1].get(place, old))
            dtype = self.shown[place[0]][1].dtype
            names = (("c", BOOL), ("a", dtype), ("b", dtype))
            choice = t.where(*(t.make("var", (), name, kind) for name, kind in names))
            self.write(place, self.unfolding.number(choice, row))

    def truth(self, condition: int) -> bool | None:
        """Whether a condition holds; None where data decide."""
        value = self.unfolding.values.constants.get(condition)
        return None if value is None else bool(value)

    # -- memory

    def place(self, store: Store, flat: Sequence[int]) -> Place:
        if flat[0] < 0:
            raise NotFollowed
        return self.shown[store.buffer][0], flat[0]

    def read(self, place: Place) -> int:
        pending = self.sums.pop(place, None)
        if pending is not None:
            row = np.array(pending.items, np.int64)
            found = self.unfolding.combined(row, pending.combiner, pending.dtype, ordered=False)
            self.memory[place[0]][place[1]] = found
        return self.memory[place[0]][place[1]]

    def write(self, place: Place, value: int) -> None:
        if value == NOTHING:
            raise NotFollowed
        if self.changed:
            self.changed[-1].setdefault(place, self.read(place))
        self.sums.pop(place, None)
        self.memory[place[0]][place[1]] = value

    def combine(self, place: Place, value: int, new: _Sum) -> None:
        """One more value that is combined into a cell."""
        pending = self.sums.get(place)
        if pending is None or pending.at != new.at:
            new.items.append(self.read(place))
            pending = self.sums[place] = new
        if value == NOTHING or NOTHING in pending.items:
            raise NotFollowed
        pending.items.append(value)

    # -- terms

    def values(self, stmt: Stmt, terms: Sequence[Term], store: Store | None = None) -> tuple[list[int], list[int]]:
        """The numbers of terms where the loops stand, and the place that a store writes."""
        key = (id(stmt), terms[0].serial)
        formula = self.formulas.get(key)
        if formula is None:
            formula = self.formulas[key] = self.formula(terms, store)
        at = tuple(self.at)
        found = {serial: int(cells[at]) for serial, cells in formula.known.items()}
        for x in formula.order:
            if x.op == "load":
                flat = int(formula.places[x.serial][at])
                found[x.serial] = NOTHING if flat < 0 else self.read((self.shown[str(x.payload)][0], flat))
                continue
            row = (x.serial, *(found[a.serial] for a in x.args))
            number = self.done.get(row)
            if number is None:
                number = self.done[row] = self.unfolding.number(x, row[1:])
            found[x.serial] = number
        self.steps += 1 + len(formula.order)
        if self.steps > MOST_STEPS:
            raise NotFollowed
        if not self.steps & 255:
            clock.check()
        return [found[x.serial] for x in terms], [] if store is None else [int(formula.places[id(store)][at])]

    def formula(self, terms: Sequence[Term], store: Store | None) -> _Formula:
        """Terms over the loops around: what needs no data is evaluated at all of their positions."""
        box = tuple(loop.extent for loop in self.loops)
        env = grid({loop.axis: (0, n) for loop, n in zip(self.loops, box, strict=True)})
        index = () if store is None else store.index
        order = list(postorder(*index, *terms, done=env))
        if any(x.op == "hole" or x.lanes > 1 for x in order):
            raise NotFollowed
        plain = set(env)
        for x in order:
            if (x.op != "load" or isinstance(x.payload, Table)) and all(a in plain for a in x.args):
                plain.add(x)
        data = [x for x in order if x not in plain]
        parts = dict.fromkeys(a for x in data for a in x.args if a in plain)
        wanted = list(dict.fromkeys([*parts, *(x for x in (*index, *terms) if x in plain)]))
        known = dict(zip(wanted, evaluate_masked(wanted, env, load_table), strict=True))
        result = _Formula(terms, {}, {}, data)
        for x in data:
            if x.op == "load":
                result.places[x.serial] = self.places(str(x.payload), x.args, known, box)
        if store is not None:
            result.places[id(store)] = self.places(store.buffer, index, known, box)
        values = dict.fromkeys([*(a for x in data if x.op != "load" for a in x.args), *terms])
        for x in values:
            if x in plain:
                result.known[x.serial] = np.broadcast_to(self.unfolding.literal(*known[x], x.dtype), box)
        return result

    def places(self, name: str, index: Sequence[Term], known: dict[Term, Any], box: tuple[int, ...]) -> NDArray:
        """The elements of the memory at which an index lies; -1 outside of its buffer."""
        root, decl = self.shown[name]
        flat, outside = np.zeros(box, np.int64), np.zeros(box, bool)
        for i, extent in zip(index, numbers(decl.shape, {}), strict=True):
            if i not in known:
                raise NotFollowed  # data say where
            value, bad = known[i]
            outside = outside | (value < 0) | (value >= extent) | (False if bad is None else bad)
            flat = flat * extent + np.clip(value, 0, max(extent - 1, 0)).astype(np.int64)
        flat = flat + self.starts[name]
        return np.where(outside | (flat >= len(self.memory[root])), -1, flat)


def _neutral(op: str, dtype: str) -> Term:
    return t.const(np.asarray(neutral(COMBINERS[op], dtype), dtype)[()], dtype)


def called(unfolding: Values, node: Opaque, operands: Sequence[NDArray]) -> list[NDArray] | None:
    """The numbers of the cells that a call of a function leaves in its results; None where it is not followed.

    Loops that are marked `reduce`, and any over whole numbers, combine values in no order, as reductions do; all else
    happens in the order of the statements.
    """
    assert isinstance(node.impl, Called)
    func = node.impl.sized(node.operands)
    if func is None or any(d.dtype == INDEX for d in func.buffer_map.values()):
        return None
    func = to_ssa(func)
    run = _Run(unfolding)
    try:
        for name, decl in func.buffer_map.items():
            run.declare(decl)
            cells = dict(zip(node.impl.given, operands, strict=True)).get(name)
            zero = np.zeros(numbers(decl.shape, {}), decl.dtype)
            run.memory[name] = (unfolding.values.literal(zero) if cells is None else cells).ravel().tolist()
        run.run(func.body)
        results: list[NDArray] = []
        for name in node.impl.results:
            shape = numbers(func.buffer_map[name].shape, {})
            results.append(np.array([run.read((name, k)) for k in range(prod(shape))], np.int64).reshape(shape))
        return results
    except NotFollowed:
        return None
