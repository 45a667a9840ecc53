"""Linear algebra over F2: xor swizzles, bit permutations and digit reversals of any size, decided in microseconds.

An index term whose every result bit is the xor of some input bits is a row of bit masks. A map of such terms is
injective iff the rows have full rank; two such terms are equal iff their rows are.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.ir import term as t
from eqsat.ir.term import Term
from eqsat.ir.walk import postorder
from eqsat.prove_points import UNKNOWN, Answer
from eqsat.prove_question import Question, Variable, conjuncts

# One entry per result bit, least first: a mask of input bits; input bit 0 is the constant 1.
Row = tuple[int, ...]
WIDEST = 256


def _trim(bits: Sequence[int]) -> Row:
    end = len(bits)
    while end and not bits[end - 1]:
        end -= 1
    return tuple(bits[:end])


def _constant(value: int) -> Row:
    return tuple((value >> k) & 1 for k in range(value.bit_length()))


def _xor(a: Row, b: Row) -> Row:
    if len(a) < len(b):
        a, b = b, a
    return _trim([x ^ (b[k] if k < len(b) else 0) for k, x in enumerate(a)])


def _disjoint(a: Row, b: Row) -> bool:
    return not any(x and y for x, y in zip(a, b, strict=False))


def _number(row: Row) -> int | None:
    """The constant that a row is."""
    return sum(x << k for k, x in enumerate(row)) if all(x in (0, 1) for x in row) else None


def _power(value: int | None) -> int | None:
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
                total = _xor(total, part)
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
        return _xor(a, b)
    if op == "bitor":
        return _xor(a, b) if _disjoint(a, b) else None
    if op == "bitand":
        mask, other = (number, a) if number is not None else (_number(a), b)
        return None if mask is None else _trim([x if (mask >> k) & 1 else 0 for k, x in enumerate(other)])
    if op in ("shl", "shr"):
        if number is None or number > 63:
            return None
        return a[number:] if op == "shr" else _trim((0,) * number + a)
    power = _power(number)
    if power is None or op not in ("floordiv", "mod", "truncdiv", "truncmod"):
        return None
    return a[power:] if op in ("floordiv", "truncdiv") else _trim(a[:power])


def rows_of(roots: Sequence[Term], variables: Sequence[Variable]) -> list[Row] | None:
    """Every term as xors of the bits of the variables, or None where one is not.

    >>> from eqsat.ir.term import var
    >>> i = var("i")
    >>> rows_of([i ^ (i >> 1)], [Variable(i, 0, 4)])  # bit 1 of a mask is the least bit of i
    [(6, 4)]
    """
    known: dict[Term, Row] = {}
    position = 1
    for v in variables:
        if v.start is None or v.start < 0 or v.stop is None or v.multiple_of != 1:
            return None
        width = (v.stop - 1).bit_length()
        if position + width > WIDEST:
            return None
        known[v.leaf] = tuple(1 << (position + k) for k in range(width))
        position += width
    for node in postorder(*roots):
        if node in known:
            continue
        if node.dtype != t.INDEX or any(a not in known for a in node.args):
            return None
        row = _row(node, [known[a] for a in node.args])
        if row is None:
            return None
        known[node] = row
    return [known[r] for r in roots]


def _kernel(masks: Sequence[int], inputs: int) -> int | None:
    """A non-zero input (a mask of input bits) that every linear form sends to 0, or None: elimination over F2."""
    basis: dict[int, int] = {}
    for mask in masks:
        mask &= ~1
        for lead in sorted(basis, reverse=True):
            if (mask >> lead) & 1:
                mask ^= basis[lead]
        if mask:
            lead = mask.bit_length() - 1
            for other, row in basis.items():
                if (row >> lead) & 1:
                    basis[other] = row ^ mask
            basis[lead] = mask
    free = next((k for k in range(1, inputs + 1) if k not in basis), None)
    if free is None:
        return None
    return (1 << free) | sum(1 << lead for lead, row in basis.items() if (row >> free) & 1)


def _values(point: int, variables: Sequence[Variable]) -> tuple[int, ...]:
    result: list[int] = []
    position = 1
    for v in variables:
        assert v.stop is not None
        width = (v.stop - 1).bit_length()
        result.append((point >> position) & ((1 << width) - 1))
        position += width
    return tuple(result)


def bits_injective(question: Question) -> Answer:
    """Injectivity by rank. A refutation is a candidate only: its points may lie outside of the box."""
    rows = rows_of(question.outputs, question.variables)
    if rows is None:
        return UNKNOWN
    inputs = sum((v.stop - 1).bit_length() for v in question.variables if v.stop is not None)
    kernel = _kernel([mask for row in rows for mask in row], inputs)
    if kernel is None:
        return Answer("proved", "rank over F2")
    zero = (0,) * len(question.variables)
    return Answer("refuted", "rank over F2", zero, _values(kernel, question.variables))


def bits_equal(question: Question) -> Answer:
    """Equations between terms that are linear over the bits."""
    point: int | None = None
    for part in conjuncts(question.goal):
        rows = rows_of(part.args, question.variables) if part.op == "eq" else None
        if rows is None:
            return UNKNOWN
        difference = _xor(rows[0], rows[1])
        if difference and point is None:
            mask = next(x for x in difference if x)
            point = 0 if mask & 1 else mask & -mask
    if point is None:
        return Answer("proved", "rank over F2")
    return Answer("refuted", "rank over F2", _values(point, question.variables))
