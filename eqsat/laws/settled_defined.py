"""Where the result of an operator without a formula is one value, by what it is defined as: its reductions one by one,
each with the values that are known of what it combines."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from eqsat.ir.dtypes import COMPLEX
from eqsat.ir.flat.sizes import product
from eqsat.ir.rule import Rule
from eqsat.ir.tensors.tensor import Compute
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import output_axes
from eqsat.ir.terms.term import Term
from eqsat.laws.cell_terms import Cells
from eqsat.laws.defined import Unfolded
from eqsat.laws.neutral import filled, finite_sources, padded_shapes
from eqsat.laws.pieces import holding
from eqsat.laws.settled import Around, Settled, cut_labels, settled_cells
from eqsat.operators.definitions import Definition
from eqsat.operators.labels import CanonicalOp, Name, OpaqueKind
from eqsat.operators.within import in_digits
from eqsat.proving.rules import normaliser
from eqsat.rewriting.rewrite import Session


def settled_by_definition(
    cells: Cells,
    operator: CanonicalOp,
    values: Mapping[int, int],
    definition: Definition,
    bundles: Collection[Name],
    rules: tuple[Rule, ...] = (),
) -> Settled | None:
    """The part of the result of an operator over some values, by operand, beyond which it may be one value (proposed,
    not proved); None where there is none. Bundles: those along which the operator may be cut."""
    found = around_by_definition(cells, operator, values, definition, bundles, rules)
    return None if found is None else found.part(_free(definition, bundles))


def _free(definition: Definition, bundles: Collection[Name]) -> list[Name]:
    """Those of some bundles that may have any number of positions."""
    sizes = definition.sizes
    free = (x for x in bundles if all(isinstance(d, Term) and d.op == "sym" for d in sizes.get(x, (1,))))
    return sorted(free, key=str)


def around_by_definition(
    cells: Cells,
    operator: CanonicalOp,
    values: Mapping[int, int],
    definition: Definition,
    bundles: Collection[Name],
    rules: tuple[Rule, ...] = (),
) -> Around | None:
    """Where the result of an operator over some values is one value; None where nothing pads them."""
    interned = cells.interned
    shapes = [(k, x) for k, value in values.items() for x in dict.fromkeys(padded_shapes(interned, value))]
    kind = operator.kind
    if not shapes or kind.identity or not isinstance(kind, OpaqueKind) or {*kind.dtypes} & {*COMPLEX}:
        return None
    whole = in_digits(operator, shapes, "map")
    sizes, free = definition.numbers(whole), _free(definition, bundles)
    if sizes is None or not cut_labels(whole, free):
        return None
    unfolded = _Unfolded(cells, whole, values, definition, sizes, free, rules=rules)
    cell = unfolded.output()
    raised = filled(unfolded.extents)
    body = unfolded.session(raised.extents).normal(raised.term(cell))
    found = list(settled_cells(body, set(raised.extents), None, 1, finite_sources(interned)))
    return Around(whole, unfolded.axes, raised, found)


@dataclass
class _Unfolded(Unfolded):
    """Formulas of a definition, its reductions as what is known of them."""

    rules: tuple[Rule, ...] = ()

    def session(self, extents: Mapping[Term, object]) -> Session:
        """The rules about scalars, where axes have extents."""
        return Session(normaliser(self.rules), {a: (0, x) for a, x in extents.items() if isinstance(x, int)})

    def reduced(self, node: Compute, table: Mapping[Term, Term], opaque: Term) -> Term:
        own = set(self.extents)
        if node.combiner is None or node.outputs[0][1] in COMPLEX:
            return opaque
        inner = {t.red(n, d): self.fresh(t.red(n, d)) for n, d in enumerate(node.reduce)}
        outer = {a: table[a] for a in output_axes(node.outputs[0][0])}
        body = self.session(self.extents).normal(self.formula(node, {**outer, **inner}))
        count = product(self.size(d) for d in node.reduce)
        made = opaque
        for conditions, value in settled_cells(body, own, node.combiner, count, finite_sources(self.cells.interned)):
            made = t.where(holding(conditions), value, made)
        return made
