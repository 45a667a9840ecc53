"""Reading the outputs of an index map: shifts, masks, minima, magnitudes and the like as sums, //, %, ^ and `where`.

The result has the value of the term at every point of the box. It is what the equations of a map are solved in; users
never see it.
"""

from __future__ import annotations

from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import transform


def plain(term: Term, bounds: Bounds) -> Term:
    """The term over sums, products, //, %, ^ and `where`, as far as these can say it.

    >>> i = t.var("i")
    >>> str(plain((i >> 2) & 3, Bounds({i: (0, 16)}))), str(plain(t.absolute(i - 4), Bounds({i: (0, 9)})))
    ('i // 4 % 4', 'where(4 <= i, i - 4, 4 - i)')
    """

    def change(node: Term) -> Term | None:
        op, args = node.op, node.args
        if not args and op != "const":
            low, high = bounds.of(node)
            return t.index_const(low) if low is not None and low == high else None
        if op == "where":
            low, high = bounds.of(args[0])
            return None if low != high else args[1] if low else args[2]
        if node.dtype != t.INDEX or op in ("sum", "prod", "const", "load"):
            return None
        if op == "abs":
            return _by_sign(args[0], args[0], args[0] * -1, bounds)
        if op in ("min", "max"):
            low, high = args if op == "min" else (args[1], args[0])
            return _by_sign(args[1] - args[0], low, high, bounds)
        if len(args) != 2:
            return None
        if op == "bitor":
            return _disjoint_or(args[0], args[1], bounds)
        number = t.int_value(args[1])
        if op == "bitand":
            a, mask = (args[0], number) if number is not None else (args[1], t.int_value(args[0]))
            return None if mask is None or mask < 0 else _masked(a, mask)
        if number is None:
            return None
        if op in ("shl", "shr") and 0 <= number < 63:
            return args[0] * (1 << number) if op == "shl" else _quotient(args[0], 1 << number)
        if op in ("floordiv", "mod") and number > 0:
            return _quotient(args[0], number) if op == "floordiv" else _remainder(args[0], number, bounds)
        if op in ("truncdiv", "truncmod") and number > 0:
            a = args[0]
            if op == "truncdiv":
                return _by_sign(a, _quotient(a, number), _quotient(a * -1, number) * -1, bounds)
            rest = _remainder(a * -1, number, bounds) * -1
            return _by_sign(a, _remainder(a, number, bounds), rest, bounds)
        return None

    return transform(term, change)


def _by_sign(a: Term, yes: Term, no: Term, bounds: Bounds) -> Term:
    """One term where a >= 0 and another where a <= 0."""
    low, high = bounds.of(a)
    if low is not None and low >= 0:
        return yes
    if high is not None and high <= 0:
        return no
    constant, parts = t.linear_parts(a)
    return t.where(t.compare("le", -constant, t.linear(0, parts)), yes, no)


def _quotient(a: Term, d: int) -> Term:
    """a // d, quotients of quotients and of remainders put together."""
    if a.op == "floordiv" and (n := t.int_value(a.args[1])) is not None and n > 0:
        return _quotient(a.args[0], n * d)
    if a.op == "mod" and (n := t.int_value(a.args[1])) is not None and n > 0 and n % d == 0:
        return t.binary("mod", _quotient(a.args[0], d), n // d) if n > d else t.index_const(0)
    return a if d == 1 else t.binary("floordiv", a, d)


def _remainder(a: Term, d: int, bounds: Bounds) -> Term:
    """a % d, without the remainder where a, or a without multiples of d, stays between two multiples."""
    constant, parts = t.linear_parts(a)
    for x in (a, t.linear(constant % d, [(c, x) for c, x in parts if c % d])):
        low, high = bounds.of(x)
        if low is not None and high is not None and low // d == high // d:
            return x - low // d * d
    if a.op == "mod" and (n := t.int_value(a.args[1])) is not None and n > 0 and n % d == 0:
        return _remainder(a.args[0], d, bounds)
    return t.index_const(0) if d == 1 else t.binary("mod", a, d)


def _masked(a: Term, mask: int) -> Term:
    """a & mask as the sum of the runs of bits that the mask keeps."""
    total, low = t.index_const(0), 0
    while mask >> low:
        if not (mask >> low) & 1:
            low += 1
            continue
        high = low
        while (mask >> high) & 1:
            high += 1
        total = total + t.binary("mod", _quotient(a, 1 << low), 1 << (high - low)) * (1 << low)
        low = high
    return total


def _disjoint_or(a: Term, b: Term, bounds: Bounds) -> Term | None:
    """a | b as a sum, where the low bits of one are zero and the other has no others."""
    for upper, lower in ((a, b), (b, a)):
        low, high = bounds.of(lower)
        constant, parts = t.linear_parts(upper)
        if low is None or high is None or low < 0:
            continue
        step = 1 << high.bit_length()
        if constant % step == 0 and all(c % step == 0 for c, _ in parts):
            return upper + lower
    return None
