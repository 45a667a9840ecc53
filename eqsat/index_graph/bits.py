"""Solving equations that are linear over bits: the inverses of Gray codes, xor swizzles and bit permutations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from eqsat.ir.ranges.bit_rows import Bits, echelon, spell_bits
from eqsat.ir.terms.term import Term

WIDEST_BITS = 64


def solve_bits(
    equations: Sequence[tuple[Term, Term]],
    unknown: Callable[[Term], bool],
    width: Callable[[Term], int | None],
) -> dict[Term, Term]:
    """From term = value for each equation: the unknown atoms that the bits of the values determine.

    An atom is determined if every one of its bits is an xor of bits of values and of known atoms. Equations that are
    not linear over bits are left out.

    >>> from eqsat.ir.terms import term as t
    >>> i, p = t.var("i"), t.var("p")
    >>> def width(x):
    ...     return 2 if x.op == "var" else None
    >>> str(solve_bits([(i ^ (i // 2), p)], lambda x: x is not p, width)[i])
    'p ^ p // 2'
    """
    bits = Bits(width)
    rows: list[tuple[int, int]] = []  # xor of unknown bits = xor of known bits, both as masks over all bits
    lengths: dict[Term, int] = {}
    for term, value in equations:
        found = bits.rows([term]) if unknown(term) else None
        right = None if found is None else bits.known.get(value) or bits.atom(value)
        if found is None or right is None:
            continue
        left, bits.known[value] = found[0], right
        # Bits of the value above those of the term are 0 wherever the two are equal.
        lengths[value] = min(len(left), lengths.get(value, len(left)))
        for k in range(max(len(left), len(right))):
            a, b = (row[k] if k < len(row) else 0 for row in (left, right))
            rows.append((a, b))
    hidden = {atom: place for atom, place in bits.atoms.items() if unknown(atom)}
    mask = sum(((1 << size) - 1) << first for first, size in hidden.values())
    basis = echelon([(a & mask, (a & ~mask) ^ b) for a, b in rows])
    result: dict[Term, Term] = {}
    for atom, (first, size) in hidden.items():
        wanted = [basis.get(first + k) for k in range(size)]
        if all(row is not None and row[0] == 1 << (first + k) for k, row in enumerate(wanted)):
            result[atom] = _spelled(bits, lengths, [row[1] for row in wanted if row is not None])
    return result


def _spelled(bits: Bits, lengths: Mapping[Term, int], sources: Sequence[int]) -> Term:
    """The number whose bit k is the xor of the bits of known atoms in `sources[k]`."""
    fields: dict[Term, dict[int, int]] = {}
    widths: dict[Term, int] = {}
    constant = 0
    for k, mask in enumerate(sources):
        constant |= (mask & 1) << k
        for atom, (first, size) in bits.atoms.items():
            for s in range(size):
                if (mask >> (first + s)) & 1:
                    shifts = fields.setdefault(atom, {})
                    shifts[k - s] = shifts.get(k - s, 0) | 1 << s
                    widths[atom] = min(size, lengths.get(atom, size))
    return spell_bits(fields, constant, widths)
