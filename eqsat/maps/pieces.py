"""Index maps made of pieces, `where`, minima and magnitudes, solved by the equations of each piece.

Each piece is injective by its equations. What holds at every cell of one piece, and by its interval at no cell of the
others, tells it apart: then the whole map is injective, and its inverse is a `where` over such conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

import numpy as np

from eqsat.ir.cached import cached_property
from eqsat.ir.dtypes import NDArray
from eqsat.ir.points import values_at
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import dag_size, leaves, postorder, substitute
from eqsat.maps.direct import ALL_CELLS, Direct, Outside, direct, either, first_where, gaps, is_padding, masks_of
from eqsat.maps.equations import Equations
from eqsat.maps.facts import Constraint
from eqsat.maps.form_values import replaced
from eqsat.maps.forms import Form
from eqsat.maps.points import probe
from eqsat.maps.problem import Problem
from eqsat.maps.read import plain

MOST_PIECES = 4
_CHOICES = ("where", "abs", "min", "max")
Ranges = dict[Term, tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Piece:
    """The map where certain comparisons hold: what is left of the ranges, and the outputs there."""

    ranges: Ranges
    outputs: tuple[Term, ...]
    conditions: tuple[Term, ...] = ()
    equations: tuple[Constraint, ...] = ()


def split(piece: Piece) -> list[Piece] | None:
    """The pieces of a piece that have no choices, or None for choices that are no comparisons, and for too many."""
    done: list[Piece] = []
    todo = [piece]
    while todo:
        here = todo.pop()
        limits = Bounds(here.ranges)
        outputs = tuple(plain(o, limits) for o in here.outputs)
        choice = next((n.args[0] for n in leaves("where", *outputs) if not leaves("where", n.args[0])), None)
        if choice is None:
            done.append(Piece(here.ranges, outputs, here.conditions, here.equations))
            if len(done) + len(todo) > MOST_PIECES:
                return None
            continue
        if choice.op not in t.COMPARE or choice.args[0].dtype != t.INDEX:
            return None
        for condition in (t.logical_not(choice), choice):
            ranges = narrowed(here.ranges, condition, limits)
            if ranges is not None:
                table = {choice: t.bool_const(condition is choice)}
                same = () if condition.op != "eq" else (Constraint(t.sub(*condition.args), t.index_const(0)),)
                todo.append(
                    Piece(
                        ranges,
                        tuple(substitute(o, table) for o in outputs),
                        (*here.conditions, condition),
                        (*here.equations, *same),
                    )
                )
    return done


def narrowed(ranges: Ranges, condition: Term, limits: Bounds) -> Ranges | None:
    """The ranges where a comparison holds; None where it never does."""
    if limits.of(condition) == (0, 0):
        return None
    result: Ranges = dict(limits.under(condition).facts())
    if condition.op == "ne":
        exclude(condition, result, limits)
    return None if any(low >= stop for low, stop in result.values()) else result


def exclude(part: Term, ranges: Ranges, limits: Bounds) -> None:
    """Narrow the range of a term that differs from its least or greatest value."""
    constant, parts = t.linear_parts(part.args[0] - part.args[1])
    if len(parts) != 1 or abs(parts[0][0]) != 1:
        return
    node, value = parts[0][1], -constant * parts[0][0]
    low, high = limits.of(node)
    if low is None or high is None or not low <= value <= high:
        return
    if value == low:
        ranges[node] = (low + 1, high + 1)
    elif value == high:
        ranges[node] = (low, high)


@dataclass(frozen=True, eq=False)
class Leaf:
    """A solved piece; `outside` holds, one of it, exactly at the cells that are not of this piece."""

    piece: Piece
    equations: Equations
    values: dict[Term, Form]
    outside: list[Outside]

    def separates(self, x: Outside, other: Leaf, physical: Sequence[Term]) -> bool:
        """Whether x, which is false at the cells of this piece, is true at all cells of another one."""
        forms = other.equations.forms
        table = {forms.read(p): forms.read(o) for p, o in zip(physical, other.piece.outputs, strict=True)}
        form = replaced(forms.read(self.equations.forms.term(x.form)), table, {})
        if form is None:
            return False
        return (form.high is not None and form.high < x.low) or (form.low is not None and form.low >= x.stop)


def _leaf(problem: Problem, piece: Piece) -> Leaf | None:
    given = [Constraint(o, p) for o, p in zip(piece.outputs, problem.physical, strict=True)]
    equations = Equations(problem.inputs, piece.ranges, problem.cells, [*given, *piece.equations])
    if not equations.solve():
        return None
    found = {v: equations.value(v) for v in problem.inputs}
    values = {v: x for v, x in found.items() if x is not None}
    forms = equations.forms
    outside = [Outside(x, *piece.ranges[v]) for v, x in values.items()]
    table = {form: x for v, x in values.items() if (form := forms.read(v)).parts}
    memo: dict[int, Form] = {}
    for condition in piece.conditions:
        slack = forms.read(t.sub(condition.args[1], condition.args[0]))
        if condition.op in ("lt", "le") and len(slack.parts) == 1 and (slack - slack.constant) in forms_of(table):
            continue  # its range says so
        form = replaced(slack, table, memo)
        if form is None or form.low is None or form.high is None:
            return None
        if condition.op == "ne":
            form = form if form.low >= 0 else form * -1
            if form.low is None or form.high is None or form.low < 0:
                return None
        stop = 1 if condition.op == "eq" else max(form.high, 0) + 1
        outside.append(Outside(form, 0 if condition.op in ("le", "eq") else 1, stop))
    back = gaps(forms, values, piece.outputs, problem.physical)
    if back is None or len(values) < len(found):
        return None
    return Leaf(piece, equations, values, [x for x in [*outside, *back] if x.above or x.below])


def forms_of(table: Mapping[Form, Form]) -> set[Form]:
    """The inputs and their negatives."""
    return {*table, *(x * -1 for x in table)}


@dataclass(frozen=True, eq=False)
class Joined:
    """Solved pieces in an order, with conditions that tell each one, but the last, from the later ones."""

    problem: Problem
    pieces: list[tuple[Leaf, list[Outside]]]

    @cached_property
    def terms(self) -> list[Term]:
        """The inputs as terms, in their order."""
        result: list[Term] = []
        for v in self.problem.inputs:
            value: Term | None = None
            for leaf, tests in reversed(self.pieces):
                here = leaf.equations.forms.term(leaf.values[v])
                value = here if value is None else t.where(inside(tests), here, value)
            assert value is not None
            result.append(value)
        return result

    def at(self, env: Mapping[Term, NDArray], size: int) -> NDArray | None:
        """Where cells are padding."""
        result: NDArray = np.ones(size, np.bool_)
        for leaf, _ in self.pieces:
            masks = masks_of(leaf.outside, env)
            if masks is None:
                return None
            result = result & either(masks, size)
        return result

    def missed(self) -> tuple[int, ...] | None:
        """A padded cell, the first one where it is found soon."""
        assert self.problem.numbers is not None
        return first_where(self.at, self.problem.physical, self.problem.numbers[1])

    @cached_property
    def padding(self) -> Term | None:
        """The cells that no point reaches; None where it is not known which conditions are idle."""
        assert self.problem.numbers is not None
        extents, declared = self.problem.numbers
        if prod(extents) == prod(declared):
            return t.FALSE
        every = prod(declared) <= ALL_CELLS
        cells = [a.ravel() for a in np.indices(declared)] if every else self._some_cells(declared)
        env, size = dict(zip(self.problem.physical, cells, strict=True)), len(cells[0]) if cells else 1
        parts: list[Term] = []
        total: NDArray = np.zeros(size, np.bool_)
        left: NDArray = np.ones(size, np.bool_)
        before: list[Term] = []
        for leaf, tests in self.pieces:
            masks = masks_of([*leaf.outside, *tests], env)
            if masks is None:
                return None
            count = len(leaf.outside)
            here = left & ~either(masks[count:], size)
            told = {c for x in before for c in (x.args if x.op == "or" else (x,))}
            open_masks = {
                n: masks[n] & here
                for n, x in enumerate(leaf.outside)
                if x not in tests and not all(t.logical_not(c) in told for c in x.claims())
            }
            kept = list(open_masks)
            for n in sorted(kept, key=lambda n: -len(leaf.outside[n].form.parts)):
                rest = either([open_masks[k] for k in kept if k != n], size)
                if not bool((open_masks[n] & ~rest).any()):
                    if not every:
                        return None
                    kept.remove(n)
            total = total | either([open_masks[n] for n in kept], size)
            if kept:
                claims = [c for n in kept for c in leaf.outside[n].claims()]
                own = [] if leaf is self.pieces[-1][0] else [inside(tests)]
                parts.append(t.logical_and(*before, *own, t.logical_or(*claims)))
            before.append(t.logical_not(inside(tests)))
            left = left & ~here
        values = values_at(self.terms, env, size)
        if values is None or not is_padding(self.problem, total, values, env):
            return None
        return t.logical_or(*parts) if parts else None

    def _some_cells(self, declared: tuple[int, ...]) -> list[NDArray]:
        """A few cells, and those around the images of the corners of pieces."""
        points: list[list[int]] = []
        for leaf, _ in self.pieces:
            spans = [leaf.piece.ranges[v] for v in self.problem.inputs]
            for k in range(2 ** min(len(spans), 4)):
                points.append([stop - 1 if k >> min(n, 3) & 1 else low for n, (low, stop) in enumerate(spans)])
        arrays = np.array(points, np.int64).T
        images = values_at(self.problem.outputs, dict(zip(self.problem.inputs, arrays, strict=True)), len(points))
        result = probe(declared)
        if images is None:
            return result
        steps = [(0,) * n + (d,) + (0,) * (len(declared) - n - 1) for n in range(len(declared)) for d in (-1, 1)]
        return [
            np.concatenate([some, *(np.clip(a + step[n], 0, e - 1) for step in steps)])
            for n, (some, a, e) in enumerate(zip(result, images, declared, strict=True))
        ]


def inside(tests: Sequence[Outside]) -> Term:
    """A condition that holds where none of these does."""
    return t.logical_and(*(t.logical_not(c) for x in tests for c in x.claims()))


def _tests(leaf: Leaf, later: Sequence[Leaf], physical: Sequence[Term]) -> list[Outside] | None:
    """Conditions of a piece of which one is violated at every cell of each later one."""
    order = sorted(leaf.outside, key=lambda x: dag_size(inside([x])))
    chosen: list[Outside] = []
    left = list(later)
    for x in order:
        rest = [other for other in left if not leaf.separates(x, other, physical)]
        if len(rest) < len(left):
            chosen.append(x)
            left = rest
        if not left:
            return chosen
    return None


@lru_cache(maxsize=128)
def joined(problem: Problem) -> Joined | Direct | None:
    """The solution by pieces of a map over numbers, tried at a few points, at all of a small box; or None."""
    if problem.numbers is None or 0 in problem.numbers[0]:
        return None
    if not any(node.op in _CHOICES for node in postorder(*problem.outputs)):
        return None
    if set(problem.inputs) <= set(problem.outputs):
        return None  # nothing to solve, and the conditions are the outputs as they are written
    found = split(Piece(problem.box, problem.outputs))
    if found and all(all(map(_same, piece.outputs, found[0].outputs)) for piece in found):
        return direct(replace(problem, outputs=found[0].outputs))
    solved = [_leaf(problem, piece) for piece in found or ()]
    pieces = [leaf for leaf in solved if leaf is not None]
    if not pieces or len(pieces) < len(solved):
        return None
    for order in (pieces, pieces[::-1]):
        tests = [_tests(leaf, order[n + 1 :], problem.physical) for n, leaf in enumerate(order)]
        chain = [(leaf, some) for leaf, some in zip(order, tests, strict=True) if some is not None]
        if len(chain) == len(order):
            result = Joined(problem, chain)
            return result if _returns(result) else None
    return None


def _same(a: Term, b: Term) -> bool:
    return a is b


def _returns(found: Joined) -> bool:
    sample = found.problem.probe
    back = values_at(found.terms, sample.cells, sample.size)
    return back is not None and all(map(np.array_equal, back, sample.points.values()))
