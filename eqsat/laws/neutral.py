"""What a reduction may leave out: the reduced indices at which its body changes nothing that it is combined with.

The body is unfolded through views and element-wise operators into pieces, each a condition on the index and what the
body is there. A piece is neutral if it is a constant, evaluated in its dtype, that the combiner ignores: 0 and -0.0 in
a sum, whose total begins with 0 and so is never -0.0; 1 in a product; the least or greatest value of the type in a
maximum or minimum, or one that no other piece can pass (0 beside relu); and 0 times a constant of the program, if all
of its numbers are finite. NaN and inf, which 0 does not absorb, are kept.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from eqsat.ir.dtypes import BOOL, COMPLEX, INDEX, NDArray, highest, is_float, lowest
from eqsat.ir.flat.map import FlatMap
from eqsat.ir.flat.size_samples import symbol_sample
from eqsat.ir.flat.size_terms import as_extent, as_size
from eqsat.ir.flat.sizes import Size, where_filled
from eqsat.ir.rule import Rule
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.shape import as_dim
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, postorder, substitute, symbols
from eqsat.laws.cell_terms import Cells, source_of
from eqsat.operators.interned import Hub, Interned, ViewOf
from eqsat.operators.labels import CanonicalOp, ComputeKind
from eqsat.operators.moves import is_pointwise
from eqsat.operators.within import in_digits, labels_of
from eqsat.proving.rules import normaliser
from eqsat.rewriting.rewrite import Session

MOST_PIECES = 32
MOST_POINTS = 1 << 16
MOST_EXTENT = 1 << 14
MOST_DEPTH = 8
Conditions = dict[Term, bool]


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
    interned: Interned, operator: CanonicalOp, values: Mapping[int, int], rules: tuple[Rule, ...] = ()
) -> LeftOut | None:
    """What a reduction of some values, by operand, might leave out (proposed, not proved); None where nothing."""
    kind = operator.kind
    if not isinstance(kind, ComputeKind) or kind.combiner is None or kind.identity or len(operator.outputs) != 1:
        return None
    shapes = [(k, x) for k, value in values.items() for x in dict.fromkeys(padded_shapes(interned, value))]
    if not shapes or kind.dtypes[0] in COMPLEX:
        return None
    whole = in_digits(operator, shapes)
    used = labels_of(whole)
    axes = {n: t.ax(n, as_extent(whole.labels[n].extent)) for n in used}
    body = Cells(interned).body(whole, values, axes)
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
        elif depth:
            yield from padded_shapes(interned, item.base, depth - 1)
    elif isinstance(item, Hub) and depth and is_pointwise(interned.operators[item.operator]):
        for x in item.operands:
            yield from padded_shapes(interned, x, depth - 1)


# -- the pieces of a body ----------------------------------------------------------------------------------------------


def idle_where(body: Term, combiner: str, dtype: str, finite: Collection[str]) -> Term:
    """A condition on the index under which a body is neutral; finite: memory that holds no NaN and no infinity."""
    pieces = _pieces(body)
    spans = [_span(x) for _, x in pieces]
    found: list[Term] = []
    for conditions, x in pieces:
        known = x.op == "const" and _ignored(combiner, dtype, t.const_value(x), spans)
        if known or (combiner == "sum" and _is_zero(x, finite)):
            found.append(t.logical_and(t.TRUE, *(c if yes else t.logical_not(c) for c, yes in conditions.items())))
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


def _is_zero(x: Term, finite: Collection[str]) -> bool:
    """Whether a value is 0 or -0.0: 0 times what is finite is."""
    if x.op == "const":
        return bool(np.asarray(t.const_value(x)) == 0)
    if x.op != "mul":
        return False
    known = [(a.op == "load" and a.payload in finite) or _is_finite(a) for a in x.args]
    return any(_is_zero(a, finite) and known[1 - k] for k, a in enumerate(x.args))


def _is_finite(x: Term) -> bool:
    """Whether a value is no NaN and no infinity: it may be what is chosen where it is none."""
    if x.op == "const":
        return bool(np.isfinite(np.asarray(t.const_value(x))))
    if x.op != "where":
        return False
    condition, yes, no = x.args
    either = condition.args if condition.op == "or" else (condition,)
    tested = {(c.op, c.args[0]) for c in either if c.op in ("isinf", "isnan")}
    return _is_finite(yes) and (_is_finite(no) or {("isinf", no), ("isnan", no)} <= tested)


def _pieces(body: Term) -> list[tuple[Conditions, Term]]:
    """A formula as formulas without choices by the index, each under its conditions; the whole where those are many."""
    done: dict[Term, list[tuple[Conditions, Term]]] = {}
    for node in postorder(body):
        if node.dtype == INDEX or node.op in ("const", "load", "axis", "hole") or _by_index(node):
            done[node] = [({}, node)]
        elif node.op == "where" and _by_index(node.args[0]):
            sides = ((yes, piece) for yes, a in ((True, node.args[1]), (False, node.args[2])) for piece in done[a])
            chosen = [({**c, node.args[0]: yes}, x) for yes, (c, x) in sides if c.get(node.args[0], yes) == yes]
            done[node] = chosen if len(chosen) <= MOST_PIECES else [({}, node)]
        else:
            done[node] = _combined(node, [done[a] for a in node.args])
    return done[body]


def _by_index(node: Term) -> bool:
    """Whether a predicate is one on the index alone."""
    return node.dtype == BOOL and not nodes_of("load", node) and not nodes_of("hole", node)


def _combined(node: Term, args: list[list[tuple[Conditions, Term]]]) -> list[tuple[Conditions, Term]]:
    if math.prod(map(len, args)) > MOST_PIECES**2:
        return [({}, node)]
    result: list[tuple[Conditions, Term]] = []
    for chosen in product(*args):
        conditions: dict[Term, bool] = {}
        if all(conditions.setdefault(c, yes) == yes for own, _ in chosen for c, yes in own.items()):
            result.append((conditions, _evaluated(node, [x for _, x in chosen])))
    return result if len(result) <= MOST_PIECES else [({}, node)]


def _evaluated(node: Term, args: list[Term]) -> Term:
    """An operation on some arguments: in its dtype where they are constants; what 0 absorbs, among integers."""
    made = t.rebuild(node, args)
    if args and all(a.op == "const" for a in args) and made.op != "const":
        value, bad = evaluate_masked([made], {})[0]
        return made if bad is not None and bool(np.any(bad)) else t.const(np.asarray(value)[()], made.dtype)
    if made.op in ("add", "sub") and is_float(made.dtype):
        endless = [n for n, a in enumerate(args) if a.op == "const" and np.isinf(np.asarray(t.const_value(a)))]
        if len(endless) == 1 and _is_finite(args[1 - endless[0]]):
            return args[0] if endless == [0] else _evaluated(node, [t.const(0, made.dtype), args[1]])
    zero = made.op == "mul" and not is_float(made.dtype) and made.dtype not in (INDEX, BOOL, *COMPLEX)
    return next((a for a in args if zero and a.op == "const" and not a.payload), made)


def _span(x: Term) -> tuple[float, float]:
    """Between which numbers a value lies, where it is not NaN, which every maximum and minimum keeps."""
    known: dict[Term, tuple[float, float]] = {}
    for node in postorder(x):
        args = [known.get(a, (-math.inf, math.inf)) for a in node.args]
        span = -math.inf, math.inf
        if node.op == "const" and node.dtype != INDEX and not np.isnan(value := np.asarray(t.const_value(node))):
            span = float(value), float(value)
        elif node.op in ("max", "min"):
            pick = max if node.op == "max" else min
            span = pick(args[0][0], args[1][0]), pick(args[0][1], args[1][1])
        elif node.op == "where":
            span = min(args[1][0], args[2][0]), max(args[1][1], args[2][1])
        elif is_float(node.dtype) and node.op in ("abs", "exp", "sqrt"):
            span = 0.0, math.inf
        known[node] = span
    return known[x]


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
