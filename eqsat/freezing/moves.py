"""Operators that move elements and nothing else, as the views that they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eqsat.freezing.names import Freeze, frozen_nodes
from eqsat.freezing.signed import moved
from eqsat.graph.rebuild import over, replaced
from eqsat.ir.tensors.tensor import Node, Opaque, OperatorImpl, Program, Tensor


@dataclass(frozen=True)
class Moves:
    """A program and what is frozen in it, after operators that only move elements became views: `notes` says which.
    `called` and `called_freeze` are as they were."""

    program: Program
    freeze: Freeze
    called: Program
    called_freeze: Freeze
    notes: tuple[str, ...] = ()


def with_views(program: Program, freeze: Freeze) -> Moves:
    """The program in which operators that only move elements are views, itself where there is none. Frozen operators,
    and those that have a signature, stay as they are."""

    def change(node: Node, operands: Sequence[Tensor]) -> Sequence[Tensor] | None:
        if not _may_move(node) or node.serial in kept:
            return None
        assert isinstance(node, Opaque) and isinstance(node.impl, OperatorImpl)
        view = node.impl.as_view(operands)
        if view is None:
            return None
        notes.append(f"{node.op} only moves elements: it is taken as a view")
        return [Tensor(view)]

    same = Moves(program, freeze, program, freeze)
    if not any(map(_may_move, program.nodes())):
        return same
    kept, notes = frozen_nodes(program, freeze), list[str]()
    table = replaced(program.outputs.values(), change)
    if not notes:
        return same
    return Moves(over(program, table), moved(freeze, table), program, freeze, tuple(dict.fromkeys(notes)))


def _may_move(node: Node) -> bool:
    """Whether an operator can be asked, and may become another."""
    if not isinstance(node, Opaque) or not isinstance(node.impl, OperatorImpl):
        return False
    asked = type(node.impl).as_view is not OperatorImpl.as_view
    return asked and node.pure and node.signature is None and len(node.outputs) == 1
