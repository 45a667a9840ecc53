"""Reading an index formula under given cuts of its axes: every part becomes constant + sum of coefficient * piece."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from eqsat.ir.flat.size_terms import as_size
from eqsat.ir.flat.sizes import Size, at_most, div, factors, least, leaves_room, mul, signed_total, total, where_filled
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, postorder

MOST_CUTS = 64
Read = TypeVar("Read")
Piece = tuple[int, int]  # (axis, number of the piece within the axis, outermost first)


class Cut(Exception):
    """Asks for a cut of an axis and another reading."""

    def __init__(self, axis: int, stride: Size) -> None:
        super().__init__(axis, stride)
        self.axis, self.stride = axis, stride


class NoDigits(Exception):
    """The formula has no digit form that this reader finds."""


class Sum:
    """constant + sum of coefficient * piece."""

    __slots__ = ("constant", "parts")

    def __init__(self, constant: Size, parts: dict[Piece, Size]) -> None:
        self.constant = constant
        self.parts = parts


class Reader:
    """One reading of formulas under given cuts: strides per axis, ascending, the first is 1.

    Where `grown`, an axis that its cuts do not divide is read as if it ran on to the next multiple. What is read is
    asked of cells alone: the extents of the shape are at least 1 there, and those of the source, whose number of
    elements is `n_in`, at least 0.
    """

    def __init__(self, shape: Sequence[Size], cuts: Sequence[Sequence[Size]], n_in: Size, grown: bool = False) -> None:
        self.grown = grown
        self.filled = {f for extent in shape for f in factors(extent)}
        self.lows = where_filled(shape)
        self.whole = {*self.filled, *factors(n_in)}
        self.shape = [_multiple(e, strides[-1]) if grown else e for e, strides in zip(shape, cuts, strict=True)]
        self.pieces: dict[Piece, tuple[Size, Size]] = {}  # extent, stride within the axis
        for axis, (extent, strides) in enumerate(zip(self.shape, cuts, strict=True)):
            for k, (low, high) in enumerate(zip(strides, [*strides[1:], extent], strict=True)):
                count = div(high, low)
                if count is None:
                    raise NoDigits
                self.pieces[axis, len(strides) - 1 - k] = (count, low)

    def axis(self, n: int) -> Sum:
        return Sum(0, {p: stride for p, (_, stride) in self.pieces.items() if p[0] == n})

    def read(self, term: Term) -> Sum:
        axes = nodes_of("axis", term)
        done = {axis: self.axis(axis.payload[1]) for axis in axes}
        for node in postorder(term, done=done):
            done[node] = self.node(node, done)
        return done[term]

    def node(self, node: Term, done: Mapping[Term, Sum]) -> Sum:
        if node.op == "const":
            return Sum(node.payload, {})
        if node.op == "sym":
            return Sum(as_size(node), {})
        if node.op == "sum":
            constant, coefficients = node.payload
            result = Sum(constant, {})
            for c, a in zip(coefficients, node.args, strict=True):
                result = self.add(result, self.scale(done[a], c))
            return result
        if node.op == "prod":
            result = done[node.args[0]]
            for a in node.args[1:]:
                result = self.multiply(result, done[a])
            return result
        if node.op in ("floordiv", "mod"):
            divisor = done[node.args[1]]
            if divisor.parts or not self.certain(1, divisor.constant):
                raise NoDigits
            return self.divide(done[node.args[0]], divisor.constant, node.op == "floordiv")
        if node.op in ("min", "max") and not any(done[a].parts for a in node.args):
            return Sum(as_size(node), {})
        raise NoDigits

    def certain(self, a: Size, b: Size) -> bool:
        """Whether a <= b is certain where there are cells."""
        named = [f for f in (*factors(a), *factors(b)) if f not in self.filled]
        low = [least(f, self.lows) for f in named]
        if all(k is not None and k >= 1 for k in low):
            return at_most(a, b)
        if 0 in (a, b) and all(f in self.whole or (k is not None and k >= 0) for f, k in zip(named, low, strict=True)):
            return at_most(a, b)
        return leaves_room(a, b, self.lows)

    def sign(self, k: Size) -> int:
        """1 where a coefficient is at least 0 for certain, -1 where it is at most 0."""
        if self.certain(0, k):
            return 1
        if self.certain(k, 0):
            return -1
        raise NoDigits

    def scale(self, a: Sum, c: Size) -> Sum:
        if a.parts:
            self.sign(c)
        return Sum(mul(a.constant, c), {p: mul(k, c) for p, k in a.parts.items()} if c != 0 else {})

    def multiply(self, a: Sum, b: Sum) -> Sum:
        if not a.parts:
            return self.scale(b, a.constant)
        if not b.parts:
            return self.scale(a, b.constant)
        raise NoDigits

    def add(self, a: Sum, b: Sum) -> Sum:
        parts = dict(a.parts)
        for p, k in b.parts.items():
            joint = signed_total(parts[p], k) if p in parts else k
            if joint is None:
                raise NoDigits
            if joint == 0:
                del parts[p]
            else:
                parts[p] = joint
        return Sum(total(a.constant, b.constant), parts)

    def divide(self, a: Sum, c: Size, quotient: bool) -> Sum:
        """a // c or a % c, where the part of a below c does not carry."""
        whole: dict[Piece, Size] = {}
        rest: dict[Piece, Size] = {}
        for p, k in a.parts.items():
            ratio = div(k, c)
            if ratio is None:
                rest[p] = k
            else:
                whole[p] = ratio
        if isinstance(a.constant, int) and isinstance(c, int):
            high, low = divmod(a.constant, c)
        else:
            exact = div(a.constant, c)
            high, low = (exact, 0) if exact is not None else (0, a.constant)
        bottom, top = self.reach(rest, low)
        if not (self.certain(0, bottom) and self.certain(total(top, 1), c)):
            self.ask_cut(rest, c)
        return Sum(high, whole) if quotient else Sum(low, rest)

    def reach(self, parts: Mapping[Piece, Size], start: Size) -> tuple[Size, Size]:
        bottom = top = start
        for p, k in parts.items():
            last = mul(k, total(self.pieces[p][0], -1))
            if self.sign(k) > 0:
                top = total(top, last)
            else:
                bottom = total(bottom, last)
        return bottom, top

    def ask_cut(self, rest: Mapping[Piece, Size], c: Size) -> None:
        for p, k in rest.items():
            below = div(c, k) if self.certain(1, k) else None
            extent, stride = self.pieces[p]
            if below is None or below == 1:
                continue
            if p[1] == 0 and self.grown:
                extent = _multiple(extent, below)
            if div(extent, below) not in (None, 1):
                raise Cut(p[0], mul(stride, below))
        raise NoDigits


def with_cuts(axes: int, read: Callable[[list[list[Size]]], Read]) -> Read | None:
    """What is read under the cuts of axes that it turns out to need, none at first; None where none explain it."""
    cuts: list[list[Size]] = [[1] for _ in range(axes)]
    for _ in range(MOST_CUTS):
        try:
            return read(cuts)
        except Cut as cut:
            strides = cuts[cut.axis]
            if cut.stride in strides:
                return None
            at = next((k for k, s in enumerate(strides) if not at_most(s, cut.stride)), len(strides))
            strides.insert(at, cut.stride)
        except NoDigits:
            return None
    return None


def _multiple(extent: Size, stride: Size) -> Size:
    """The extent, or the next multiple of the stride, if both are numbers."""
    return -(-extent // stride) * stride if isinstance(extent, int) and isinstance(stride, int) else extent
