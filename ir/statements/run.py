"""The numpy meaning of statements: a slow interpreter, one store at a time, that checks every access."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from eqsat.ir import clock
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError
from eqsat.ir.given import told
from eqsat.ir.statements.bind import bind_function
from eqsat.ir.statements.memory import (
    FREED,
    GIVEN,
    UNKNOWN,
    Allocation,
    Place,
    argument,
    check_apart,
    fresh,
    mark_padding,
    region,
)
from eqsat.ir.statements.primfunc import PrimFunc, as_function
from eqsat.ir.statements.scalars import Plan
from eqsat.ir.statements.sizes import Sizes, number
from eqsat.ir.statements.ssa import with_own_names
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, For, If, Seq, Stmt, Store, statements
from eqsat.ir.statements.unknown import Unknowns
from eqsat.ir.terms.bindings import Bindings
from eqsat.ir.terms.evaluate import Mask, evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name

NOTHING = np.zeros((), np.uint8)
"""That all is known of a value."""


class _Machine:
    """The buffers and loop positions of one run."""

    def __init__(self, buffers: dict[str, Allocation], sizes: Sizes, track: bool) -> None:
        self.buffers = buffers
        self.sizes = sizes
        self.track = track
        self.plans: dict[tuple[int, ...], Plan] = {}
        self.suspect = False  # whether a cell was read of which not all is known, or that must not be read
        self.axes: dict[Term, NDArray] = {s: np.asarray(n, np.int64) for s, n in sizes.items()}

    # -- terms

    def places(self, name: str, index: Sequence[NDArray]) -> list[Place | None]:
        """Where each lane of an index lies; None where it is out of range."""
        if all(i.ndim == 0 for i in index):
            return [self.buffers[name].place([int(i) for i in index])]
        lanes = max((i.size for i in index), default=1)
        flat = [np.broadcast_to(np.ravel(i), (lanes,)) for i in index]
        found = self.buffers[name]
        return [found.place([int(i[k]) for i in flat]) for k in range(lanes)]

    def load(self, source: object, index: Sequence[NDArray]) -> tuple[NDArray, Mask]:
        name = str(source)
        found = self.buffers[name]
        zero = np.zeros(found.cells.shape[len(found.cells.shape) - (found.decl.lanes > 1) :], found.cells.dtype)
        places = self.places(name, index)
        if self.track and not self.suspect:
            self.suspect = any(p is None or found.state[p].any() or found.forbidden[p].any() for p in places)
        values = [zero if p is None else found.cells[p].copy() for p in places]
        bad = [p is None for p in places]
        if found.decl.lanes > 1 or all(i.ndim == 0 for i in index):
            return np.asarray(values[0]), (np.ones(zero.shape, np.bool_) if bad[0] else None)
        return np.stack(values), (np.asarray(bad) if any(bad) else None)

    def state(self, node: Term, index: Sequence[NDArray]) -> NDArray:
        """What is known of the cells of a load; an error where they are padding that must not be read."""
        found = self.buffers[str(node.payload)]
        states: list[NDArray] = []
        for place in self.places(str(node.payload), index):
            if place is None:
                states.append(np.full((), UNKNOWN, np.uint8))
                continue
            self.refuse_forbidden(found, place, "load", node)
            states.append(found.state[place].max(axis=-1))
        if found.decl.lanes > 1 or node.lanes == 1:
            return np.asarray(states[0])
        return np.stack(states)

    def refuse_forbidden(self, found: Allocation, place: Place, use: str, what: Term | str) -> None:
        if found.tracked and found.forbidden[place].any():
            problem = f"the cell is padding of {found.decl.name} that has no value{self.here()}"
            raise EvaluationError(f"{use} {what}", problem, "give the layout a pad_value, or guard the access")

    def here(self) -> str:
        at = {leaf_name(a): int(v) for a, v in self.axes.items() if a not in self.sizes}
        return f", at {at}" if at else ""

    def values(self, terms: Sequence[Term]) -> tuple[list[NDArray], list[NDArray]]:
        """The values of terms, and what is known of each."""
        plan = self.plan(terms)
        if not (self.track and plan.holes):
            self.suspect = False
            pairs = plan.evaluate(self.axes, self.buffers, self.load, self.track)
            if pairs is None:
                self.suspect = False
                pairs = evaluate_masked(terms, self.axes, self.load, None, plan.order)
            if not self.suspect:
                for term, (_, bad) in zip(terms, pairs, strict=True):
                    self.refuse_undefined(term, bad)
                return [value for value, _ in pairs], [NOTHING] * len(terms)
        unknown = Unknowns(terms, self.axes, self.load, self.state)
        for term in terms:
            self.refuse_undefined(term, unknown.undefined.get(term))
        for node in unknown.reached:
            if node.op == "load":
                self.refuse_unknown("index of", node, [unknown.states[a] for a in node.args])
        return [unknown.values[term] for term in terms], [unknown.states[term] for term in terms]

    def plan(self, terms: Sequence[Term]) -> Plan:
        """How terms are evaluated; looked up after the first time."""
        key = tuple(x.serial for x in terms)
        found = self.plans.get(key)
        if found is None:
            found = self.plans[key] = Plan(terms, self.axes)
        return found

    def refuse_undefined(self, term: Term, bad: Mask) -> None:
        if bad is not None and bool(np.any(bad)):
            where = self.here().removeprefix(",")
            raise EvaluationError(f"statement with {term}", f"undefined (out of range or a zero divisor){where}")

    def refuse_unknown(self, use: str, term: Term | str, states: Sequence[NDArray]) -> None:
        if any(s is not NOTHING and s.any() for s in states):
            raise EvaluationError(f"{use} {term}", f"depends on a value that is unknown{self.here()}")

    def condition(self, term: Term, use: str) -> bool:
        (value,), states = self.values([term])
        self.refuse_unknown(use, term, states)
        return bool(value.all())

    # -- statements

    def run(self, stmt: Stmt) -> None:
        clock.check()
        if isinstance(stmt, Seq):
            for part in stmt.parts:
                self.run(part)
        elif isinstance(stmt, For):
            for position in range(number(stmt.extent_term, self.sizes)):
                self.axes[stmt.axis] = np.asarray(position, np.int64)
                self.run(stmt.body)
            self.axes.pop(stmt.axis, None)
        elif isinstance(stmt, If):
            branch = stmt.then if self.condition(stmt.condition, "condition") else stmt.orelse
            if branch is not None:
                self.run(branch)
        elif isinstance(stmt, Store):
            self.store(stmt)
        elif isinstance(stmt, (Alloc, Alias)):
            made = self.alias(stmt) if isinstance(stmt, Alias) else fresh(stmt.buffer, self.sizes, self.track)
            self.buffers[stmt.buffer.name] = mark_padding(made, self.sizes)
            self.run(stmt.body)
            del self.buffers[stmt.buffer.name]
        else:
            self.assume(stmt)

    def assume(self, stmt: Assume) -> None:
        if not self.condition(stmt.condition, "assume"):
            raise EvaluationError(f"assume {stmt.condition}", f"does not hold{self.here()}")

    def alias(self, stmt: Alias) -> Allocation:
        """The same bytes under the alias's shape and dtype."""
        of = self.buffers[stmt.data]
        return region(stmt.buffer, self.sizes, of.raw, of.raw_state, of.raw_forbidden, stmt.offset)

    def store(self, stmt: Store) -> None:
        (*index, value), (*ways, state) = self.values([*stmt.index, stmt.value])
        self.refuse_unknown("index of a store to", stmt.buffer, ways)
        found = self.buffers[stmt.buffer]
        places = self.places(stmt.buffer, index)
        vectors = found.decl.lanes > 1
        one = vectors or (len(places) == 1 and value.ndim == 0)
        lanes = [value] if one else np.broadcast_to(value, (len(places),))
        for k, place in enumerate(places):
            if place is None:
                at = tuple(int(np.ravel(i)[min(k, i.size - 1)]) for i in index)
                raise EvaluationError(f"store to {stmt.buffer}", f"index {at} is outside of {found.shape}{self.here()}")
            self.refuse_forbidden(found, place, "store to", stmt.buffer)
            found.cells[place] = lanes[k]
            if self.track:
                found.state[place] = state[..., None] if vectors else np.broadcast_to(state, (len(places),))[k]


