"""Formulas as the engine reads them: views spelled out, unit axes at 0, every distinct load an operand of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.ir.tensors.tensor import Compute, Tensor, View
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, postorder, substitute


def as_formula(node: View) -> Compute:
    """A View as the formula where(valid, source[gather], fill) (law: load of a View)."""
    return Compute(node.operands, node.outputs[0][0], node.body)


def without_units(node: Compute) -> Compute:
    """The same formula with 0 for every axis of extent 1; guards that this decides are gone, and what they guarded."""
    units: dict[Term, Term] = {
        axis: t.index_const(0) for axis in nodes_of("axis", node.body) if t.int_value(axis.args[0]) == 1
    }
    if not units:
        return node
    body = substitute(node.body, units)
    return Compute(node.operands, node.shape, body, node.reduce, node.combiner, node.tag, node.ordered)


def accesses(body: Term) -> list[Term]:
    """The distinct loads of operands, in order of appearance; one operand may be loaded several times, or never.

    A load from a constant table is none.
    """
    return [x for x in nodes_of("load", body) if isinstance(x.payload, int)]


def renumbered(body: Term, coordinates: Mapping[Term, Sequence[Term]], slots: Mapping[Term, Term]) -> Term:
    """The body with `slots` for axes; its loads are numbered in the order of `coordinates` and keep those alone."""
    numbers = {access: n for n, access in enumerate(coordinates)}
    done: dict[Term, Term] = dict(slots)
    for node in postorder(body):
        if node in numbers:
            done[node] = t.load(numbers[node], [done[a] for a in coordinates[node]], node.dtype)
        elif node not in done:
            args = [done[a] for a in node.args]
            same = all(a is b for a, b in zip(args, node.args, strict=True))
            done[node] = node if same else t.rebuild(node, args)
    return done[body]


def over_accesses(node: Compute | View, operands: Sequence[Tensor]) -> Compute:
    """The same formula over other tensors, one for each of its loads.

    What is called by a name is not called so any more where a guard that never holds took a load away.
    """
    formula = without_units(as_formula(node) if isinstance(node, View) else node)
    loads = accesses(formula.body)
    body = renumbered(formula.body, {load: load.args for load in loads}, {})
    tag = node.tag if {x.payload for x in loads} == set(range(len(node.operands))) else None
    return Compute(operands, formula.shape, body, formula.reduce, formula.combiner, tag, formula.ordered)
