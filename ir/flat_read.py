"""Reading the index formula of a View as a flat map: which digits of the output index make every source address affine.

`//` and `%` cut an axis into digits; a formula whose cuts nest, and whose parts never carry, is a digit map of any
size, symbolic ones included. What no cuts explain is read from the table of its values, where that is small enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eqsat.ir.decide import load_table
from eqsat.ir.dtypes import NDArray
from eqsat.ir.evaluate import evaluate_masked
from eqsat.ir.flat_map import FlatMap, digit, from_digits
from eqsat.ir.flat_table import Map, from_array
from eqsat.ir.shape import Shape, static_shape
from eqsat.ir.size_terms import as_size, shape_size
from eqsat.ir.sizes import Size, add, at_most, div, mul
from eqsat.ir.tensor import View, output_axes
from eqsat.ir.term import Term
from eqsat.ir.views import flatten
from eqsat.ir.walk import postorder

TABLE_POINTS = 1 << 20

Piece = tuple[int, int]  # (axis, number of the piece within the axis, outermost first)


class _Cut(Exception):
    """Asks for a cut of an axis and another reading."""

    def __init__(self, axis: int, stride: Size) -> None:
        super().__init__(axis, stride)
        self.axis, self.stride = axis, stride


class _NoDigits(Exception):
    """The formula has no digit form that this reader finds."""


class _Sum:
    """constant + sum of coefficient * piece."""

    __slots__ = ("constant", "parts")

    def __init__(self, constant: Size, parts: dict[Piece, Size]) -> None:
        self.constant = constant
        self.parts = parts


class _Reader:
    """One reading of formulas under given cuts: strides per axis, ascending, the first is 1."""

    def __init__(self, shape: Sequence[Size], cuts: Sequence[Sequence[Size]]) -> None:
        self.shape = shape
        self.pieces: dict[Piece, tuple[Size, Size]] = {}  # extent, stride within the axis
        for axis, (extent, strides) in enumerate(zip(shape, cuts, strict=True)):
            for k, (low, high) in enumerate(zip(strides, [*strides[1:], extent], strict=True)):
                count = div(high, low)
                if count is None:
                    raise _NoDigits
                self.pieces[axis, len(strides) - 1 - k] = (count, low)

    def axis(self, n: int) -> _Sum:
        return _Sum(0, {p: stride for p, (_, stride) in self.pieces.items() if p[0] == n})

    def read(self, term: Term) -> _Sum:
        done: dict[Term, _Sum] = {}
        for node in postorder(term):
            done[node] = self.node(node, done)
        return done[term]

    def node(self, node: Term, done: Mapping[Term, _Sum]) -> _Sum:
        if node.op == "const":
            return _Sum(node.payload, {})
        if node.op == "axis":
            return self.axis(node.payload[1])
        if node.op == "sym":
            return _Sum(as_size(node), {})
        if node.op == "sum":
            constant, coefficients = node.payload
            total = _Sum(constant, {})
            for c, a in zip(coefficients, node.args, strict=True):
                total = self.add(total, self.scale(done[a], c))
            return total
        if node.op == "prod":
            total = done[node.args[0]]
            for a in node.args[1:]:
                total = self.multiply(total, done[a])
            return total
        if node.op in ("floordiv", "mod"):
            divisor = done[node.args[1]]
            if divisor.parts or not at_most(1, divisor.constant):
                raise _NoDigits
            return self.divide(done[node.args[0]], divisor.constant, node.op == "floordiv")
        raise _NoDigits

    def scale(self, a: _Sum, c: Size) -> _Sum:
        return _Sum(mul(a.constant, c), {p: mul(k, c) for p, k in a.parts.items()} if c != 0 else {})

    def multiply(self, a: _Sum, b: _Sum) -> _Sum:
        if not a.parts:
            return self.scale(b, a.constant)
        if not b.parts:
            return self.scale(a, b.constant)
        raise _NoDigits

    def add(self, a: _Sum, b: _Sum) -> _Sum:
        constant = add(a.constant, b.constant)
        parts = dict(a.parts)
        for p, k in b.parts.items():
            total = add(parts[p], k) if p in parts else k
            if total is None:
                raise _NoDigits
            if total == 0:
                del parts[p]
            else:
                parts[p] = total
        if constant is None:
            raise _NoDigits
        return _Sum(constant, parts)

    def divide(self, a: _Sum, c: Size, quotient: bool) -> _Sum:
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
        if not (at_most(0, bottom) and at_most(_plus(top, 1), c)):
            self.ask_cut(rest, c)
        return _Sum(high, whole) if quotient else _Sum(low, rest)

    def reach(self, parts: Mapping[Piece, Size], start: Size) -> tuple[Size, Size]:
        bottom = top = start
        for p, k in parts.items():
            last = mul(k, _plus(self.pieces[p][0], -1))
            if at_most(0, k):
                top = _plus(top, last)
            else:
                bottom = _plus(bottom, last)
        return bottom, top

    def ask_cut(self, rest: Mapping[Piece, Size], c: Size) -> None:
        for p, k in rest.items():
            below = div(c, k) if at_most(1, k) else None
            extent, stride = self.pieces[p]
            if below is not None and below != 1 and div(extent, below) not in (None, 1):
                raise _Cut(p[0], mul(stride, below))
        raise _NoDigits


def _plus(a: Size, b: Size) -> Size:
    total = add(a, b)
    if total is None:
        raise _NoDigits
    return total


def _windows(reader: _Reader, valid: Term) -> dict[Piece, tuple[Size, Size]]:
    """The window of each piece, for a conjunction of bounds on single pieces."""
    windows: dict[Piece, tuple[Size, Size]] = {}
    for claim in valid.args if valid.op == "and" else (valid,):
        if claim.op == "const" and claim.payload:
            continue
        if claim.op not in ("lt", "le"):
            raise _NoDigits
        room = reader.add(reader.read(claim.args[1]), reader.scale(reader.read(claim.args[0]), -1))
        slack = room.constant if claim.op == "le" else _plus(room.constant, -1)  # slack + sum >= 0
        if len(room.parts) != 1:
            raise _NoDigits
        ((p, k),) = room.parts.items()
        extent = reader.pieces[p][0]
        lo, hi = windows.get(p, (0, extent))
        if k == 1:
            start = mul(-1, slack)
            lo = start if at_most(lo, start) else lo if at_most(start, lo) else _give_up()
        elif k == -1:
            stop = _plus(slack, 1)
            hi = stop if at_most(stop, hi) else hi if at_most(hi, stop) else _give_up()
        else:
            if not isinstance(k, int) or not isinstance(slack, int):
                raise _NoDigits
            lo, hi = _int_window(k, slack, lo, hi)
        windows[p] = (lo, hi)
    return windows


def _give_up() -> Size:
    raise _NoDigits


def _int_window(k: int, slack: int, lo: Size, hi: Size) -> tuple[Size, Size]:
    """The d with slack + k*d >= 0, within [lo, hi)."""
    if not isinstance(lo, int) or not isinstance(hi, int):
        raise _NoDigits
    return (max(lo, -(slack // k)), hi) if k > 0 else (lo, min(hi, slack // -k + 1))


def _digits(view: View, shape: Shape) -> FlatMap | None:
    extents = [as_size(d) for d in shape]
    cuts: list[list[Size]] = [[1] for _ in extents]
    address = flatten(view.gather, view.source.shape)
    for _ in range(64):
        try:
            reader = _Reader(extents, cuts)
            total = reader.read(address)
            windows = _windows(reader, view.valid)
            digits = [
                digit(extent, total.parts.get(p, 0), *windows.get(p, (0, extent)))
                for p, (extent, _) in sorted(reader.pieces.items())
            ]
            if any(not (at_most(d.lo, d.hi) and at_most(0, d.lo)) for d in digits):
                return None
            return from_digits(shape_size(view.source.shape), digits, total.constant)
        except _Cut as cut:
            strides = cuts[cut.axis]
            if cut.stride in strides:
                return None
            at = next((k for k, s in enumerate(strides) if not at_most(s, cut.stride)), len(strides))
            strides.insert(at, cut.stride)
        except _NoDigits:
            return None
    return None


def _table(view: View, shape: tuple[int, ...], limit: int) -> Map | None:
    source = static_shape(view.source.shape)
    points = int(np.prod(shape, dtype=np.int64))
    if source is None or points > limit:
        return None
    env: dict[Term, NDArray] = {}
    for n, axis in enumerate(output_axes(shape)):
        env[axis] = np.arange(shape[n], dtype=np.int64).reshape([-1 if k == n else 1 for k in range(len(shape))])
    (address, bad), (valid, bad_valid) = evaluate_masked([flatten(view.gather, source), view.valid], env, load_table)
    if bad_valid is not None and bool(np.any(bad_valid)):
        return None
    if bad is not None and bool(np.any(np.logical_and(bad, valid))):
        return None
    cells = np.where(valid, address, -1)
    return from_array(np.broadcast_to(cells, shape).reshape(-1), int(np.prod(source, dtype=np.int64)))


def map_of_view(view: View, limit: int = TABLE_POINTS) -> Map | None:
    """The flat map of a View, its fill left out; None where neither digits nor a small table describe it.

    >>> import eqsat.ir.tensor as T
    >>> print(map_of_view(T.input("x", (2, 3), "float32").permute_dims((1, 0)).node))
    (3:1, 2:3) of 6
    """
    shape = view.outputs[0][0]
    found = _digits(view, shape)
    numbers = static_shape(shape)
    return found if found is not None or numbers is None else _table(view, numbers, limit)
