"""Index terms as linear maps over the bits of their atoms: every result bit the xor of some input bits.

Xor swizzles, Gray codes, bit permutations and digit reversals are such terms, whatever their size. An atom is a
variable, or any other subterm with values from 0 upwards that is not linear itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder

# One entry per result bit, least first: a mask of input bits; input bit 0 is the constant 1.
Row = tuple[int, ...]
WIDEST = 256


def _trim(bits: Sequence[int]) -> Row:
    """The row without the zeros at its high end."""
    end = len(bits)
    while end and not bits[end - 1]:
        end -= 1
    return tuple(bits[:end])


def _constant(value: int) -> Row:
    return tuple((value >> k) & 1 for k in range(value.bit_length()))


def xor_rows(a: Row, b: Row) -> Row:
    if len(a) < len(b):
        a, b = b, a
    return _trim([x ^ (b[k] if k < len(b) else 0) for k, x in enumerate(a)])


def _disjoint(a: Row, b: Row) -> bool:
    return not any(x and y for x, y in zip(a, b, strict=False))


def _number(row: Row) -> int | None:
    """The constant that a row is."""
    return sum(x << k for k, x in enumerate(row)) if all(x in (0, 1) for x in row) else None


def power_of_two(value: int | None) -> int | None:
    """k where the value is 2**k, else None."""
    return value.bit_length() - 1 if value is not None and value > 0 and value & (value - 1) == 0 else None


def _sum(node: Term, rows: Sequence[Row]) -> Row | None:
    constant, coefficients = node.payload
    if constant < 0:
        return None
    total = _constant(constant)
    for c, row in zip(coefficients, rows, strict=True):
        k = 0
        while c > 0:  # one shifted copy per set bit of the coefficient, as long as nothing carries
            if c & 1:
                part = (0,) * k + row
                if not _disjoint(total, part):
                    return None
                total = xor_rows(total, part)
            c, k = c >> 1, k + 1
        if c < 0:
            return None
    return total if len(total) <= WIDEST else None


def _row(node: Term, rows: Sequence[Row]) -> Row | None:
    op = node.op
    if op == "const":
        return _constant(node.payload) if node.payload >= 0 else None
    if op == "sum":
        return _sum(node, rows)
    if len(rows) != 2:
        return None
    a, b = rows
    number = _number(b)
    if op == "bitxor":
        return xor_rows(a, b)
    if op == "bitor":
        return xor_rows(a, b) if _disjoint(a, b) else None
    if op == "bitand":
        mask, other = (number, a) if number is not None else (_number(a), b)
        return None if mask is None else _trim([x if (mask >> k) & 1 else 0 for k, x in enumerate(other)])
    if op in ("shl", "shr"):
        if number is None or number > 63:
            return None
        return a[number:] if op == "shr" else _trim((0,) * number + a)
    power = power_of_two(number)
    if power is None or op not in ("floordiv", "mod", "truncdiv", "truncmod"):
        return None
    return a[power:] if op in ("floordiv", "truncdiv") else _trim(a[:power])


class Bits:
    """The numbering of the bits of atoms, and the rows of terms over them.

    `width` says how many bits an atom has: its values lie in [0, 2**width); None where that is not known.

    >>> i = t.var("i")
    >>> Bits(lambda atom: 2 if atom is i else None).rows([i ^ (i >> 1)])  # bit 1 of a mask is the least bit of i
    [(6, 4)]
    """

    def __init__(self, width: Callable[[Term], int | None]) -> None:
        self.width = width
        self.atoms: dict[Term, tuple[int, int]] = {}
        self.known: dict[Term, Row | None] = {}
        self.size = 1

    def rows(self, roots: Sequence[Term]) -> list[Row] | None:
        """Every root as a row, or None where one is not linear over the bits."""
        for node in postorder(*roots, done=self.known):
            below = [self.known[a] for a in node.args]
            rows = [r for r in below if r is not None]
            found = _row(node, rows) if len(rows) == len(below) and node.dtype == t.INDEX else None
            self.known[node] = self.atom(node) if found is None else found
        found_rows = [self.known[r] for r in roots]
        return None if None in found_rows else [r for r in found_rows if r is not None]

    def atom(self, node: Term) -> Row | None:
        """The row of a term that is taken as it is; None where its width is not known."""
        width = self.width(node) if node.dtype == t.INDEX else None
        if width is None or self.size + width > WIDEST:
            return None
        self.atoms[node] = (self.size, width)
        self.size += width
        return tuple(1 << (self.atoms[node][0] + k) for k in range(width))


def echelon(rows: Sequence[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Reduced row echelon form over F2 of (mask, payload): leading bit -> the row that no other row's mask shares.

    >>> echelon([(0b11, 1), (0b01, 2)])
    {1: (2, 3), 0: (1, 2)}
    """
    basis: dict[int, tuple[int, int]] = {}
    for mask, payload in rows:
        for lead in sorted(basis, reverse=True):
            if (mask >> lead) & 1:
                mask, payload = mask ^ basis[lead][0], payload ^ basis[lead][1]
        if not mask:
            continue
        top = mask.bit_length() - 1
        for lead, (other, carried) in basis.items():
            if (other >> top) & 1:
                basis[lead] = (other ^ mask, carried ^ payload)
        basis[top] = (mask, payload)
    return basis


def spell_bits(fields: Mapping[Term, Mapping[int, int]], constant: int, width: Mapping[Term, int]) -> Term:
    """The xor of bit fields: `fields[x][s]` is the mask of bits of x that appear s places higher (negative: lower).

    `width` gives the bits of each x; a mask of all bits that are not shifted out is left out.

    >>> p = t.var("p")
    >>> str(spell_bits({p: {0: 15, -1: 14, -2: 12, -3: 8}}, 0, {p: 4}))
    'p ^ p // 2 ^ (p ^ p // 2) // 4'
    """
    pieces: list[Term] = []
    for x, shifts in fields.items():
        bits = width[x]
        whole = {s: (1 << bits) - (1 << -s) if s < 0 else (1 << bits) - 1 for s in shifts}
        cascade = _cascade(x, shifts, whole, bits)
        if cascade is not None:
            pieces.append(cascade)
            continue
        for s, mask in sorted(shifts.items(), key=lambda item: -item[0]):
            field = x if mask == whole[s] else t.binary("bitand", x, mask)
            pieces.append(field * (1 << s) if s >= 0 else t.binary("floordiv", field, 1 << -s))
    if constant or not pieces:
        pieces.append(t.index_const(constant))
    total = pieces.pop(0)
    for piece in pieces:
        total = t.binary("bitxor", total, piece)
    return total


def _cascade(x: Term, shifts: Mapping[int, int], whole: Mapping[int, int], bits: int) -> Term | None:
    """x ^ x >> d ^ x >> 2d ^ ... of all bits, in a number of steps that is the logarithm of the number of copies."""
    if len(shifts) < 3 or any(mask != whole[s] for s, mask in shifts.items()):
        return None
    step = -sorted(shifts)[-2]
    if step <= 0 or sorted(shifts, reverse=True) != list(range(0, -bits, -step)):
        return None
    while step < bits:
        x = t.binary("bitxor", x, t.binary("floordiv", x, 1 << step))
        step *= 2
    return x
