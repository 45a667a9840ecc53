"""Wrong programs and models made of right ones by one small fault each, for tests of what finds faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np

from eqsat.graph.rebuild import rebuilt
from eqsat.ir.errors import EqsatError
from eqsat.ir.tensors.tensor import Compute, Constant, Input, Node, Program, View
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder, transform

Change = Callable[[Node], Node | None]


def _view(node: View, **changes: Any) -> View:
    parts: dict[str, Any] = {"gather": node.gather, "valid": node.valid, "fill": node.fill, **changes}
    return View(node.source, node.outputs[0][0], parts["gather"], parts["valid"], parts["fill"], node.tag)


def _swap(items: list[Term], random: Random) -> list[Term] | None:
    if len(items) < 2:
        return None
    a, b = random.sample(range(len(items)), 2)
    items[a], items[b] = items[b], items[a]
    return items


def _shifted(items: list[Term], shape: tuple[Any, ...], random: Random) -> list[Term] | None:
    """One index off by one, around the end."""
    wide = [n for n, d in enumerate(shape) if isinstance(d, int) and d > 1]
    if not wide:
        return None
    n = random.choice(wide)
    items[n] = (items[n] + 1) % shape[n]
    return items


def _swapped_gather(node: View, random: Random) -> Node | None:
    made = _swap(list(node.gather), random)
    return None if made is None else _view(node, gather=made)


def _shifted_gather(node: View, random: Random) -> Node | None:
    made = _shifted(list(node.gather), node.source.shape, random)
    return None if made is None else _view(node, gather=made)


def _other_fill(node: View, random: Random) -> Node | None:
    if node.fill is None or node.fill.op != "const":
        return None
    old = t.const_value(node.fill)
    new = (not old) if node.fill.dtype == "bool" else 3 if old != 3 else 4
    return _view(node, fill=t.const(new, node.fill.dtype))


def _wider_window(node: View, random: Random) -> Node | None:
    """The fill a cell too far: the first axis is cut by one."""
    if node.fill is None or not node.outputs[0][0]:
        return None
    first = node.outputs[0][0][0]
    return _view(node, valid=t.logical_and(t.ax(0, first) < first - 1, node.valid))


def _load(node: Compute, random: Random) -> Node | None:
    """One load of a formula with two indices swapped, or one off by one."""
    loads = [n for n in _terms(node.body) if n.op == "load" and isinstance(n.payload, int) and n.args]
    if not loads:
        return None
    chosen = random.choice(loads)
    shape = node.operands[int(chosen.payload)].shape
    change = random.choice([_swap(list(chosen.args), random), _shifted(list(chosen.args), shape, random)])
    if change is None:
        return None
    made = t.load(chosen.payload, change, chosen.dtype)
    body = transform(node.body, lambda n: made if n is chosen else None)
    return Compute(node.operands, node.shape, body, node.reduce, node.combiner, node.tag, node.ordered)


def _terms(term: Term) -> list[Term]:
    return list(postorder(term))


def _constant_in_formula(node: Compute, random: Random) -> Node | None:
    found = [n for n in _terms(node.body) if n.op == "const" and n.dtype not in ("index", "bool")]
    if not found:
        return None
    chosen = random.choice(found)
    made = t.const(2 if t.const_value(chosen) != 2 else 3, chosen.dtype)
    body = transform(node.body, lambda n: made if n is chosen else None)
    return Compute(node.operands, node.shape, body, node.reduce, node.combiner, node.tag, node.ordered)


def _other_combiner(node: Compute, random: Random) -> Node | None:
    if node.combiner not in ("max", "min"):
        return None
    other = "min" if node.combiner == "max" else "max"
    return Compute(node.operands, node.shape, node.body, node.reduce, other, node.tag, node.ordered)


def _rolled(node: Constant, random: Random) -> Node | None:
    """A constant whose elements stand one place further."""
    return Constant(np.roll(node.array, 1, axis=random.randrange(node.array.ndim))) if node.array.ndim else None


def _other_number(node: Constant, random: Random) -> Node | None:
    if not node.array.size:
        return None
    array = node.array.copy()
    place = random.randrange(array.size)
    array.flat[place] = not array.flat[place] if array.dtype == bool else array.flat[place] + 1
    return Constant(array)


FAULTS: dict[str, tuple[type[Node], Callable[[Any, Random], Node | None]]] = {
    "two axes of a view swapped": (View, _swapped_gather),
    "a view off by one": (View, _shifted_gather),
    "another fill": (View, _other_fill),
    "a fill one cell too far": (View, _wider_window),
    "a load off by one or turned": (Compute, _load),
    "another number in a formula": (Compute, _constant_in_formula),
    "max for min": (Compute, _other_combiner),
    "a constant rolled": (Constant, _rolled),
    "a number of a constant": (Constant, _other_number),
}


def programs_with_a_fault(program: Program, random: Random, count: int) -> Iterator[tuple[str, Program]]:
    """Up to so many programs of the same interface, each with one fault; what cannot be built is left out."""
    nodes = [n for n in program.nodes() if not isinstance(n, Input)]
    for _ in range(3 * count):
        if not nodes or count <= 0:
            return
        name = random.choice(list(FAULTS))
        kind, fault = FAULTS[name]
        fitting = [n for n in nodes if isinstance(n, kind)]
        if not fitting:
            continue
        target = random.choice(fitting)
        try:
            made = _replaced(program, target, fault, random)
        except EqsatError:
            continue
        if made is not None:
            count -= 1
            yield name, made


def _replaced(
    program: Program, target: Node, fault: Callable[[Any, Random], Node | None], random: Random
) -> Program | None:
    places = {id(n): k for k, n in enumerate(program.nodes())}
    seen = [-1]
    changed: list[Node] = []

    def change(node: Node) -> Node | None:
        seen[0] += 1
        if seen[0] != places[id(target)]:
            return None
        made = fault(node, random)
        if made is not None:
            changed.append(made)
        return made

    result = rebuilt(program, change)
    return result if changed else None
