"""Reading index formulas as digits: which digits of the output index make every source address affine.

`//` and `%` cut an axis into digits; a formula whose cuts nest, and whose parts never carry, is a digit map of any
size, symbolic ones included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from eqsat.ir.flat.map import FlatMap, digit, from_digits
from eqsat.ir.flat.reader import NoDigits, Piece, Reader, Sum, with_cuts
from eqsat.ir.flat.size_terms import as_size
from eqsat.ir.flat.sizes import Size, mul, total
from eqsat.ir.terms.shape import Shape
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import conjuncts


@dataclass(frozen=True)
class Claim:
    """What is said of a valid cell: that a sum is at least 0; `strict`: more than 0."""

    room: Sum
    strict: bool


@dataclass(frozen=True)
class Reading:
    """Formulas read under fitting cuts: the source address, and the claims of a valid cell."""

    reader: Reader
    address: Sum
    claims: tuple[Claim, ...]


def read_formulas(shape: Shape, n_in: Size, address: Term, valid: Term, grown: bool = False) -> Reading | None:
    """Formulas over the axes of a shape, for a source of `n_in` elements, as sums over pieces of these; None where no
    cuts explain them."""
    extents = [as_size(d) for d in shape]

    def read(cuts: list[list[Size]]) -> Reading:
        reader = Reader(extents, cuts, n_in, grown)
        return Reading(reader, reader.read(address), tuple(_claims(reader, valid)))

    return with_cuts(len(extents), read)


def _claims(reader: Reader, valid: Term) -> Iterator[Claim]:
    """The claims that all are true exactly where a conjunction of comparisons holds."""
    for claim in conjuncts(valid):
        if claim.op == "const" and claim.payload:
            continue
        yield claim_of(reader, claim)


def claim_of(reader: Reader, comparison: Term) -> Claim:
    """What a comparison says. NoDigits where it is none that sums can say."""
    if comparison.op not in ("lt", "le"):
        raise NoDigits
    low, high = (reader.read(a) for a in comparison.args)
    return Claim(reader.add(high, reader.scale(low, -1)), comparison.op == "lt")


def windows(reader: Reader, claims: Iterable[Claim]) -> dict[Piece, tuple[Size, Size]]:
    """The window of each piece, for claims on single pieces."""
    found: dict[Piece, tuple[Size, Size]] = {}
    certain = reader.certain
    for claim in claims:
        if len(claim.room.parts) != 1:
            raise NoDigits
        ((p, k),) = claim.room.parts.items()
        slack, extent = claim.room.constant, reader.pieces[p][0]
        lo, hi = found.get(p, (0, extent))
        if k == 1:
            start = total(mul(-1, slack), int(claim.strict))
            lo = start if certain(lo, start) else lo if certain(start, lo) else _give_up()
        elif k == -1:
            stop = total(slack, int(not claim.strict))
            hi = stop if certain(stop, hi) else hi if certain(hi, stop) else _give_up()
        else:
            if not isinstance(k, int) or not isinstance(slack, int):
                raise NoDigits
            lo, hi = _int_window(k, slack - claim.strict, lo, hi)
        if not (certain(lo, hi) and certain(0, lo)):
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


def digits_of(shape: Shape, n_in: Size, address: Term, valid: Term) -> FlatMap | None:
    """The digit map of formulas over the axes of a shape; None where no cuts explain them.

    >>> from eqsat.ir.terms.term import TRUE, ax
    >>> print(digits_of((6,), 6, ax(0, 6) % 2 * 3 + ax(0, 6) // 2, TRUE))
    (3:1, 2:3) of 6
    """
    reading = read_formulas(shape, n_in, address, valid)
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
    return from_digits(n_in, digits, reading.address.constant)
