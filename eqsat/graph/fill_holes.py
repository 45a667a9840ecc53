"""Filling the holes of a program once, for the whole program: a refinement after which every equality is real."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from eqsat.graph.rebuild import Key, changed, over
from eqsat.ir.dtypes import BOOL, COMPLEX, highest, lowest
from eqsat.ir.tensors.tensor import Compute, Node, Program, Tensor, View
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, output_axes, same_shape, static_shape
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, substitute

MAX_ASSIGNMENTS = 16


def holes_of(program: Program) -> dict[int, Term]:
    """One occurrence of every hole of a program, by number."""
    found: dict[int, Term] = {}
    for node in program.nodes():
        for term in _terms(node):
            for hole in nodes_of("hole", term):
                found.setdefault(hole.payload, hole)
    return found


def _terms(node: Node) -> list[Term]:
    if isinstance(node, View):
        return [] if node.fill is None else [node.fill]
    return [node.body] if isinstance(node, Compute) else []


def assignments(program: Program) -> Iterator[tuple[Program, Mapping[Key, Tensor]]]:
    """The program under at most MAX_ASSIGNMENTS fillings of its holes, with what took the place of each tensor; itself
    if it has none.

    Candidates are 0, the source's own cells where the view pads what was cropped, and the neutral elements of max, min.
    """
    holes = holes_of(program)
    if not holes:
        yield program, {}
        return
    choices = [_candidates(program, number, hole) for number, hole in holes.items()]
    uniform = [tuple(c[k % len(c)] for c in choices) for k in range(max(len(c) for c in choices))]
    mixed = itertools.islice(itertools.product(*choices), MAX_ASSIGNMENTS)
    seen: set[tuple[int, ...]] = set()
    for pick in itertools.chain(uniform, mixed):
        key = tuple(-1 - p.depth if isinstance(p, Own) else p.serial for p in pick)
        if key in seen or len(seen) >= MAX_ASSIGNMENTS:
            continue
        seen.add(key)
        yield fill_holes(program, dict(zip(holes, pick, strict=True)))


@dataclass(frozen=True)
class Own:
    """What a view with a hole reads, so many views further down: its cells at the hole's own position."""

    depth: int


Filling = Term | Own


def _candidates(program: Program, number: int, hole: Term) -> list[Filling]:
    dtype = hole.dtype
    found: list[Filling] = []
    users = [n for n in program.nodes() if any(h.payload == number for x in _terms(n) for h in nodes_of("hole", x))]
    node = users[0] if len(users) == 1 else None
    if isinstance(node, View) and node.fill is not None and _is_free(node.fill, node.outputs[0][0]):
        for depth, x in enumerate(_sources(node)):
            if depth and same_shape(x.shape, node.outputs[0][0]):
                found.append(Own(depth))
    if dtype == BOOL or dtype in COMPLEX:
        numbers: list[Any] = [False, True] if dtype == BOOL else [0]
    else:
        numbers = [0, lowest(dtype), highest(dtype)]
    return [*found, *(t.const(v, dtype) for v in numbers)]


def _is_free(fill: Term, shape: Shape) -> bool:
    """Whether a fill is a hole with a value of its own for each cell."""
    return fill.op == "hole" and [a.serial for a in fill.args] == [a.serial for a in output_axes(shape)]


def _sources(node: View) -> Iterator[Tensor]:
    """What a view reads, and what that reads, as long as it is a view."""
    below: Node = node
    while isinstance(below, View):
        yield below.source
        below = below.source.node


def fill_holes(program: Program, fillings: Mapping[int, Filling]) -> tuple[Program, Mapping[Key, Tensor]]:
    """The program with every hole replaced by a constant, or by cells of what is read there at the hole's own position,
    and what took the place of each tensor."""

    def change(node: Node) -> Node | None:
        if isinstance(node, View) and node.fill is not None:
            hole = node.fill
            if hole.op == "hole":
                filling = fillings[hole.payload]
                if isinstance(filling, Own):
                    return _merged(node, filling)
                return View(node.source, node.outputs[0][0], node.gather, node.valid, filling, node.tag)
        table: dict[Term, Term] = {}
        for term in _terms(node):
            for hole in nodes_of("hole", term):
                filling = fillings[hole.payload]
                assert not isinstance(filling, Own), "such a hole fills one view"
                table[hole] = filling
        if not table:
            return None
        if isinstance(node, View) and node.fill is not None:
            return View(
                node.source, node.outputs[0][0], node.gather, node.valid, substitute(node.fill, table), node.tag
            )
        assert isinstance(node, Compute)
        body = substitute(node.body, table)
        return Compute(node.operands, node.shape, body, node.reduce, node.combiner, node.tag, node.ordered)

    table = changed(program, change)
    return over(program, table), table


def _merged(node: View, filling: Own) -> Node:
    """where(valid, source[gather], x[i]) for what is read below; x itself where the source is a crop of it there."""
    shape = node.outputs[0][0]
    axes = output_axes(shape)
    through, whole = node.gather, True
    *views, x = itertools.islice(_sources(node), filling.depth + 1)
    if len(views) < filling.depth or not same_shape(x.shape, shape):  # a view on the way was filled, too, and is none
        zero = t.const(False if x.dtype == BOOL else 0, x.dtype)
        return View(node.source, shape, node.gather, node.valid, zero, node.tag)
    for view in views:
        assert isinstance(view.node, View)
        table = dict(zip(output_axes(view.shape), through, strict=True))
        through, whole = [substitute(g, table) for g in view.node.gather], whole and view.node.valid is t.TRUE
    if whole and all(a is b for a, b in zip(through, axes, strict=True)) and static_shape(shape) is not None:
        return View(x, shape, axes, t.TRUE, None)
    body = t.where(node.valid, t.load(0, node.gather, x.dtype), t.load(1, axes, x.dtype))
    return Compute([node.source, x], shape, body)
