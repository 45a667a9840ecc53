"""What an operator without a formula may leave out of what it reduces, by what it is defined as: the positions at which
each of the reductions that it is made of changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from eqsat.ir.dtypes import COMPLEX
from eqsat.ir.flat.size_terms import as_extent, as_size
from eqsat.ir.flat.sizes import Size
from eqsat.ir.rule import Rule
from eqsat.ir.tensors.tensor import Compute, Constant, Input, Tensor, View, node_order
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, output_axes
from eqsat.ir.terms.tables import Table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import map_loads, substitute
from eqsat.laws.cell_terms import Cells
from eqsat.laws.neutral import LeftOut, filled, finite_sources, idle_where, outside_of, padded_shapes
from eqsat.operators.definitions import OUTPUT, Definition
from eqsat.operators.labels import CanonicalOp, Name, OpaqueKind
from eqsat.operators.within import in_digits, labels_by_name
from eqsat.proving.rules import normaliser
from eqsat.rewriting.rewrite import Session


def left_out_by_definition(
    cells: Cells,
    operator: CanonicalOp,
    values: Mapping[int, int],
    definition: Definition,
    rules: tuple[Rule, ...] = (),
) -> LeftOut | None:
    """What an operator over some values, by operand, might leave out (proposed, not proved); None where nothing."""
    interned = cells.interned
    shapes = [(k, x) for k, value in values.items() for x in dict.fromkeys(padded_shapes(interned, value))]
    if not shapes or operator.kind.identity or not isinstance(operator.kind, OpaqueKind):
        return None
    whole = in_digits(operator, shapes)
    sizes = definition.numbers(whole)
    if sizes is None:
        return None
    unfolded = Unfolded(cells, whole, values, definition, sizes, definition.reduced)
    bodies = [x for x in map(unfolded.body, _reductions(definition)) if x is not None]
    if not bodies or any(node.outputs[0][1] in COMPLEX for node, _ in bodies):
        return None
    numbers = {a: (0, extent) for a, extent in unfolded.extents.items() if isinstance(extent, int)}
    session, finite = Session(normaliser(rules), numbers), finite_sources(interned)
    raised = filled(unfolded.extents)
    idle = t.logical_and(
        *(
            idle_where(session.normal(raised.term(x)), str(node.combiner), node.outputs[0][1], finite)
            for node, x in bodies
        )
    )
    reduced = {n: raised.term(a) for n, a in unfolded.axes.items() if a in numbers}
    least = 2 if any(node.combiner == "sum" for node, _ in bodies) else 1  # -0.0 alone is no sum
    return outside_of(whole, idle, reduced, raised.extents, least)


def _reductions(definition: Definition) -> list[Compute]:
    nodes = node_order([definition.program.outputs[OUTPUT]])
    return [x for x in nodes if isinstance(x, Compute) and x.combiner is not None]


@dataclass
class Unfolded:
    """Formulas of a definition over the cells of the values that are the operator's operands."""

    cells: Cells
    whole: CanonicalOp
    values: Mapping[int, int]
    definition: Definition
    sizes: Mapping[Term, Size]
    open: Collection[Name]
    """The bundles of any number of positions that have axes of their own."""
    axes: dict[int, Term] = field(default_factory=dict[int, Term])
    """The axes of the labels of these."""
    extents: dict[Term, Size] = field(default_factory=dict[Term, Size])
    """The extents of all axes."""

    def __post_init__(self) -> None:
        self._known: dict[tuple[tuple[int, int], tuple[Term, ...]], Term] = {}
        self.along: dict[Term, Term] = {}
        """The position on such a dimension, by the symbol of its extent."""
        self._digits: dict[Term, list[Term]] = {}
        held = labels_by_name(self.whole)
        for name in self.open:
            labels = held.get(name, [])
            position = t.index_const(0)
            for n in labels:
                extent = self.whole.labels[n].extent
                self.axes[n] = axis = t.ax(n, as_extent(extent))
                self.extents[axis] = extent
                position = position * t.as_index(as_extent(extent)) + axis
            symbol = self.definition.sizes[name][0]  # the first dimension has all positions
            assert isinstance(symbol, Term)
            self.along[symbol] = position
            self._digits[position] = [self.axes[n] for n in labels]

    def body(self, node: Compute) -> tuple[Compute, Term] | None:
        """What a reduction of the definition combines, if that is along what the operator reduces."""
        if not any(isinstance(d, Term) and d in self.along for d in node.reduce):
            return None
        table = {a: self.fresh(a) for a in output_axes(node.outputs[0][0])}
        for n, d in enumerate(node.reduce):
            axis = t.red(n, d)
            table[axis] = self.along[d] if isinstance(d, Term) and d in self.along else self.fresh(axis)
        return node, self.formula(node, table)

    def output(self) -> Term:
        """The cell of the result at any index."""
        x = self.definition.program.outputs[OUTPUT]
        axes = output_axes(x.shape)
        return self.cell(x, [self.along[a.args[0]] if a.args[0] in self.along else self.fresh(a) for a in axes])

    def size(self, extent: Dim) -> Size:
        """An extent of the definition, as the operator has it."""
        return self.sizes.get(extent, as_size(extent)) if isinstance(extent, Term) else extent

    def fresh(self, axis: Term) -> Term:
        size = self.size(axis.args[0])
        if size == 1:
            return t.index_const(0)
        made = t.ax(len(self.whole.labels) + len(self.extents), as_extent(size))
        self.extents[made] = size
        return made

    def formula(self, node: Compute, table: Mapping[Term, Term]) -> Term:
        def cell(load: Term) -> Term:
            return load if isinstance(load.payload, Table) else self.cell(node.operands[int(load.payload)], load.args)

        return map_loads(substitute(node.body, table), cell)

    def cell(self, x: Tensor, index: Sequence[Term]) -> Term:
        """The cell of a tensor of the definition at an index."""
        key = x.key, tuple(index)
        if key not in self._known:
            self._known[key] = self._unfolded(x, index)
        return self._known[key]

    def _unfolded(self, x: Tensor, index: Sequence[Term]) -> Term:
        node, table = x.node, dict(zip(output_axes(x.shape), index, strict=True))
        if isinstance(node, Input):
            return self._operand(int(node.name.removeprefix("x")), index, x.dtype)
        if isinstance(node, Constant):
            return t.const(node.array.item(), x.dtype)
        if isinstance(node, View):
            inner = self.cell(node.source, [substitute(g, table) for g in node.gather])
            valid = substitute(node.valid, table)
            return inner if node.fill is None else t.where(valid, inner, substitute(node.fill, table))
        if isinstance(node, Compute) and node.combiner is None:
            return self.formula(node, table)
        opaque = t.load(f"reduced {node.serial}", list(index), x.dtype)
        return self.reduced(node, table, opaque) if isinstance(node, Compute) else opaque

    def reduced(self, node: Compute, table: Mapping[Term, Term], opaque: Term) -> Term:
        """What a reduction makes at an index, of which nothing is known."""
        return opaque

    def _operand(self, k: int, index: Sequence[Term], dtype: str) -> Term:
        """The cell of operand k at an index of the definition's stand-in for it."""
        places: dict[Name, Term] = {}
        dims = {name: iter(sizes) for name, sizes in self.definition.sizes.items()}
        for name, i in zip(self.definition.dims[k], index, strict=True):
            if name:
                extent = self.size(next(dims[name]))
                places[name] = places[name] * t.as_index(as_extent(extent)) + i if name in places else i
        flat = t.index_const(0)
        at = {name: self._split(name, k, position) for name, position in places.items()}
        for n in self.whole.operands[k]:
            label = self.whole.labels[n]
            flat = flat * t.as_index(as_extent(label.extent)) + at[label.name][n]
        return self.cells.at(self.values[k], flat) if k in self.values else t.load(f"operand {k}", [flat], dtype)

    def _split(self, name: Name, k: int, position: Term) -> dict[int, Term]:
        """The position on each label of a bundle."""
        labels = [n for n in self.whole.operands[k] if self.whole.labels[n].name == name]
        known = self._digits.get(position)
        if known is not None:
            return {n: self.axes[n] for n in labels}
        found: dict[int, Term] = {}
        inner = t.index_const(1)
        for place, n in enumerate(reversed(labels)):
            extent = t.as_index(as_extent(self.whole.labels[n].extent))
            digit = position // inner
            found[n] = digit if place == len(labels) - 1 else digit % extent
            inner = inner * extent
        return found
