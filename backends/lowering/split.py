"""Loop nests over digits: axes are cut and split until divisions, guards and wrap-arounds are decided in each piece.

A kernel is a list of root terms (the body, where it is stored, what must be shown) over axes in loop order. For the
next axis of the order, three things may happen before it becomes a loop:

* *cut* at the positions where a comparison, a minimum or an absolute value changes its answer: the interior of a pad is
  a piece without a guard, its border another; so are the operands of a concat and the two parts of a roll;
* *cut and split* where a division x // c does not follow the axis: the range is aligned, then axis = step * high + low,
  and the quotient is a digit;
* *tile*: the inner digit of the axis is deferred behind all other loops.

Each is an exact change of index, so any choice is correct; what stays undecided stays in the terms.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from eqsat.backends.lowering.index_simplifier import IndexSimplifier, nonnegative_form
from eqsat.ir.dtypes import INDEX
from eqsat.ir.statements.stmt import For, Stmt, seq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, int_value, linear_parts
from eqsat.ir.terms.walk import postorder, substitute

MAX_CUTS = 128
"""An axis may be cut at so many places, or where as many pieces as that are allowed in all, as of many operands."""
MOST_AT_ONCE = 8
"""Pieces that are made of one axis without halves between."""
EVIDENCE = 3
"""The roots of one claim: where it is to be shown, the form that is not negative there, and the claim's number."""
Roots = tuple[Term, ...]
Axes = tuple[Term, ...]
Leaf = Callable[[Roots, Axes], list[Stmt]]


class TooManyPieces(Exception):
    """The nest would have more pieces than allowed; the caller asks for a plainer one."""


@dataclass(frozen=True)
class Policy:
    """How far to go: cut where guards change, split where divisions do, and how many pieces in all."""

    cut: bool = True
    split: bool = True
    pieces: int = 64