def run_primfunc(
    func: PrimFunc, buffers: Mapping[str, NDArray], symbols: Bindings | None = None, *, track: bool = False
) -> dict[str, NDArray]:
    """Run a function on arrays of its parameters' shapes, which it changes in place.

    >>> import eqsat as eq, numpy as np
    >>> f = eq.PrimFunc.parse('''func f(x: int8[3], y: int8[3])
    ...   for i in 3:
    ...     if i < 2:
    ...       y[i] = -x[i]
    ...     else:
    ...       y[i] = hole(1, 'int8')''')
    >>> x, y = np.arange(3, dtype="int8"), np.zeros(3, "int8")
    >>> freed = eq.run_primfunc(f, {"x": x, "y": y}, track=True)
    >>> y[:2], freed["y"]
    (array([ 0, -1], dtype=int8), array([False, False,  True]))

    symbols: numbers for sizes that no shape tells. A parameter with strides or an offset is a view of dense memory with
    these strides, beginning at that element. One with axis separators may also be given as its physical axes lie in
    memory: a dense array with an axis for each of them.
    track: whether cells that hold nothing of use are followed. Reading one gives an unknown value, and an unknown value
    as a condition, an index, an assumption, or in a cell of a parameter at the end is an error, as is an access of
    padding that has no value. The answer is then, by parameter, which elements a hole was stored to (they may hold
    anything).

    Errors: EvaluationError for arrays that are not as the parameters are declared, for accesses out of range, and for
    what has no meaning, with the positions of the loops. Source: holes are those of RFC 77 of Apache TVM (rows E1, E2).
    """
    what = f"function {as_function(func, 'run_primfunc').name}"
    _check_arrays(what, func, buffers)
    if symbols is not None and not isinstance(symbols, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise EvaluationError(what, f"symbols={told(symbols)} are no dict", "a number for each name")
    sizes = bind_function(func, {n: a.shape for n, a in buffers.items()}, symbols)
    regions: dict[str, Allocation] = {}
    for name in dict.fromkeys(s.buffer for s in statements(func.body) if isinstance(s, Store)):
        if name in func.buffer_map:
            check_apart(func.buffer_map[name], sizes, what)
    for name in func.params:
        regions[name] = mark_padding(argument(func.buffer_map[name], sizes, buffers.get(name), what, track), sizes)
    opened = {name: found.state == GIVEN for name, found in regions.items()}
    _Machine(dict(regions), sizes, track).run(func.body)
    if not track:
        return {}
    return {name: _freed(found, opened[name], what, buffers[name].shape) for name, found in regions.items()}


def _check_arrays(what: str, func: PrimFunc, buffers: Mapping[str, Any]) -> None:
    """Refuse names of no parameter, what is no array, and arrays that cannot be read or changed in place."""
    if not isinstance(buffers, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise EvaluationError(what, f"buffers={told(buffers)} are no dict", "a numpy array for each parameter")
    stored: set[str] | None = None
    for name, array in buffers.items():
        if name not in func.buffer_map:
            raise EvaluationError(what, f"there is no parameter {name!r}", f"parameters are {', '.join(func.params)}")
        if not isinstance(array, np.ndarray):
            raise EvaluationError(what, f"{name} is {type(array).__name__}, not a numpy array", "it may be changed")
        found = cast(NDArray, array)
        if not found.dtype.isnative:
            raise EvaluationError(what, f"{name} is in another byte order", "pass a copy")
        if not found.flags.writeable:
            stored = _stored(func) if stored is None else stored
            if name in stored:
                raise EvaluationError(what, f"{name} is written, and read-only", "pass a copy")


def _stored(func: PrimFunc) -> set[str]:
    """The parameters that a function writes, by themselves or by an alias."""
    roots: dict[str, str] = {}
    func = with_own_names(func)
    for stmt in statements(func.body):
        if isinstance(stmt, Alias):
            roots[stmt.buffer.name] = roots.get(stmt.data, stmt.data)
    return {roots.get(s.buffer, s.buffer) for s in statements(func.body) if isinstance(s, Store)}


def _freed(found: Allocation, opened: NDArray, what: str, shape: tuple[int, ...]) -> NDArray:
    """Which elements were freed; an error where one holds a value that is unknown and was not freed.

    opened: the bytes of padding that may hold anything, as the parameter says. shape: that of its array.
    """
    result = np.zeros(shape, np.bool_)
    declared = shape[: len(found.shape)] == found.shape
    for index in found.indices():
        place = found.place(index)
        assert place is not None
        if (found.state[place] == UNKNOWN).any() and not opened[place].any():
            cell = f"{found.decl.name}[{', '.join(map(str, index))}]"
            raise EvaluationError(f"{what}: {cell}", "holds an unknown value at the end", "store a hole to free it")
        result[index if declared else place] = np.isin(found.state[place], (FREED, UNKNOWN)).any(axis=-1)
    return result
