"""Filling the holes of a program once, for the whole program: a refinement after which every equality is real."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from eqsat.graph.rebuild import Key, changed, over
from eqsat.ir.dtypes import BOOL, COMPLEX, highest, lowest
from eqsat.ir.tensors.tensor import Compute, Node, Program, Tensor, View
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import output_axes, same_shape, static_shape
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
        key = tuple(0 if isinstance(p, Tensor) else p.serial for p in pick)
        if key in seen or len(seen) >= MAX_ASSIGNMENTS:
            continue
        seen.add(key)
        yield fill_holes(program, dict(zip(holes, pick, strict=True)))


Filling = Term | Tensor


def _candidates(program: Program, number: int, hole: Term) -> list[Filling]:
    dtype = hole.dtype
    found: list[Filling] = []
    for node in program.nodes():
        if isinstance(node, View) and node.fill is not None and node.fill.op == "hole" and node.fill.payload == number:
            inner = node.source.node
            if isinstance(inner, View) and same_shape(inner.source.shape, node.outputs[0][0]):
                found.append(inner.source)
    if dtype == BOOL or dtype in COMPLEX:
        numbers: list[Any] = [False, True] if dtype == BOOL else [0]
    else:
        numbers = [0, lowest(dtype), highest(dtype)]
    return [*found, *(t.const(v, dtype) for v in numbers)]


def fill_holes(program: Program, fillings: Mapping[int, Filling]) -> tuple[Program, Mapping[Key, Tensor]]:
    """The program with every hole replaced by a constant, or by the cells of a tensor at the hole's own position, and
    what took the place of each tensor."""

    def change(node: Node) -> Node | None:
        if isinstance(node, View) and node.fill is not None:
            hole = node.fill
            if hole.op == "hole":
                filling = fillings[hole.payload]
                if isinstance(filling, Tensor):
                    return _merged(node, filling)
                return View(node.source, node.outputs[0][0], node.gather, node.valid, filling, node.tag)
        table: dict[Term, Term] = {}
        for term in _terms(node):
            for hole in nodes_of("hole", term):
                filling = fillings[hole.payload]
                table[hole] = t.const(0, hole.dtype) if isinstance(filling, Tensor) else filling
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


def _merged(node: View, filling: Tensor) -> Node:
    """where(valid, source[gather], filling[i]); the filling itself where the source is a crop of it at this place."""
    shape = node.outputs[0][0]
    axes = output_axes(shape)
    inner = node.source.node
    assert isinstance(inner, View)
    through = [
        substitute(g, dict(zip(output_axes(inner.outputs[0][0]), node.gather, strict=True))) for g in inner.gather
    ]
    if (
        inner.valid is t.TRUE
        and all(a is b for a, b in zip(through, axes, strict=True))
        and static_shape(shape) is not None
    ):
        return View(filling, shape, axes, t.TRUE, None)
    body = t.where(node.valid, t.load(0, node.gather, filling.dtype), t.load(1, axes, filling.dtype))
    return Compute([node.source, filling], shape, body)
