"""Functions that compute each cell of one result from cells of what they read, as tensor programs: of one formula, and
of one for each reduction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from eqsat.ir.decide import decider
from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.memory import numpy_dtype
from eqsat.ir.statements.primfunc import PrimFunc, as_function
from eqsat.ir.statements.ssa import with_own_names
from eqsat.ir.statements.stmt import Alloc, Assume, BufferDecl, For, If, Seq, Stmt, Store, statements
from eqsat.ir.tensors.run import neutral
from eqsat.ir.tensors.tensor import Compute, Input, Program, Tensor, View, as_program
from eqsat.ir.tensors.tensor import input as input_tensor
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.shape import Shape, as_dim, output_axes, reduce_axes
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import map_loads, nodes_of, postorder, substitute
from eqsat.passes.accumulated import Accumulated, accumulated
from eqsat.passes.cells import loads
from eqsat.passes.distribute import distributed
from eqsat.passes.own_cells import with_own_cells

MOST_NODES = 1 << 12
WHOLE = 3000
"""Axes from this number on are over all cells of a buffer, in the place of those of loops over some of them."""


@dataclass(frozen=True, eq=False)
class _Held(Record):
    """What each cell of a buffer holds, over `axes` as its index, where that is known."""

    axes: tuple[Term, ...]
    value: Term
    where: Term

    @property
    def whole(self) -> bool:
        """Whether it is known of all cells."""
        return self.where is t.TRUE or bool(decider().prove(self.where, {}))


@dataclass
class _Memory:
    """What buffers hold: `known` where the statements before ran to their end, `now` in one iteration of all loops."""

    what: str
    sources: dict[str, BufferDecl]
    locals: dict[str, BufferDecl]
    known: dict[str, _Held] = field(default_factory=dict[str, "_Held"])
    now: dict[str, _Held] = field(default_factory=dict[str, "_Held"])
    changing: dict[str, list[Sequence[Term]]] = field(default_factory=dict[str, "list[Sequence[Term]]"])
    """The indices at which these loops write each buffer."""
    made: dict[str, Tensor] = field(default_factory=dict[str, "Tensor"])
    """What loops have combined, by a name that no buffer has."""
    inputs: dict[str, Tensor] = field(default_factory=dict[str, "Tensor"])

    def run(self, stmt: Stmt, loops: tuple[For, ...], guard: Term) -> None:
        """What holds after a statement."""
        if isinstance(stmt, Seq):
            for part in stmt.parts:
                self.run(part, loops, guard)
        elif isinstance(stmt, Alloc) and not loops and guard is t.TRUE:
            self.locals[stmt.buffer.name] = stmt.buffer
            self.known.pop(stmt.buffer.name, None)  # another one of this name is gone
            self.now.pop(stmt.buffer.name, None)
            self.run(stmt.body, loops, guard)
        elif isinstance(stmt, For) and (found := accumulated(stmt)) is not None:
            self.combine(found, loops, guard)
            if not loops:
                self.known |= self.now
                self.now.clear()
        elif isinstance(stmt, For):
            if not loops:
                self.known |= self.now
                self.now.clear()
                for inner in statements(stmt):
                    if isinstance(inner, Store):
                        self.changing.setdefault(inner.buffer, []).append(inner.index)
            self.run(stmt.body, (*loops, stmt), guard)
            if not loops:
                self.known |= self.now
                self.now.clear()
                self.changing.clear()
        elif isinstance(stmt, If):
            test = self.value(stmt.condition)
            self.run(stmt.then, loops, t.logical_and(guard, test))
            if stmt.orelse is not None:
                self.run(stmt.orelse, loops, t.logical_and(guard, t.logical_not(test)))
        elif isinstance(stmt, Store):
            self.store(stmt, loops, guard)
        elif not isinstance(stmt, Assume):  # what is promised is not needed
            raise ScheduleError(self.what, f"{type(stmt).__name__} is in no formula")

    def store(self, stmt: Store, loops: Sequence[For], guard: Term) -> None:
        """A store to each cell by one iteration of the loops around it."""
        part = self.check(stmt, loops)
        value = self.value(stmt.value)
        if part:
            stmt = replace(stmt, index=tuple(substitute(i, part) for i in stmt.index))
            value, inside = substitute(value, part), [part[i] < i.args[0] for i in part]
            guard = t.logical_and(substitute(guard, part), *inside)
        before = self.now.get(stmt.buffer) or self._over(stmt)
        if before is not None and guard is not t.TRUE:
            value, other = t.where(guard, value, before.value), t.logical_not(guard) is before.where
            where = t.TRUE if other else t.logical_or(guard, before.where)
        else:
            where = guard
        if sum(1 for _ in postorder(value, where)) > MOST_NODES:
            raise ScheduleError(self.what, f"the formula of {stmt.buffer} is long")
        self.now[stmt.buffer] = _Held(stmt.index, value, where)

    def check(self, stmt: Store, loops: Sequence[For]) -> dict[Term, Term]:
        """Refuse a store that does not write each cell of a buffer in one iteration of some loops. The answer are axes
        over all of its cells for those of loops that are over the first of them."""
        decl = self.locals.get(stmt.buffer)
        axes = [loop.axis for loop in loops]
        shape = [t.as_index(n) for n in decl.shape] if decl else []
        own = [(i, n) for i, n in zip(stmt.index, shape, strict=False) if i.op != "const" or t.int_value(n) != 1]
        if decl is None or not _same([i for i, _ in own], axes) or nodes_of("hole", stmt.value):
            raise ScheduleError(self.what, f"{stmt.buffer} is not written cell by cell", "loop over its cells")
        part = {i: t.ax(WHOLE + k, as_dim(n)) for k, (i, n) in enumerate(own) if i.args[0] is not n}
        ends = [(t.int_value(i.args[0]), t.int_value(n)) for i, n in own if i in part]
        if any(end is None or extent is None or end > extent for end, extent in ends):
            raise ScheduleError(self.what, f"{stmt.buffer} is written in part", "loop over all of its cells")
        if any(not _same(stmt.index, index, in_order=True) for index in self.changing.get(stmt.buffer, ())):
            raise ScheduleError(self.what, f"{stmt.buffer} is written in two orders", "use a loop for each")
        return part

    def combine(self, found: Accumulated, loops: Sequence[For], guard: Term) -> None:
        """Loops that combine terms into a cell which holds what the combiner ignores: a reduction."""
        store, dtype = found.store, found.store.value.dtype
        if self.check(store, (*loops, *found.cells)):
            raise ScheduleError(self.what, f"{store.buffer} is combined in part", "loop over all of its cells")
        before = self.now.get(store.buffer) or self._over(store)
        first = t.const(np.asarray(neutral(found.combiner, dtype), numpy_dtype(dtype))[()], dtype)
        if guard is not t.TRUE or before is None or not before.whole or before.value is not first:
            raise ScheduleError(
                self.what, f"{store.buffer} does not begin with {first}", "store that in each cell first"
            )
        shape, reduced = self.locals[store.buffer].shape, tuple(as_dim(a.args[0]) for a in found.axes)
        self.keep_computed(found)
        table = {**_table(store.index, output_axes(shape)), **dict(zip(found.axes, reduce_axes(reduced), strict=True))}
        value = t.where(self.value(found.guard), self.value(found.value), first)
        name = f"reduced {len(self.made)}"
        self.made[name] = self.tensor(substitute(value, table), shape, reduced, found.combiner)
        self.now[store.buffer] = _Held(store.index, t.load(name, store.index, dtype), t.TRUE)

    def keep_computed(self, found: Accumulated) -> None:
        """Make tensors of what is computed of buffers that loops read again for other cells: it is computed once."""
        axes = {*(a.serial for a in found.axes), *(i.serial for i in found.store.index)}
        for load in loads(found.value, found.guard):
            held = self.known.get(str(load.payload))
            again = not axes <= {i.serial for i in load.args}
            if held is None or not again or not held.whole or not _computes(held.value):
                continue
            shape = self.locals[str(load.payload)].shape
            body = substitute(held.value, _table(held.axes, output_axes(shape)))
            name = f"computed {len(self.made)}"
            self.made[name] = self.tensor(body, shape)
            self.known[str(load.payload)] = _Held(held.axes, t.load(name, held.axes, held.value.dtype), t.TRUE)

    def tensor(self, body: Term, shape: Shape, reduced: Shape = (), combiner: str | None = None) -> Tensor:
        """A formula of cells of what is read, or of what loops have combined, over the axes of a result."""
        axes = output_axes(shape)
        whole = self.made.get(body.payload) if body.op == "load" and isinstance(body.payload, str) else None
        if whole is not None and not reduced and _same(body.args, axes, in_order=True):
            return whole
        operands: dict[tuple[str, tuple[int, ...]], Tensor] = {}
        shown = {a.serial for a in (*axes, *reduce_axes(reduced))}

        def read(load: Term) -> Term:
            if not isinstance(load.payload, str):
                return load
            x, index = self.read(load.payload), load.args
            view = None if reduced or all(i.serial in shown for i in index) else _moved(x, shape, index)
            key = load.payload, () if view is None else tuple(i.serial for i in index)
            operands.setdefault(key, x if view is None else Tensor(view))
            return t.load(list(operands).index(key), index if view is None else axes, load.dtype)

        made = map_loads(body, read)
        return Tensor(Compute(list(operands.values()), shape, made, reduced, combiner))

    def read(self, name: str) -> Tensor:
        """What is read by a name."""
        if name not in self.made:
            decl = self.sources[name]
            self.inputs.setdefault(name, input_tensor(name, decl.shape, decl.dtype))
        return self.made[name] if name in self.made else self.inputs[name]

    def _over(self, stmt: Store) -> _Held | None:
        """What earlier statements left, over the index of a store."""
        held = self.known.get(stmt.buffer)
        if held is None:
            return None
        table = _table(held.axes, stmt.index)
        return _Held(stmt.index, substitute(held.value, table), substitute(held.where, table))

    def value(self, term: Term) -> Term:
        """A term in which what buffers hold stands for their loads."""

        def read(load: Term) -> Term:
            name = str(load.payload)
            if loads(*load.args):
                raise ScheduleError(self.what, f"{load} is read where data say")
            if name in self.sources or name in self.made:
                return load
            if any(not _same(load.args, index, in_order=True) for index in self.changing.get(name, ())):
                raise ScheduleError(self.what, f"{load} is read while the same loops write {name}")
            held = self.now.get(name) or self.known.get(name)
            if held is None or not held.whole:
                raise ScheduleError(self.what, f"{load} is not known to hold anything")
            return substitute(held.value, _table(held.axes, load.args))

        return map_loads(term, lambda load: read(load) if isinstance(load.payload, str) else load)


def _table(axes: Sequence[Term], index: Sequence[Term]) -> dict[Term, Term]:
    return {a: i for a, i in zip(axes, index, strict=True) if a.op != "const"}


def _computes(value: Term) -> bool:
    """Whether a value is more than one of a few cells and numbers."""
    return any(x.op not in ("where", "load", "const") for x in postorder(value) if x.dtype == value.dtype)


def _same(index: Sequence[Term], axes: Sequence[Term], in_order: bool = False) -> bool:
    """Whether an index is these axes, each once."""
    one, other = [i.serial for i in index], [a.serial for a in axes]
    return one == other if in_order else len(set(one)) == len(one) and sorted(one) == sorted(other)


def as_formula(func: PrimFunc) -> Program:
    """The program of formulas that a function is: each cell of the one parameter that it writes is computed from cells
    of others, also by way of local buffers, each of which loops over its cells write. Loops that combine into a cell
    are a reduction: those marked `reduce`, and any over whole numbers, if the cell holds what is ignored before. What
    the function assumes is not used: its formula has a value where that does not hold, too.

    >>> import eqsat as eq
    >>> f = eq.PrimFunc.parse('''func f(x: int8[4], y: int8[4])
    ...   alloc t: int8[4]
    ...   for i in 4:
    ...     t[i] = x[3 - i] + int8(1)
    ...   for i in 4:
    ...     y[i] = max(t[i], int8(0))''')
    >>> print(as_formula(f))
    f(x: int8(4,)) -> y
      t0 = view x[3 - i0]                               # int8(4,)
      y = compute maximum(t0[i0] + int8(1), int8(0))    # int8(4,)

    `eq.compile` makes a kernel of it that chooses its own loops, where one of the function runs those that are written.

    Errors: ScheduleError where something else happens: floats combined in an order, indices that depend on data, cells
    that are written in another order or not at all, assumptions, holes.
    """
    func = with_own_names(as_function(func, "as_formula"))
    what = f"as_formula of {func.name}"
    stored = dict.fromkeys(s.buffer for s in statements(func.body) if isinstance(s, Store))
    outputs = [name for name in func.params if name in stored]
    odd = next((d for d in func.buffer_map.values() if not d.is_dense or d.lanes > 1 or d.transforms), None)
    if len(outputs) != 1 or odd is not None:
        raise ScheduleError(what, f"{outputs} are written" if odd is None else f"{odd} is no plain tensor")
    output = func.buffer_map[outputs[0]]
    sources = {name: decl for name, decl in func.buffer_map.items() if name != output.name}
    memory = _Memory(what, sources, {output.name: output})
    memory.run(distributed(with_own_cells(func).body), (), t.TRUE)
    held = memory.known.get(output.name) or memory.now.get(output.name)
    if held is None or not held.whole:
        raise ScheduleError(what, f"not all cells of {output.name} are written")
    axes = output_axes(output.shape)
    body = substitute(held.value, _table(held.axes, axes))
    result = memory.tensor(body, output.shape)
    read = {x.node.name for x in as_program(result).inputs if isinstance(x.node, Input)}
    return Program([memory.inputs[name] for name in sources if name in read], {output.name: result}, func.name)


def _moved(x: Tensor, shape: Shape, index: Sequence[Term]) -> View | None:
    """A view that reads an operand where a formula does, at every cell of its result; None where that may be outside:
    then a condition is around."""
    inside = [c for i, n in zip(index, x.shape, strict=True) for c in (t.as_index(0) <= i, i < t.as_index(n))]
    return View(x, shape, index, t.TRUE, None) if decider().prove(t.logical_and(*inside), {}) else None
