"""Reading the index formula of a View as a flat map: which digits of the output index make every source address affine.

`//` and `%` cut an axis into digits; a formula whose cuts nest, and whose parts never carry, is a digit map of any
size, symbolic ones included. What no cuts explain is read from the table of its values, where that is small enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.flat.map import FlatMap, digit, from_digits
from eqsat.ir.flat.reader import Cut, NoDigits, Piece, Reader, Sum, plus
from eqsat.ir.flat.size_terms import as_size, shape_size
from eqsat.ir.flat.sizes import Size, at_most, mul
from eqsat.ir.flat.table import Map, from_array
from eqsat.ir.tensors.tensor import View
from eqsat.ir.tensors.views import flatten
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.shape import output_axes, static_shape
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import symbols

TABLE_POINTS = 1 << 20


@dataclass(frozen=True)
class Reading:
    """A View read under fitting cuts: the source address, and the claims (each: sum >= 0) of a valid cell."""

    reader: Reader
    address: Sum
    claims: tuple[Sum, ...]


def read_view(view: View, grown: bool = False) -> Reading | None:
    """The formulas of a View as sums over pieces of its axes; None where no cuts explain them."""
    extents = [as_size(d) for d in view.outputs[0][0]]
    cuts: list[list[Size]] = [[1] for _ in extents]
    address = flatten(view.gather, view.source.shape)
    for _ in range(64):
        try:
            reader = Reader(extents, cuts, grown)
            return Reading(reader, reader.read(address), tuple(_claims(reader, view.valid)))
        except Cut as cut:
            strides = cuts[cut.axis]
            if cut.stride in strides:
                return None
            at = next((k for k, s in enumerate(strides) if not at_most(s, cut.stride)), len(strides))
            strides.insert(at, cut.stride)
        except NoDigits:
            return None
    return None


def _claims(reader: Reader, valid: Term) -> Iterator[Sum]:
    """The sums that are at least 0 exactly where a conjunction of comparisons holds."""
    for claim in valid.args if valid.op == "and" else (valid,):
        if claim.op == "const" and claim.payload:
            continue
        if claim.op not in ("lt", "le"):
            raise NoDigits
        room = reader.add(reader.read(claim.args[1]), reader.scale(reader.read(claim.args[0]), -1))
        yield room if claim.op == "le" else Sum(plus(room.constant, -1), room.parts)


def windows(reader: Reader, claims: Iterable[Sum]) -> dict[Piece, tuple[Size, Size]]:
    """The window of each piece, for claims on single pieces."""
    found: dict[Piece, tuple[Size, Size]] = {}
    for room in claims:
        if len(room.parts) != 1:
            raise NoDigits
        ((p, k),) = room.parts.items()
        slack, extent = room.constant, reader.pieces[p][0]
        lo, hi = found.get(p, (0, extent))
        if k == 1:
            start = mul(-1, slack)
            lo = start if at_most(lo, start) else lo if at_most(start, lo) else _give_up()
        elif k == -1:
            stop = plus(slack, 1)
            hi = stop if at_most(stop, hi) else hi if at_most(hi, stop) else _give_up()
        else:
            if not isinstance(k, int) or not isinstance(slack, int):
                raise NoDigits
            lo, hi = _int_window(k, slack, lo, hi)
        if not (at_most(lo, hi) and at_most(0, lo)):
            raise NoDigits
        found[p] = (lo, hi)
    return found


def _give_up() -> Size:
    raise NoDigits


def _int_window(k: int, slack: int, lo: Size, hi: Size) -> tuple[Size, Size]:
    """The d with slack + k*d >= 0, within [lo, hi)."""
    if not isinstance(lo, int) or not isinstance(hi, int):
        raise NoDigits
    return (max(lo, -(slack // k)), hi) if k > 0 else (lo, min(hi, slack // -k + 1))


def _digits(view: View) -> FlatMap | None:
    reading = read_view(view)
    if reading is None:
        return None
    try:
        bounds = windows(reading.reader, reading.claims)
    except NoDigits:
        return None
    digits = [
        digit(extent, reading.address.parts.get(p, 0), *bounds.get(p, (0, extent)))
        for p, (extent, _) in sorted(reading.reader.pieces.items())
    ]
    return from_digits(shape_size(view.source.shape), digits, reading.address.constant)


def _table(view: View, shape: tuple[int, ...], limit: int) -> Map | None:
    source = static_shape(view.source.shape)
    points = int(np.prod(shape, dtype=np.int64))
    if source is None or points > limit or symbols(*view.gather, view.valid):
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

    >>> import eqsat.ir.tensors.tensor as T
    >>> print(map_of_view(T.input("x", (2, 3), "float32").permute_dims((1, 0)).node))
    (3:1, 2:3) of 6
    """
    shape = view.outputs[0][0]
    found = _digits(view)
    numbers = static_shape(shape)
    return found if found is not None or numbers is None else _table(view, numbers, limit)