def extent_of(axis: Term) -> int:
    """The extent of an axis, a number."""
    number = int_value(axis.args[0])
    assert number is not None
    return number


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up, for b > 0."""
    return -(-a // b)


class Nest:
    """Builds the statements of one kernel. `tiles` gives axes the extent of their deferred inner digit."""

    def __init__(self, simplifier: IndexSimplifier, policy: Policy, tiles: dict[Term, int], questions: int) -> None:
        self.simplifier = simplifier
        self.policy = policy
        self.tiles = tiles
        self.least: dict[Term, int] = {}
        """How long the last tile of an axis is at least: it may overlap the one before."""
        self.apart: set[Term] = set()
        """Axes whose tiles must not overlap: what they add to stays from one visit to the next."""
        self.questions = questions
        """How many of the roots, from the first, may ask for cuts and splits; behind them stands evidence."""
        self.origin: dict[Term, Term] = {}
        """The axis of the order that a digit or a piece is a part of."""
        self.made = 0
        self.leaves = 0

    @contextmanager
    def tiled_within(self) -> Generator[None]:
        """Tiles that are set inside of the block are those of one piece, which the next one need not have."""
        before = dict(self.tiles), dict(self.least), set(self.apart)
        try:
            yield
        finally:
            self.tiles, self.least, self.apart = before

    def fresh(self, like: Term, extent: int) -> Term:
        """A new axis of the same role."""
        self.made += 1
        axis = t.make("axis", (t.index_const(extent),), (like.payload[0], 1000 + self.made))
        self.origin[axis] = self.origin.get(like, like)
        return axis

    def put(self, roots: Roots, axis: Term, value: Term) -> Roots:
        """The roots with another term for an axis, without evidence that is shown by that: what is so on a piece is so
        on all pieces of it, which are then asked about what is open only."""
        table, first = {axis: value}, self.questions
        kept = [*self.simplifier.simplify_all(substitute(r, table) for r in roots[:first])]
        for claim in zip(*(roots[first + n :: EVIDENCE] for n in range(EVIDENCE)), strict=True):
            guard = self.simplifier.simplify(substitute(claim[0], table))
            if guard is t.FALSE:
                continue
            form = self.simplifier.simplify(substitute(claim[1], table))
            known = self.simplifier.range(form)
            if known is None or known[0] < 0:
                kept += guard, form, *claim[2:]
        return tuple(kept)

    def build(self, order: Axes, roots: Roots, leaf: Leaf, deferred: Axes = ()) -> list[Stmt]:
        """Loops over the axes in order; `leaf` gets the roots at each innermost place, and the deferred axes."""
        if not order:
            self.leaves += 1
            if self.leaves > self.policy.pieces:
                raise TooManyPieces
            return leaf(roots, deferred)
        axis, rest = order[0], order[1:]
        extent = extent_of(axis)
        if extent == 1:
            return self.build(rest, self.put(roots, axis, t.index_const(0)), leaf, deferred)
        cuts = self.sign_cuts(axis, roots) if self.policy.cut else set[int]()
        step = 0
        if not cuts and self.policy.split:
            step, cuts = self.division(axis, roots)
        tile = self.tiles.get(axis, 0)
        if tile and not cuts:
            if extent <= tile:
                low = self.fresh(axis, extent)
                return self.build(rest, self.put(roots, axis, low), leaf, (*deferred, low))
            cuts = {extent // tile * tile} - {extent}
            step = 0 if cuts else tile
            if axis in self.apart and 0 < extent % tile < self.least.get(axis, 0):
                # The last whole tile and the rest are shared out anew, or are one.
                before, half = extent - extent % tile - tile, extent - self.least[axis]
                if before or half >= self.least[axis]:
                    return self.segments(axis, [before or half], rest, roots, leaf, deferred)
                low = self.fresh(axis, extent)
                return self.build(rest, self.put(roots, axis, low), leaf, (*deferred, low))
            if cuts:
                last = max(extent % tile, min(self.least.get(axis, 0), extent))
                return self.segments(axis, sorted(cuts), rest, roots, leaf, deferred, last)
        if cuts:
            return self.segments(axis, sorted(cuts), rest, roots, leaf, deferred)
        if step:
            high, low = self.fresh(axis, extent // step), self.fresh(axis, step)
            roots = self.put(roots, axis, step * high + low)
            if tile:
                return self.build((high, *rest), roots, leaf, (*deferred, low))
            return self.build((high, low, *rest), roots, leaf, deferred)
        body = self.build(rest, roots, leaf, deferred)
        return [For(axis, seq(body))] if body else []

    def segments(
        self, axis: Term, cuts: Sequence[int], rest: Axes, roots: Roots, leaf: Leaf, deferred: Axes, last: int = 0
    ) -> list[Stmt]:
        """One nest for each piece of the axis; the last one is of length `last` at least."""
        parts: list[Stmt] = []
        extent = extent_of(axis)
        bounds = list(zip([0, *cuts], [*cuts, extent], strict=True))
        bounds[-1] = (min(bounds[-1][0], extent - last), extent)
        for piece, inside in self.pieces(axis, 0, bounds, roots):
            if axis in self.tiles:
                self.tiles[piece] = self.tiles[axis]
            if axis in self.least:
                self.least[piece] = self.least[axis]
            if axis in self.apart:
                self.apart.add(piece)
            parts += self.build((piece, *rest), inside, leaf, deferred)
        return parts

    def pieces(
        self, axis: Term, offset: int, bounds: Sequence[tuple[int, int]], roots: Roots
    ) -> Iterator[tuple[Term, Roots]]:
        """Pieces of an axis that starts at an offset, each with the roots on it: of many, those of each half from the
        roots on that half, which say less than all."""
        if len(bounds) <= MOST_AT_ONCE:
            for start, stop in bounds:
                piece = self.fresh(axis, stop - start)
                yield piece, self.put(roots, axis, start - offset + piece)
            return
        middle = len(bounds) // 2
        for half in (bounds[:middle], bounds[middle:]):
            low, high = min(start for start, _ in half), half[-1][1]
            whole = self.fresh(axis, high - low)
            yield from self.pieces(whole, low, half, self.put(roots, axis, low - offset + whole))

    def asking(self, roots: Roots) -> Iterable[Term]:
        """The index terms and predicates whose answer may depend on a cut."""
        return postorder(*roots[: self.questions])

    def sign_cuts(self, axis: Term, roots: Roots) -> set[int]:
        """Where on the axis some f(axis) >= 0 starts or stops to be decided."""
        cuts: set[int] = set()
        for node in self.asking(roots):
            for form in sign_forms(node):
                cuts |= self.sign_change(axis, form)
        return cuts if len(cuts) <= max(MAX_CUTS, self.policy.pieces) else set()

    def sign_change(self, axis: Term, form: Term) -> set[int]:
        """Between which positions form >= 0 is undecided, as cuts inside of the axis."""
        k = dict((u, c) for c, u in linear_parts(form)[1]).get(axis, 0)
        known = self.simplifier.range(form - k * axis) if k else None
        if known is None:
            return set()
        low, high = known
        bounds = (ceil_div(-low, k), ceil_div(-high, k)) if k > 0 else (low // -k + 1, high // -k + 1)
        return {b for b in bounds if 0 < b < extent_of(axis)}

    def division(self, axis: Term, roots: Roots) -> tuple[int, set[int]]:
        """The largest step of the axis on which some x // c or x % c is one digit; and the cuts that align it."""
        best: tuple[int, set[int]] = (0, set())
        for node in self.asking(roots):
            c = int_value(node.args[1]) if node.dtype == INDEX and node.op in ("floordiv", "mod") else None
            if c is not None and c > 0:
                found = self.align(axis, node.args[0], c)
                if found[0] > best[0] or (found[0] == best[0] and len(found[1]) > len(best[1])):
                    best = found
        return best

    def align(self, axis: Term, x: Term, c: int) -> tuple[int, set[int]]:
        """The step with which the axis runs through blocks of c of x, and the cuts before and after whole steps."""
        constant, parts = linear_parts(x)
        k = dict((u, n) for n, u in parts).get(axis, 0)
        if k % c == 0 or c % abs(k):
            return 0, set()
        others = [self.simplifier.range(n * u) for n, u in parts if u is not axis and n % c]
        if any(r is None for r in others):
            return 0, set()
        low = constant + sum(r[0] for r in others if r is not None)
        high = constant + sum(r[1] for r in others if r is not None)
        extent, step = extent_of(axis), c // abs(k)
        # With k < 0 the axis is read from its other end.
        first = (-low % c + k - 1) // k if k > 0 else (-(low + k * (extent - 1)) % c - k - 1) // -k
        start = first % step if k > 0 else (extent - first) % step
        at = [k * start, k * (start + step - 1)]
        if (low + min(at)) // c != (high + max(at)) // c:
            return 0, set()
        whole = (extent - start) // step if extent > start else 0
        cuts = {p for p in (start, start + whole * step) if 0 < p < extent}
        if not cuts and whole <= 1:
            return 0, set()
        return step, cuts


def sign_forms(node: Term) -> list[Term]:
    """The index terms f for which the node depends on whether f >= 0."""
    if not node.args or node.args[0].dtype != INDEX:
        return []
    if node.op in ("lt", "le"):
        form = nonnegative_form(node)
        return [] if form is None else [form]
    if node.op in ("eq", "ne"):
        difference = node.args[0] - node.args[1]
        return [difference, -difference]
    if node.op in ("min", "max"):
        return [node.args[0] - node.args[1]]
    return [node.args[0]] if node.op == "abs" else []
