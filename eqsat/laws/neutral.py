"""What a reduction may leave out: the reduced indices at which its body changes nothing that it is combined with.

The body is unfolded through views and element-wise operators into pieces, each a condition on the index and what the
body is there. A piece is neutral if it is a constant, evaluated in its dtype, that the combiner ignores: 0 and -0.0 in
a sum, whose total begins with 0 and so is never -0.0; 1 in a product; the least or greatest value of the type in a
maximum or minimum, or one that no other piece can pass (0 beside relu); and 0 times a constant of the program, if all
of its numbers are finite. NaN and inf, which 0 does not absorb, are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from eqsat.ir.dtypes import COMPLEX, NDArray, highest, lowest
from eqsat.ir.flat.map import Digit, FlatMap
from eqsat.ir.flat.size_samples import symbol_sample
from eqsat.ir.flat.size_terms import as_extent, as_size
from eqsat.ir.flat.sizes import Size, common, div, where_filled
from eqsat.ir.rule import Rule
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.shape import as_dim
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, substitute, symbols
from eqsat.laws.cell_terms import Cells, source_of
from eqsat.laws.pieces import holding, is_zero, pieces_of, span
from eqsat.operators.interned import Hub, Interned, ViewOf
from eqsat.operators.labels import CanonicalOp, ComputeKind
from eqsat.operators.moves import is_pointwise
from eqsat.operators.within import in_digits, labels_of
from eqsat.proving.rules import normaliser
from eqsat.rewriting.rewrite import Session

MOST_POINTS = 1 << 16
MOST_EXTENT = 1 << 14
MOST_DEPTH = 8


@dataclass(frozen=True, eq=False)
class LeftOut(Record):
    """An operator with its reduced labels in digits, the positions kept of some of them, and the statement, about the
    axes of a box, that the body is neutral at all others."""

    operator: CanonicalOp
    kept: Mapping[int, tuple[int, int]]
    claim: Term
    box: Mapping[Term, tuple[int, int | None]] = field(default_factory=dict[Term, "tuple[int, int | None]"])
    assuming: Term | None = None


def left_out(
    cells: Cells, operator: CanonicalOp, values: Mapping[int, int], rules: tuple[Rule, ...] = ()
) -> LeftOut | None:
    """What a reduction of some values, by operand, might leave out (proposed, not proved); None where nothing."""
    kind, interned = operator.kind, cells.interned
    if not isinstance(kind, ComputeKind) or kind.combiner is None or kind.identity or len(operator.outputs) != 1:
        return None
    shapes = [(k, x) for k, value in values.items() for x in dict.fromkeys(padded_shapes(interned, value))]
    if not shapes or kind.dtypes[0] in COMPLEX:
        return None
    whole = in_digits(operator, shapes)
    used = labels_of(whole)
    axes = {n: t.ax(n, as_extent(whole.labels[n].extent)) for n in used}
    body = cells.body(whole, values, axes)
    numbers = {axes[n]: (0, extent) for n in used if isinstance(extent := whole.labels[n].extent, int)}
    if body is None:
        return None
    session = Session(normaliser(rules), numbers)
    raised = filled({a: whole.labels[n].extent for n, a in axes.items()})
    idle = idle_where(session.normal(raised.term(body)), kind.combiner, kind.dtypes[0], finite_sources(interned))
    reduced = {n: raised.term(axes[n]) for n in used if whole.labels[n].role == "reduce" and axes[n] in numbers}
    least = 2 if kind.combiner == "sum" else 1  # -0.0 alone is no sum
    return outside_of(whole, idle, reduced, raised.extents, least)


@dataclass(frozen=True)
class Filled:
    """The axes of a box that has cells, with their extents, over symbols that are as large as that makes them."""

    symbols: Mapping[Term, Term]
    extents: Mapping[Term, Size]

    def term(self, x: Term) -> Term:
        """A term over these symbols."""
        return substitute(x, self.symbols)


def filled(extents: Mapping[Term, Size]) -> Filled:
    """The axes of a box of which nothing is asked where it has no cells: extents are at least 1 otherwise."""
    table: dict[Term, Term] = {}
    for s, low in where_filled(extents.values()).items():
        if s.op == "sym":
            name, lower, upper, multiple, _ = t.symbol_facts(s)
            if (lower is None or lower < low) and (upper is None or upper >= low):
                table[s] = t.sym(name, low, upper, multiple)
    sizes = {substitute(a, table): as_size(as_dim(substitute(a.args[0], table))) for a in extents}
    return Filled(table, sizes)


def outside_of(
    whole: CanonicalOp, idle: Term, reduced: Mapping[int, Term], extents: Mapping[Term, Size], least: int
) -> LeftOut | None:
    """The ranges of reduced labels, by their axes, outside of which a condition holds; extents: those of all axes."""
    kept = None if idle is t.FALSE else kept_ranges(idle, reduced, extents, least)
    if not kept:
        return None
    inside = [
        t.logical_and(t.compare("le", lo, reduced[n]), t.compare("lt", reduced[n], hi)) for n, (lo, hi) in kept.items()
    ]
    numbers = {a: (0, extent) for a, extent in extents.items() if isinstance(extent, int)}
    open_ = [a for a in extents if a not in numbers]
    box = {**numbers, **dict.fromkeys(open_, (0, None))}
    assuming = t.logical_and(*(t.compare("lt", a, t.as_index(a.args[0])) for a in open_)) if open_ else None
    return LeftOut(whole, kept, t.logical_or(idle, t.logical_and(*inside)), box, assuming)


def finite_sources(interned: Interned) -> set[str]:
    """The memory that holds no NaN and no infinity."""
    return {source_of(n) for n in interned.finite}


def padded_shapes(interned: Interned, value: int, depth: int = MOST_DEPTH) -> Iterator[tuple[Size, ...]]:
    """The digits of the views that pad below a value, where its cells are theirs, one by one."""
    item = interned.values[value]
    if isinstance(item, ViewOf):
        view = interned.reindexes[item.reindex]
        if view.fill is not None:
            yield tuple(d.extent for d in view.map.digits) if isinstance(view.map, FlatMap) else (view.map.n_out,)
            if isinstance(view.map, FlatMap) and not view.map.is_numeric:
                yield tuple(x for d in view.map.digits for x in _in_steps(d))
        elif depth:
            yield from padded_shapes(interned, item.base, depth - 1)
    elif isinstance(item, Hub) and depth:
        operator = interned.operators[item.operator]
        found = [(k, s) for k, x in enumerate(item.operands) for s in padded_shapes(interned, x, depth - 1)]
        if is_pointwise(operator):
            yield from (shape for _, shape in found)
        elif found and (isinstance(operator.kind, ComputeKind) or item.operator in interned.definitions):
            whole = in_digits(operator, dict.fromkeys(found), "map")  # what is kept may be one value around a part
            yield tuple(whole.labels[n].extent for n in whole.outputs[item.output])


def _in_steps(d: Digit) -> tuple[Size, ...]:
    """A digit as steps from which its window begins and ends at whole ones, and the rest."""
    step = d.extent
    for x in (d.lo, d.hi):
        step = step if x == 0 else common(step, x)
    steps = div(d.extent, step)
    return (d.extent,) if d.is_full or steps is None or step == 1 else (steps, step)


# -- the pieces of a body ----------------------------------------------------------------------------------------------


def idle_where(body: Term, combiner: str, dtype: str, finite: Collection[str]) -> Term:
    """A condition on the index under which a body is neutral; finite: memory that holds no NaN and no infinity."""
    pieces = pieces_of(body)
    spans = [span(x) for _, x in pieces]
    found: list[Term] = []
    for conditions, x in pieces:
        known = x.op == "const" and _ignored(combiner, dtype, t.const_value(x), spans)
        if known or (combiner == "sum" and is_zero(x, finite)):
            found.append(holding(conditions))
    return t.logical_or(t.FALSE, *found)


def _ignored(combiner: str, dtype: str, value: object, spans: Sequence[tuple[float, float]]) -> bool:
    number = np.asarray(value)
    if combiner == "sum":
        return bool(number == 0)
    if combiner == "prod":
        return bool(number == 1)
    if combiner == "max":
        return bool(number == lowest(dtype)) or all(number <= low for low, _ in spans)
    return combiner == "min" and (bool(number == highest(dtype)) or all(number >= high for _, high in spans))


# -- the part that is kept ---------------------------------------------------------------------------------------------


def kept_ranges(
    idle: Term, reduced: Mapping[int, Term], extents: Mapping[Term, Size], least: int
) -> dict[int, tuple[int, int]]:
    """Ranges of reduced positions outside of which a condition holds, at points: all of them, or chosen ones."""
    found: dict[int, tuple[int, int]] = {}
    sizes = {s: np.asarray(symbol_sample(s, 3)) for s in symbols(idle)}
    mentioned = set(nodes_of("axis", idle))
    for n, axis in reduced.items():
        extent = extents[axis]
        if axis not in mentioned or not isinstance(extent, int) or extent > MOST_EXTENT or extent < 1:
            continue
        others = sorted(mentioned - {axis}, key=str)
        env, rows = _points(others, extents, max(1, MOST_POINTS // extent))
        value, bad = evaluate_masked([idle], {**sizes, **env, axis: np.arange(extent)[:, None]})[0]
        used = ~np.asarray(value, bool) if bad is None else ~np.asarray(value, bool) | bad
        at = np.flatnonzero(np.broadcast_to(used, (extent, rows)).any(axis=1))
        low, high = (int(at[0]), int(at[-1]) + 1) if at.size else (0, 0)
        low = min(low, max(0, extent - least))
        high = max(high, low + least)
        if high - low < extent:
            found[n] = low, high
    return found


def _points(axes: Sequence[Term], extents: Mapping[Term, Size], most: int) -> tuple[dict[Term, NDArray], int]:
    """Points of a box: its corners, and random ones."""
    random = np.random.default_rng(len(axes))
    rows = min(most, 256) if axes else 1
    env: dict[Term, NDArray] = {}
    for axis in axes:
        extent = extents[axis]
        top = max(1, extent if isinstance(extent, int) else 3)
        places = random.integers(0, top, rows)
        places[: rows // 2] = np.where(random.integers(0, 2, rows // 2) == 0, 0, top - 1)
        env[axis] = places[None, :]
    return env, rows
