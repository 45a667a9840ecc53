"""Linear algebra over F2: xor swizzles, bit permutations and digit reversals of any size, decided in microseconds.

An index term whose every result bit is the xor of some input bits is a row of bit masks. A map of such terms is
injective iff the rows have full rank; two such terms are equal iff their rows are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from eqsat.ir.ranges.bit_rows import WIDEST, Bits, Row, echelon, power_of_two, xor_rows
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import conjuncts, postorder
from eqsat.proving.points import UNKNOWN, Answer
from eqsat.proving.question import Question, Variable

MOST_OPERANDS = 8
_BITWISE: dict[str, Callable[[int, int], int]] = {"bitand": int.__and__, "bitor": int.__or__, "bitxor": int.__xor__}


def rows_of(roots: Sequence[Term], variables: Sequence[Variable]) -> list[Row] | None:
    """Every term as xors of the bits of the variables, or None where one is not.

    >>> from eqsat.ir.terms.term import var
    >>> i = var("i")
    >>> rows_of([i ^ (i >> 1)], [Variable(i, 0, 4)])  # bit 1 of a mask is the least bit of i
    [(6, 4)]
    """
    widths = {v.leaf: _width(v) for v in variables}
    bits = Bits(widths.get)
    for v in variables:
        bits.known[v.leaf] = bits.atom(v.leaf)
        if bits.known[v.leaf] is None or v.multiple_of != 1:
            return None
    return bits.rows(roots)


def _kernel(masks: Sequence[int], inputs: int) -> int | None:
    """A non-zero input (a mask of input bits) that every linear form sends to 0, or None: elimination over F2."""
    basis = echelon([(mask & ~1, 0) for mask in masks])
    free = next((k for k in range(1, inputs + 1) if k not in basis), None)
    if free is None:
        return None
    return (1 << free) | sum(1 << lead for lead, (row, _) in basis.items() if (row >> free) & 1)


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
        difference = xor_rows(rows[0], rows[1])
        if difference and point is None:
            mask = next(x for x in difference if x)
            point = 0 if mask & 1 else mask & -mask
    if point is None:
        return Answer("proved", "rank over F2")
    return Answer("refuted", "rank over F2", _values(point, question.variables))


def bitwise_equal(question: Question) -> Answer:
    """Prove equations between terms made of and, or, xor, and shifts and masks by powers of two, of any operands.

    Every result bit depends on certain bits of the operands, in the same way for all bits beyond the widest mask; so a
    truth table for each bit up to there decides, for integers of any size.

    >>> from eqsat.ir.terms.text import parse_expr
    >>> from eqsat.proving.question import claim
    >>> goals = [parse_expr("(x ^ y) % 8 == x % 8 ^ y % 8"), parse_expr("x ^ y == x")]
    >>> [bitwise_equal(claim(goal, {}).question).verdict for goal in goals]
    ['proved', 'unknown']
    """
    widths = {v.leaf: _width(v) for v in question.variables}
    for part in conjuncts(question.goal):
        if part.op != "eq" or part.args[0].dtype != t.INDEX or not _same_bits(part.args[0], part.args[1], widths):
            return UNKNOWN
    return Answer("proved", "truth table")


def _width(v: Variable) -> int | None:
    """How many low bits a variable has at most; None where it may be negative or has no bound."""
    return (v.stop - 1).bit_length() if v.start is not None and v.start >= 0 and v.stop is not None else None


Place = tuple[Term, int]  # a bit of an operand


def _source(node: Term, k: int, widths: Mapping[Term, int | None]) -> int | tuple[Place, ...]:
    """The value of bit k of a term, or the bits it is made of: of its operands, or itself where it is an operand."""
    number = t.int_value(node.args[1]) if len(node.args) == 2 else None
    power = power_of_two(number)
    if node.op == "const":
        return (node.payload >> k) & 1
    if node.op in _BITWISE:
        return tuple((a, k) for a in node.args)
    if node.op == "floordiv" and power is not None:
        return ((node.args[0], k + power),)
    if node.op == "mod" and power is not None:
        return ((node.args[0], k),) if k < power else 0
    if node.op == "sum" and len(node.args) == 1 and not node.payload[0]:
        shift = power_of_two(node.payload[1][0])
        if shift is not None:
            return ((node.args[0], k - shift),) if k >= shift else 0
    width = widths.get(node)
    return 0 if width is not None and k >= width else ((node, k),)


def _same_bits(a: Term, b: Term, widths: Mapping[Term, int | None]) -> bool:
    nodes = list(postorder(a, b))
    if not any(n.op in _BITWISE and n.dtype == t.INDEX for n in nodes):
        return False
    numbers = [n.payload for n in nodes if n.op == "const" and n.dtype == t.INDEX]
    numbers += [c for n in nodes if n.op == "sum" for c in n.payload[1]]
    widest = sum(n.bit_length() + 1 for n in numbers) + max((w for w in widths.values() if w is not None), default=0)
    if widest > WIDEST:
        return False
    return all(_same_bit(a, b, k, widths) for k in range(widest + 2))


def _same_bit(a: Term, b: Term, k: int, widths: Mapping[Term, int | None]) -> bool:
    order: dict[Place, tuple[Place, ...]] = {}
    value: dict[Place, int] = {}
    free: dict[Place, None] = {}
    stack = [((a, k), False), ((b, k), False)]
    while stack:
        place, ready = stack.pop()
        if place in order or place in value or place in free:
            continue
        found = _source(*place, widths)
        if isinstance(found, int):
            value[place] = found
        elif len(found) == 1 and found[0][0] is place[0]:
            free[place] = None
        elif ready:
            order[place] = found
        else:
            stack.append((place, True))
            stack.extend((p, False) for p in found)
    if len(free) > MOST_OPERANDS:
        return False
    for bits in itertools.product((0, 1), repeat=len(free)):
        known = {**value, **dict(zip(free, bits, strict=True))}
        for place, parts in order.items():
            below = [known[p] for p in parts]
            known[place] = below[0] if len(below) == 1 else _BITWISE[place[0].op](*below)
        if known[a, k] != known[b, k]:
            return False
    return True
