"""Operands in the order in which a product reads them: what is read often is moved once before.

    before:  for i: for j: y[i, j] = sum over k of a[i, k] * b[j, k]     # neighbours of j are far apart in memory
    after:   v[j // L, k, j % L] = b[j, k]                               # once; L elements in 64 bytes
             for i: for j0: y[i, j0 * L:+L] = sum over k of a[i, k] * v[j0, k, :]

Sums stay in vector registers where every load of the body is a row along the lanes, or one number for all of them. An
operand is the largest part of a body that is read again and again, at other places of the rest of the output: matrices
as they lie, transposed, of narrower numbers, or of halves. If it is not as lanes need it, it gets a buffer of its own,
which costs one pass over it. Which part that is follows from the axes it depends on, not from an operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from eqsat.backends.lowering.access import flat_index, flatten_loads, load_claims
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.order import loop_order
from eqsat.backends.lowering.pack import Packed, packed_array
from eqsat.backends.lowering.reduce import ROW, choose_tile, held_as
from eqsat.backends.lowering.registers import DTYPES, LEAST, lane_step, rounded_half
from eqsat.backends.lowering.split import extent_of
from eqsat.backends.lowering.values import Value
from eqsat.backends.machine import Machine
from eqsat.ir.dtypes import INDEX, itemsize
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term, load
from eqsat.ir.terms.walk import free_variables, nodes_of, substitute, transform

AGAIN = 10
"""An operand that each element of is read so often is worth a pass that puts it in order."""
TERMS = 4
"""Sums of fewer terms are not long enough to gain by it."""
INNER = ("add", "sub", "mul")
"""What is computed in registers."""


@dataclass(frozen=True, eq=False)
class Operand(Record):
    """A part of a body, and the axes of the value that it depends on."""

    part: Term
    axes: tuple[Term, ...]


@dataclass(frozen=True, eq=False)
class Layout(Record):
    """The order of an operand's axes in its buffer; the last one in blocks of so many, which come before `inner`.

    batch: axes that other operands have as well.
    """

    batch: tuple[Term, ...]
    inner: tuple[Term, ...]
    last: Term
    block: int = 0

    @property
    def axes(self) -> tuple[Term, ...]:
        """The axes, without blocks."""
        return (*self.batch, *self.inner, self.last)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the buffer."""
        before, inner = (tuple(map(extent_of, axes)) for axes in (self.batch, self.inner))
        last = extent_of(self.last)
        return (*before, last // self.block, *inner, self.block) if self.block else (*before, *inner, last)

    def places(self) -> tuple[Term, ...]:
        """Where an element of the operand lies."""
        if not self.block:
            return self.axes
        high, low = (t.binary(op, self.last, self.block) for op in ("floordiv", "mod"))
        return (*self.batch, high, *self.inner, low)

    def elements(self) -> dict[Term, Term]:
        """Which element of the operand is in each place of the buffer: its axes over those of the buffer."""
        new = [t.ax(n, d) for n, d in enumerate(self.shape)]
        if not self.block:
            return dict(zip(self.axes, new, strict=True))
        at = len(self.batch)
        there = [*new[:at], *new[at + 1 : -1], self.block * new[at] + new[-1]]
        return dict(zip(self.axes, there, strict=True))


class Operands:
    """Puts the operands of values in order. `values` are all of the program, with a buffer each."""

    def __init__(self, values: Sequence[Value], done: Packed, simplifier: IndexSimplifier, machine: Machine) -> None:
        self.values, self.done, self.simplifier, self.machine = values, done, simplifier, machine
        self.by_name = {v.name: v for v in values}
        self.shapes = {v.name: v.shape for v in values}
        self.packed: Packed = {}

    def run(self) -> tuple[Value, ...]:
        """The values, with what makes an operand before the one that reads it."""
        result: list[Value] = []
        for value in self.values:
            result += self.prepared(value)
        return tuple(result)

    def prepared(self, value: Value) -> list[Value]:
        """A value, after those that make its operands where they need that."""
        dtype = held_as(value.reduced_dtype)
        if value.body is None or value.combiner is None or not value.points:
            return [value]
        value = replace(value, body=self.simplifier.simplify(value.body))
        assert value.body is not None
        if prod(value.reduce) >= TERMS and value.body.dtype == dtype and dtype in DTYPES and not value.ordered:
            operands = self.operands(value, value.body)
            if len(operands) > 1 and not self.in_registers(value, self.shapes):
                for n, extent in reversed([*enumerate(value.shape)]):
                    made = self.along(value, operands, t.ax(n, extent)) if extent * itemsize(dtype) >= LEAST else None
                    if made is not None:
                        return made
        return self.computed(value)

    def computed(self, value: Value) -> list[Value]:
        """A value, after the functions of single elements that it would compute again and again."""
        assert value.body is not None
        made: dict[Term, Value] = {}
        table: dict[Term, Term] = {}
        stack = [value.body]
        while stack:
            part = stack.pop()
            loads = [n for n in nodes_of("load", part)]
            node = loads[0] if len(loads) == 1 else None
            if node is None or node.dtype == INDEX or not isinstance(node.payload, str) or part is node:
                stack += part.args if len(loads) > 1 else ()
                continue
            shape = self.shapes[node.payload]
            here = load(node.payload, [t.ax(n, d) for n, d in enumerate(shape)], node.dtype)
            there = substitute(part, {node: here})
            if free_variables(substitute(part, {node: load(node.payload, [], node.dtype)})):
                stack += part.args  # it depends on where it is read, by axes that may be named as those of the buffer
            elif value.points >= AGAIN * prod(shape):
                name, label = f"{value.name}_{len(made)}", f"{self.by_name[node.payload].label} as it is read"
                new = made.setdefault(there, Value(name, shape, part.dtype, "body", label, there, steps=(label,)))
                table[part] = load(new.name, node.args, part.dtype)
        return [*made.values(), replace(value, body=transform(value.body, table.get)) if made else value]

    def operands(self, value: Value, body: Term) -> list[Operand]:
        """The largest parts of sums and products that are read again and again; none if another part is not."""
        axes = [t.ax(n, d) for n, d in enumerate(value.shape)] + [t.red(n, d) for n, d in enumerate(value.reduce)]
        found: dict[Term, Operand] = {}
        stack = [body]
        while stack:
            part = stack.pop()
            used = set(free_variables(part))
            depends = tuple(a for a in axes if a in used and extent_of(a) > 1)
            if part.op == "const" or part in found:
                continue
            if value.points >= AGAIN * prod(map(extent_of, depends)):
                found[part] = Operand(part, depends)
            elif part.op in INNER:
                stack += reversed(part.args)
            elif (exact := rounded_half(part)) is not None:
                stack.append(exact)
            else:
                return []
        return list(found.values())

    def in_registers(self, value: Value, shapes: Mapping[str, tuple[int, ...]]) -> bool:
        """Whether the sums of a value are held in vector registers as it is."""
        assert value.body is not None
        spatial = [t.ax(n, d) for n, d in enumerate(value.shape)]
        reduced = [t.red(n, d) for n, d in enumerate(value.reduce)]
        roots = (self.simplifier.simplify(flatten_loads(value.body, shapes)), flat_index(spatial, value.shape))
        order = loop_order(spatial, reduced, roots, self.simplifier)
        sizes = {name: prod(shape) for name, shape in shapes.items()}
        tile = choose_tile(order, value.reduced_dtype, str(value.combiner), value.ordered, sizes, self.machine)
        return tile.blocks is not None

    def along(self, value: Value, operands: Sequence[Operand], along: Term) -> list[Value] | None:
        """The value with lanes along an axis, after what makes its operands; None where that cannot be."""
        assert value.body is not None
        made: list[Value] = []
        packed: Packed = {}
        table: dict[Term, Term] = {}
        for operand in operands:
            if self.in_place(operand, along, value.body.dtype):
                continue
            layout = _layout(operand, along, [o for o in operands if o is not operand])
            source = self.source(f"{value.name}_{len(made)}", operand.part, layout, packed)
            if source is None or source.dtype != value.body.dtype:
                return None
            made.append(source)
            table[operand.part] = load(source.name, layout.places(), source.dtype)
        changed = replace(value, body=transform(value.body, table.get))
        if not made or not self.in_registers(changed, {**self.shapes, **{v.name: v.shape for v in made}}):
            return None
        self.packed |= packed
        return [*made, changed]

    def in_place(self, operand: Operand, along: Term, dtype: str) -> bool:
        """Whether a part is a load of the right type, of elements side by side along the lanes or of one for all."""
        part = operand.part
        if part.op != "load" or part.dtype != dtype or not isinstance(part.payload, str):
            return False
        return lane_step(flat_index(part.args, self.shapes[part.payload]), along) in (0, 1)

    def source(self, name: str, part: Term, layout: Layout, packed: Packed) -> Value | None:
        """What holds a part in a layout: a constant that is so already, or a value computed in each call."""
        loads = [n for n in nodes_of("load", part) if n.dtype != INDEX and isinstance(n.payload, str)]
        if not loads or prod(layout.shape) > max(prod(self.shapes[n.payload]) for n in loads):
            return None  # elements that are at several places of it, as in windows
        source = self.by_name[loads[0].payload]
        if part is loads[0] and source.array is not None and source.name not in self.done:
            split = _as_constant(part, layout)
            if split is not None:
                packed[name] = source.name, *split
                array = packed_array(source.array, *split)
                return replace(source, name=name, shape=tuple(array.shape), array=array)
        single = {a: t.index_const(0) for a in free_variables(part) if extent_of(a) == 1}
        body = self.simplifier.simplify(substitute(part, {**single, **layout.elements()}))
        if load_claims(body, self.shapes, self.simplifier):
            return None
        label = f"{source.label} in order"
        return Value(name, layout.shape, part.dtype, "body", label, body, steps=(label,))


def _layout(operand: Operand, along: Term, others: Sequence[Operand]) -> Layout:
    """How an operand is read: by the loops around all of the others, step by step of the sum, along the lanes."""
    shared = {a for o in others for a in o.axes}
    spatial = [a for a in operand.axes if a.payload[0] == "ax" and a is not along]
    reduced = [a for a in operand.axes if a.payload[0] != "ax"]
    batch = [a for a in spatial if a in shared]
    free = [a for a in spatial if a not in shared]
    if along not in set(operand.axes):
        return Layout(tuple(spatial), tuple(reduced[:-1]), (spatial + reduced)[-1])
    block = ROW // itemsize(operand.part.dtype)
    whole = not free and extent_of(along) % block == 0 and extent_of(along) > block
    return Layout(tuple(batch), (*reduced, *free), along, block if whole else 0)


def _as_constant(part: Term, layout: Layout) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The shape of a constant with the blocks of the layout as an axis, and the order of its axes there."""
    plain = [a for a in part.args if a.op == "axis"]
    if len(plain) < len(part.args) or len(set(plain)) < len(plain) or len(plain) != len(layout.axes):
        return None
    shape: list[int] = []
    at: dict[Term, int] = {}
    for axis in plain:
        at[axis] = len(shape)
        blocks = layout.block and axis is layout.last
        shape += [extent_of(axis) // layout.block, layout.block] if blocks else [extent_of(axis)]
    last = at[layout.last]
    if not layout.block:
        return tuple(shape), tuple(at[a] for a in layout.axes)
    order = [*(at[a] for a in layout.batch), last, *(at[a] for a in layout.inner), last + 1]
    return tuple(shape), tuple(order)


def put_in_order(
    values: Sequence[Value], done: Packed, simplifier: IndexSimplifier, machine: Machine | None
) -> tuple[tuple[Value, ...], Packed]:
    """The values with operands in the order in which they are read; no change without a machine with registers.

    done: the constants among them that were put in order before; the answer has those of this as well.
    """
    if machine is None:
        return tuple(values), done
    work = Operands(values, done, simplifier, machine)
    found = work.run()
    alive = {n.payload for v in found for x in (v.body, v.after) if x is not None for n in nodes_of("load", x)}
    alive |= {name for v in found for name in v.operands}
    return tuple(v for v in found if v.kind != "constant" or v.name in alive), {**done, **work.packed}
