"""Steps that share one loop over rows: what a row of one step needs of another is a row just computed.

    before:  for r: m[r] = max over k of x[r, k]                      # every step passes all of memory
             for r: for k: e[r, k] = exp(x[r, k] - m[r])
             for r: for k: y[r, k] = e[r, k] / ...
    after:   for r: m = max over k of x[r, k]; for k: e[k] = exp(x[r, k] - m); for k: y[r, k] = e[k] / ...

A softmax is a maximum, an exponential, a sum and a division of each row. As kernels of their own each passes all of
memory; in one loop over the rows what lies between them is one row, which stays in the first cache. Steps share the
loop where their leading axes are the same, and each reads of the others the row that it is itself at. Which axes these
are is read off the loads, not off an operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from eqsat.backends.lowering.access import flat_index, flatten_loads
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.order import data_loads, stride
from eqsat.backends.lowering.split import extent_of
from eqsat.backends.lowering.values import RESULT, Value
from eqsat.backends.machine import Machine
from eqsat.ir.dtypes import BFLOAT16, itemsize
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, load
from eqsat.ir.terms.walk import free_variables, nodes_of, postorder, substitute, transform

ROW = "row"
"""The note of a local buffer that holds one row of a step."""
LEAST = 64
"""Elements of a row that are worth a loop of their own."""
SHARE = 4
"""A row takes this part of the second cache at most."""
STACK = 256 << 10
"""Bytes of the rows that are local: they lie on the stack, which is small in some threads."""
HALVES = ("float16", BFLOAT16)
"""Types that are rounded after each operation: their values are no rows."""
PLAIN = ("load", "cast", "const", "where", "and", "or", "not")
"""Operations of bodies that only move elements, which have schedules of their own."""


@dataclass(frozen=True)
class Rows:
    """How many leading axes a loop around gives, and the values of which only the row of that loop is held."""

    axes: int = 0
    local: frozenset[str] = frozenset()

    def place(self, name: str, index: Sequence[Term], shape: Sequence[int]) -> Term:
        """Where an element lies in the buffer of a value, or in its row."""
        if name not in self.local:
            return flat_index(index, shape)
        return flat_index(index[self.axes :], shape[self.axes :])

    def flatten(self, body: Term, shapes: Mapping[str, tuple[int, ...]]) -> Term:
        """Loads by one index each."""

        def first(node: Term) -> Term | None:
            if node.op != "load" or node.payload not in self.local:
                return None
            zeros = [t.index_const(0)] * self.axes
            return load(node.payload, [*zeros, *node.args[self.axes :]], node.dtype)

        return flatten_loads(transform(body, first) if self.local else body, shapes)


ALL = Rows()
"""A kernel of its own: it has all of its axes, and no value is local."""


@dataclass(frozen=True)
class Group:
    """Steps in one loop over rows; `beside` gives for a reduction the step that it computes as it reads it."""

    values: tuple[Value, ...]
    rows: Rows
    beside: Mapping[str, str]


def loads_of(value: Value) -> list[Term]:
    """The loads of a body and of what is applied to its result."""
    terms = [x for x in (value.body, value.after) if x is not None]
    return [n for n in nodes_of("load", *terms) if isinstance(n.payload, str) and n.payload != RESULT]


class Grouping:
    """Finds the groups among the values of a program. `outputs` are the values that are more than steps."""

    def __init__(
        self, values: Sequence[Value], outputs: set[str], simplifier: IndexSimplifier, machine: Machine
    ) -> None:
        self.values, self.outputs, self.simplifier, self.machine = values, outputs, simplifier, machine
        self.shapes = {v.name: v.shape for v in values}
        self.readers: dict[str, set[str]] = {}
        for value in values:
            for name in (*value.operands, *(n.payload for n in loads_of(value))):
                self.readers.setdefault(name, set()).add(value.name)

    def run(self) -> list[Value | Group]:
        """The values in order, those that share rows together at the place of the last one."""
        result: list[Value | Group] = []
        group: list[Value] = []
        depths: set[int] = set()

        def flush() -> None:
            if len(group) > 1:
                result.append(self.made(tuple(group), max(depths)))
            else:
                result.extend(group)
            group.clear()

        for value in self.values:
            if value.kind in ("input", "constant"):
                result.append(value)
                continue
            found = self.joins(value, group, depths) if group and value.kind == "body" else set[int]()
            if not found:
                flush()
                found = set(range(1, len(value.shape) + 1))
            group.append(value)
            depths = found
        flush()
        return result

    def joins(self, value: Value, group: Sequence[Value], depths: set[int]) -> set[int]:
        """How many leading axes may be those of the shared rows, if a value joins a group."""
        names = {v.name for v in group}
        reads = [n for n in loads_of(value) if n.payload in names]
        first = group[0]
        if not reads or first.kind != "body":
            return set()
        found = {k for k in depths if value.shape[:k] == first.shape[:k] and len(value.shape) >= k}
        found = {k for k in found if all(_same_row(n, value.shape, k) for n in reads)}
        return {k for k in found if self.fits(value, k) and (len(group) > 1 or self.fits(first, k))}

    def fits(self, value: Value, k: int) -> bool:
        """Whether a value is computed as well row by row: its rows are long, and used by nothing but themselves."""
        assert value.body is not None
        count, size = prod(value.shape[:k]), prod(value.shape[k:])
        if count < 2 or not value.points or value.ordered or value.dtype in HALVES:
            return False
        axes = [t.ax(n, d) for n, d in enumerate(value.shape)]
        reduced = [t.red(n, d) for n, d in enumerate(value.reduce)]
        outer, inner = set(axes[:k]), [a for a in (*axes[k:], *reduced) if extent_of(a) > 1]
        length = value.points // count
        if length * itemsize(value.dtype) > self.machine.second // SHARE:
            return False
        if value.combiner is None and size == 1:
            return True
        if length < LEAST or not inner or (value.combiner is not None and size != 1):
            return False
        body = self.simplifier.simplify(flatten_loads(value.body, self.shapes))
        if value.combiner is None and all(n.op in PLAIN for n in postorder(body) if n.dtype != "index"):
            return False
        loads = data_loads(body)
        if not loads or any(n.dtype in HALVES for n in loads):
            return False
        return all(self.row_by_row(n.args[0], outer, inner, value.combiner is not None) for n in loads)

    def row_by_row(self, address: Term, outer: set[Term], inner: Sequence[Term], reduces: bool) -> bool:
        """Whether a load runs through the memory of one row after the other."""
        used = set(free_variables(address))
        rows = {a: stride(address, a) for a in outer if extent_of(a) > 1}
        steps = {a: stride(address, a) for a in inner}
        if any(s is None for s in (*rows.values(), *steps.values())):
            return False
        if not used & set(inner):
            return True
        if steps[inner[-1]] not in ((0, 1) if reduces else (-1, 0, 1)):
            return False
        if reduces and used & outer and not all(rows.values()):
            # An operand of several rows: those are better computed together.
            return False
        least = min((abs(s) for s in steps.values() if s), default=0)
        return all(not s or abs(s) > least for s in rows.values())

    def made(self, group: tuple[Value, ...], k: int) -> Value | Group:
        """A group, the values that nothing else reads local to its rows."""
        names = {v.name for v in group}
        local: set[str] = set()
        room = min(self.machine.second // SHARE, STACK)
        beside: dict[str, str] = {}
        for n, value in enumerate(group):
            nbytes = prod(value.shape[k:]) * itemsize(value.dtype)
            if value.name not in self.outputs and self.readers.get(value.name, set()) <= names and nbytes <= room:
                local.add(value.name)
                room -= nbytes
            reader = next((v for v in group[n + 1 :] if any(x.payload == value.name for x in loads_of(v))), None)
            if reader is not None and reader.name not in beside and _read_once(reader, value, k, self.simplifier):
                beside[reader.name] = value.name
        return Group(group, Rows(k, frozenset(local)), beside)


def _same_row(node: Term, shape: Sequence[int], k: int) -> bool:
    """Whether a load is of the row of the element that is computed."""
    return all(d == 1 or i is t.ax(n, d) for n, (i, d) in enumerate(zip(node.args[:k], shape[:k], strict=True)))


def _read_once(reader: Value, value: Value, k: int, simplifier: IndexSimplifier) -> bool:
    """Whether a reduction of rows reads each element of the rows of an element-wise value once, in order."""
    loads = [n for n in loads_of(reader) if n.payload == value.name]
    if value.combiner is not None or reader.combiner is None or reader.body is None or len(loads) != 1:
        return False
    if not any(n is loads[0] for n in nodes_of("load", reader.body)) or prod(value.shape[k:]) != prod(reader.reduce):
        return False
    reduced = [t.red(n, d) for n, d in enumerate(reader.reduce)]
    single = {t.ax(n, 1): t.index_const(0) for n in range(k, len(reader.shape))}
    single |= {a: t.index_const(0) for a in reduced if extent_of(a) == 1}
    there, here = flat_index(loads[0].args[k:], value.shape[k:]), flat_index(reduced, reader.reduce)
    return simplifier.simplify(substitute(there - here, single)) is t.index_const(0)


def share_rows(
    values: Sequence[Value], outputs: set[str], simplifier: IndexSimplifier, machine: Machine | None
) -> list[Value | Group]:
    """The values in order, those that share rows as groups; none without a machine, whose caches decide."""
    return list(values) if machine is None else Grouping(values, outputs, simplifier, machine).run()
