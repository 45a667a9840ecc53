"""Operators that are formulas of cells, as these: those that only move elements, as views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eqsat.freezing.names import Freeze, frozen_nodes
from eqsat.freezing.signed import moved
from eqsat.graph.rebuild import over, replaced
from eqsat.ir.tensors.tensor import Compute, Node, Opaque, OperatorImpl, Program, Tensor, View


@dataclass(frozen=True)
class Formulas:
    """A program and what is frozen in it, after operators became formulas or views: `notes` says which.
    `called` and `called_freeze` are as they were."""

    program: Program
    freeze: Freeze
    called: Program
    called_freeze: Freeze
    notes: tuple[str, ...] = ()


def with_formulas(program: Program, freeze: Freeze) -> Formulas:
    """The program in which operators that are known to be formulas are these, itself where there is none. Frozen
    operators, and those that have a signature, stay as they are."""

    def change(node: Node, operands: Sequence[Tensor]) -> Sequence[Tensor] | None:
        if not _may_be_formula(node) or node.serial in kept:
            return None
        assert isinstance(node, Opaque) and isinstance(node.impl, OperatorImpl)
        found = node.impl.as_formula(operands)
        if found is None:
            return None
        notes.append(f"{node.op} only {_does(found, operands)}")
        return [Tensor(found)]

    same = Formulas(program, freeze, program, freeze)
    if not any(map(_may_be_formula, program.nodes())):
        return same
    kept, notes = frozen_nodes(program, freeze), list[str]()
    table = replaced(program.outputs.values(), change)
    if not notes:
        return same
    return Formulas(over(program, table), moved(freeze, table), program, freeze, tuple(dict.fromkeys(notes)))


def _does(found: View | Compute, operands: Sequence[Tensor]) -> str:
    """What an operator does, and what it is taken as."""
    if isinstance(found, View):
        return "moves elements: it is taken as a view"
    known, below = {x.node.serial for x in operands}, list[Node]([found])
    while below:
        node = below.pop()
        if isinstance(node, Compute) and node.combiner is not None:
            return "computes and combines cells: it is taken as formulas, where they are combined in any order"
        below += [x.node for x in node.operands if x.node.serial not in known]
    return "computes cells from cells: it is taken as a formula"


def _may_be_formula(node: Node) -> bool:
    """Whether an operator can be asked, and may become another."""
    if not isinstance(node, Opaque) or not isinstance(node.impl, OperatorImpl):
        return False
    asked = type(node.impl).as_formula is not OperatorImpl.as_formula
    return asked and node.pure and node.signature is None and len(node.outputs) == 1
