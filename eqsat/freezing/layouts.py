"""Layouts that are given to an operator, and its form in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from eqsat.ir.errors import EqsatError, LayoutError
from eqsat.ir.flat.facts import inverse
from eqsat.ir.flat.formula import composed
from eqsat.ir.flat.map import FlatMap
from eqsat.ir.flat.split import maps_of_view
from eqsat.ir.flat.table import Map
from eqsat.ir.tensors.tensor import Node, View, input
from eqsat.ir.terms.shape import Shape, format_shape
from eqsat.operators.forms import FormMaker
from eqsat.operators.labels import OpBuilder


@dataclass(frozen=True)
class Place:
    """An operand or result in a layout: its shape there, and its cells as a view of those that it has as written."""

    shape: Shape
    map: FlatMap


Places = tuple[Place | None, ...]
"""The layout of each operand, then of each result, of a node; None: as it is written, or as others make it."""


def places_of(node: Node, layouts: Any, what: str) -> tuple[Places, bool]:
    """Layouts as they are given: one, of the result, which the operands follow (True), or a sequence, for the operands
    and the results. Each is what `layout_transform` takes, or None.

    Raises LayoutError for a layout of another rank, for one that is not bijective, and for too few or many of them.
    """
    operands, results = len(node.operands), len(node.outputs)
    if not isinstance(layouts, (tuple, list)):
        if results != 1:
            raise LayoutError(what, f"one layout for {results} results", "a list: of the operands, then the results")
        return (*(None for _ in range(operands)), _place(node, operands, layouts, what)), True
    given = cast("Sequence[Any]", layouts)
    if len(given) != operands + results:
        problem = f"{len(given)} layouts for {operands} operands and {results} results"
        raise LayoutError(what, problem, "one for each, None where it stays")
    return tuple(None if x is None else _place(node, k, x, what) for k, x in enumerate(given)), False


def _place(node: Node, place: int, layout: Any, what: str) -> Place:
    result = place - len(node.operands)
    side = f"operand {place}" if result < 0 else f"result {result}"
    shape = node.operands[place].shape if result < 0 else node.outputs[result][0]
    what = f"{what}: {layout} for {side} of shape {format_shape(shape)}"
    try:
        moved = input("x", shape, "int8").layout_transform(layout)
    except EqsatError as error:
        raise LayoutError(what, error.problem, "a map of its axes that is bijective") from error
    assert isinstance(moved.node, View)
    maps = maps_of_view(moved.node)
    if maps is None or len(maps) != 1 or not isinstance(maps[0], FlatMap):
        raise LayoutError(what, "is no order of axes, or of parts of them")
    return Place(moved.shape, maps[0])


def form_in(forms: FormMaker, form: int, accesses: Sequence[int], places: Places, follow: bool) -> int | None:
    """The form of an operator, which has another one (`accesses`: the operand of its node that each of its operands
    is), with operands and results in places over that; follow: operands as the form that makes the result has them.
    None where the operator has no such form, or the target does not."""
    spelled, count = forms.interned.forms[form], len(accesses)
    given = len(places) - len(spelled.output_maps)
    sides = [*accesses, *range(given, len(places))]
    maps = _over(forms, form, [None if (x := places[side]) is None else x.map for side in sides])
    if maps is None:
        return None
    number = spelled.operator
    if follow:
        return next(iter(forms.for_output(number, 0, maps[count])), None)
    made = _arranged(forms, number, maps)
    if made in (None, form) or forms.freedom(number) == "any":
        return made
    known = {f for k in range(count) for f in forms.for_operand(number, k, maps[k])}
    known |= {f for o, m in enumerate(maps[count:]) for f in forms.for_output(number, o, m)}
    return made if made in known else None


def further_form(forms: FormMaker, form: int, moves: Sequence[Map]) -> int | None:
    """The form of an operator that differs from another one by a move of each operand and result."""
    spelled = forms.interned.forms[form]
    if len(moves) != len(spelled.operand_maps) + len(spelled.output_maps):
        return None
    maps = _over(forms, form, moves)
    return None if maps is None else _arranged(forms, spelled.operator, maps)


def moves_between(forms: FormMaker, first: int, second: int) -> tuple[Map, ...] | None:
    """What leads from one form of an operator to another, for each operand and result."""
    u = forms.interned
    found: list[Map] = []
    pairs = (_layouts(forms, form) for form in (first, second))
    for a, b in zip(*pairs, strict=True):
        back = inverse(u.reindexes[a].map)
        move = None if back is None else composed(back, u.reindexes[b].map)
        if move is None:
            return None
        found.append(move)
    return tuple(found)


def _layouts(forms: FormMaker, form: int) -> tuple[int, ...]:
    """The layouts of the operands and results of a form, by their numbers."""
    spelled = forms.interned.forms[form]
    return *spelled.operand_maps, *spelled.output_maps


def _over(forms: FormMaker, form: int, moves: Sequence[Map | None]) -> list[Map] | None:
    """The layouts of a form, moved."""
    found: list[Map] = []
    for k, move in zip(_layouts(forms, form), moves, strict=True):
        own = forms.interned.reindexes[k].map
        moved = own if move is None else composed(own, move)
        if moved is None:
            return None
        found.append(moved)
    return found


def _arranged(forms: FormMaker, number: int, maps: Sequence[Map]) -> int | None:
    """The form with these layouts of all operands and results, whatever a target has."""
    operator = forms.interned.operators[number]
    sides = [[list(o) for o in group] for group in (operator.operands, operator.outputs)]
    op = OpBuilder(operator.kind, list(operator.labels), sides[0], sides[1], [])
    for k, m in enumerate(maps):
        back, side = inverse(m), [*op.operands, *op.outputs][k]
        order = None if back is None else op.arrange(side, back)
        if order is None:
            return None
        op.written[k] = order
    count = len(op.operands)
    return forms.intern(number, op, op.written[:count], op.written[count:])
