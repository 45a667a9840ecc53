"""Index terms that are linear over bits, said as the fewest digits of their atoms: inverses of Gray codes cancel so."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from eqsat.ir.ranges.bit_rows import Bits, Row
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

MOST_PIECES = 16


def by_bits(term: Term, width: Callable[[Term], int | None]) -> Term | None:
    """A term as the exclusive or of runs of bits of its atoms; None where it is not linear over bits, or takes many.

    width: how many bits an atom has, None where that is not known.

    >>> i = t.var("i")
    >>> gray = i ^ i // 2
    >>> str(by_bits(gray ^ gray // 2 ^ gray // 4 ^ gray // 8, lambda _: 4))
    'i'
    >>> str(by_bits((i ^ i // 4) % 4 + i // 4 * 4 ^ 8, lambda _: 4))
    'i ^ i // 4 ^ 8'
    """
    bits = Bits(width)
    rows = bits.rows([term])
    if rows is None:
        return None
    constant = sum((mask & 1) << k for k, mask in enumerate(rows[0]))
    pieces: list[Term] = []
    for atom, (first, size) in bits.atoms.items():
        for bit, start, length in _runs(rows[0], first, size):
            piece = atom // (1 << bit) if bit else atom
            pieces.append((piece if bit + length == size else piece % (1 << length)) * (1 << start))
            if len(pieces) > MOST_PIECES:
                return None
    if constant or not pieces:
        pieces.append(t.index_const(constant))
    if all(mask & (mask - 1) == 0 for mask in rows[0]):  # no bit has two sources
        return t.linear(0, [(1, piece) for piece in pieces])
    return reduce(lambda a, b: t.binary("bitxor", a, b), pieces)


def _runs(row: Row, first: int, size: int) -> list[tuple[int, int, int]]:
    """Runs of bits of one atom that stand side by side in a row: the lowest bit, its place in the row, the length."""
    places: dict[int, list[int]] = {}  # by how far bits are shifted
    for place, mask in enumerate(row):
        own = (mask >> first) & ((1 << size) - 1)
        while own:
            bit = own.bit_length() - 1
            places.setdefault(place - bit, []).append(place)
            own ^= 1 << bit
    found: list[tuple[int, int, int]] = []
    for shift, chosen in sorted(places.items(), reverse=True):
        start = chosen[0]
        for place, following in zip(chosen, [*chosen[1:], None], strict=True):
            if following != place + 1:
                found.append((start - shift, start, place + 1 - start))
                start = following or 0
    return found
