"""Reading formulas off tables of values: affine forms (also modulo a number), bitwise linear forms, digit forms.

A question is a box of variables, the wanted value at some of its points, and "any" at the others. Every answer has been
compared with the whole table; what no form explains becomes a load from a constant table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.flat.map import FlatMap, Size
from eqsat.ir.flat.recognise import digits_of_array
from eqsat.ir.ranges.map_bounds import floor_div, modulo
from eqsat.ir.terms import term as t
from eqsat.ir.terms.tables import table_load
from eqsat.ir.terms.term import Term


@dataclass(frozen=True, eq=False)
class Box:
    """Variables with their extents, in row-major order; `wanted` marks the points whose value matters."""

    variables: tuple[Term, ...]
    extents: tuple[int, ...]
    wanted: NDArray

    @property
    def strides(self) -> list[int]:
        return [prod(self.extents[n + 1 :]) for n in range(len(self.extents))]

    def coordinates(self) -> list[NDArray]:
        """The value of every variable at every point."""
        flat = np.arange(prod(self.extents), dtype=np.int64)
        return [flat // s % max(e, 1) for s, e in zip(self.strides, self.extents, strict=True)]


def radices(outputs: Sequence[Term], extent: int) -> list[int]:
    """The weights of a chain of digits of an extent, suggested by the divisors in a formula; starts with 1."""
    from eqsat.ir.terms.walk import postorder

    found = {t.int_value(n.args[1]) for n in postorder(*outputs) if n.op in ("floordiv", "mod")}
    chain = [1]
    for c in sorted(c for c in found if c is not None and 1 < c < extent):
        if c % chain[-1] == 0 and extent % c == 0:
            chain.append(c)
    return chain


def formula(
    box: Box, values: NDArray, extent: int, weights: Sequence[int], cuts: Sequence[Sequence[int]]
) -> Term | None:
    """A term over the variables with these values in [0, extent); None where no known form fits.

    `weights` are suggested digits of the value (from 1 upwards), `cuts` those of each variable.
    """
    whole = _single(box, values, extent, cuts)
    if whole is not None or len(weights) == 1:
        return whole
    total = t.index_const(0)
    for weight, above in zip(weights, [*weights[1:], extent], strict=True):
        digit = _single(box, values // weight % (above // weight), above // weight, cuts)
        if digit is None:
            return None
        total = total + digit * weight
    return total


def _single(box: Box, values: NDArray, extent: int, cuts: Sequence[Sequence[int]]) -> Term | None:
    plain = _affine(box, values, extent, [[1] for _ in box.variables])
    if plain is not None:
        return plain
    if any(len(c) > 1 for c in cuts):
        cut = _affine(box, values, extent, cuts)
        if cut is not None:
            return cut
    if bool(box.wanted.all()):
        digits = digits_of_array(values, extent)
        read = None if digits is None else _digits(box, digits)
        if read is not None:
            return read
    return _bitwise(box, values)


def _affine(box: Box, values: NDArray, extent: int, cuts: Sequence[Sequence[int]]) -> Term | None:
    """offset + sum(a * digit), as it is or modulo the extent."""
    coordinates = box.coordinates()
    features: list[tuple[Term, NDArray]] = []
    steps: list[int] = []
    for v, e, stride, c, weights in zip(box.variables, box.extents, box.strides, coordinates, cuts, strict=True):
        for n, weight in enumerate(weights):
            radix = weights[n + 1] // weight if n + 1 < len(weights) else None
            term = floor_div(v, t.index_const(weight))
            array = c // weight
            if radix is not None:
                term, array = modulo(term, t.index_const(radix)), array % radix
            top = e // weight if radix is None else radix
            where = (array < top - 1) & (c + weight < e) & box.wanted
            ahead = np.zeros_like(where)
            step = weight * stride
            ahead[: len(ahead) - step] = box.wanted[step:]
            found = np.flatnonzero(where & ahead)
            features.append((term, array))
            steps.append(int(values[found[0] + step] - values[found[0]]) if found.size else 0)
    at = int(np.argmax(box.wanted))
    offset = int(values[at]) - sum(a * int(f[at]) for a, (_, f) in zip(steps, features, strict=True))
    total = np.full(len(values), offset, np.int64)
    for a, (_, f) in zip(steps, features, strict=True):
        total = total + a * f
    terms = [term for term, _ in features]
    if bool(np.array_equal(total[box.wanted], values[box.wanted])):
        return t.linear(offset, [(a, term) for a, term in zip(steps, terms, strict=True)])
    if bool(np.array_equal((total % extent)[box.wanted], values[box.wanted])):
        small = [((a + extent // 2) % extent - extent // 2, term) for a, term in zip(steps, terms, strict=True)]
        return modulo(t.linear(offset % extent, small), t.index_const(extent))
    return None


def _digits(box: Box, form: FlatMap) -> Term | None:
    """A digit form of the flat index, cut at the boundaries of the variables."""
    result = t.index_const(_number(form.offset))
    weight = prod(box.extents)
    for d in form.digits:
        extent, stride = _number(d.extent), _number(d.stride)
        weight //= max(extent, 1)
        if stride == 0:
            continue
        part = _range_of_flat(box, weight, weight * extent)
        if part is None:
            return None
        result = result + part * stride
    return result


def _number(size: Size) -> int:
    assert isinstance(size, int)
    return size


def _range_of_flat(box: Box, low: int, high: int) -> Term | None:
    """flat // low % (high // low), for the row-major flat index of the box, as digits of its variables."""
    result = t.index_const(0)
    for v, extent, stride in zip(box.variables, box.extents, box.strides, strict=True):
        above = stride * extent
        if stride >= high or above <= low or extent == 1:
            continue
        bottom, top = max(stride, low), min(above, high)
        if bottom % stride or top % bottom or (above % top if top < above else 0) or bottom % low:
            return None
        digit = floor_div(v, t.index_const(bottom // stride))
        if top < above:
            digit = modulo(digit, t.index_const(top // bottom))
        result = result + digit * (bottom // low)
    return result


def _bitwise(box: Box, values: NDArray) -> Term | None:
    """An xor of shifted bit fields of the variables, and a constant."""
    result: NDArray = np.zeros(len(values), np.int64)
    pieces: list[Term] = []
    for v, extent, stride, c in zip(box.variables, box.extents, box.strides, box.coordinates(), strict=True):
        bits = max(extent - 1, 0).bit_length()
        fields: dict[int, int] = {}  # shift to the left -> mask of source bits
        for s in range(bits):
            pairs = np.flatnonzero((c >> s & 1 == 0) & (c + (1 << s) < extent) & box.wanted)
            pairs = pairs[box.wanted[pairs + (stride << s)]]
            if not pairs.size:
                continue
            column = int(values[pairs[0]] ^ values[pairs[0] + (stride << s)])
            result = result ^ ((c >> s & 1) * column)
            while column:
                top = (column & -column).bit_length() - 1
                fields[top - s] = fields.get(top - s, 0) | 1 << s
                column &= column - 1
        for shift, mask in sorted(fields.items(), key=lambda item: -item[0]):
            kept = (1 << bits) - 1 if shift >= 0 else (1 << bits) - (1 << -shift)
            field = v if mask == kept else t.binary("bitand", v, mask)
            pieces.append(field * (1 << shift) if shift >= 0 else floor_div(field, t.index_const(1 << -shift)))
    at = int(np.argmax(box.wanted))
    origin = int(values[at] ^ result[at])
    if not bool(np.array_equal((result ^ origin)[box.wanted], values[box.wanted])):
        return None
    total = t.index_const(origin) if origin or not pieces else pieces.pop(0)
    for piece in pieces:
        total = t.binary("bitxor", total, piece)
    return total


def table(box: Box, values: NDArray) -> Term:
    """The values as a load from a constant table over the flat index of the box."""
    flat = t.linear(0, [(s, v) for v, s in zip(box.variables, box.strides, strict=True)])
    return table_load(np.where(box.wanted, values, 0), flat)
