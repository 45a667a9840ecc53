"""Coefficients of index sums: numbers, or numbers times symbolic factors; exact products, quotients and divisors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

Factors = tuple[Term, ...]
Coefficient = int | tuple[int, Factors]


def parts(a: Coefficient) -> tuple[int, Factors]:
    """The number and the symbolic factors."""
    return (a, ()) if isinstance(a, int) else a


def make(number: int, factors: Iterable[Term]) -> Coefficient:
    """A coefficient in normal form: a plain number where no factor is left."""
    kept = tuple(sorted(factors, key=hash))
    return (number, kept) if kept and number else number


def same(a: Coefficient, b: Coefficient) -> bool:
    """Equality."""
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and a == b
    return a[0] == b[0] and len(a[1]) == len(b[1]) and all(x is y for x, y in zip(a[1], b[1], strict=True))


def of_term(a: Term) -> Coefficient:
    """A term read as a coefficient; a sum of several summands is one factor.

    >>> from eqsat.ir.terms.term import sym
    >>> of_term(4 * sym("N")), of_term(sym("N") + 1)
    ((4, (N,)), (1, (N + 1,)))
    """
    if a.op == "const":
        return a.payload
    number = 1
    if a.op == "sum" and len(a.args) == 1 and a.payload[0] == 0:
        number, a = a.payload[1][0], a.args[0]
    return make(number, a.args if a.op == "prod" else (a,))


def to_term(a: Coefficient) -> Term:
    """The coefficient as a term."""
    if isinstance(a, int):
        return t.index_const(a)
    return t.product((t.index_const(a[0]), *a[1]))


def times(a: Coefficient, b: Coefficient) -> Coefficient:
    """The product."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    (m, fs), (n, gs) = parts(a), parts(b)
    return make(m * n, (*fs, *gs))


def quotient(a: Coefficient, b: Coefficient) -> Coefficient | None:
    """The exact quotient, or None.

    >>> quotient(12, 4), quotient(12, 5)
    (3, None)
    """
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    (m, fs), (n, gs) = parts(a), parts(b)
    if n == 0 or m % n:
        return None
    rest = Counter(fs)
    rest.subtract(gs)
    return None if min(rest.values(), default=0) < 0 else make(m // n, rest.elements())


def divisor(a: Coefficient, b: Coefficient) -> Coefficient:
    """The greatest common divisor, symbolic factors included."""
    if isinstance(a, int) and isinstance(b, int):
        return math.gcd(a, b)
    (m, fs), (n, gs) = parts(a), parts(b)
    return make(math.gcd(m, n), (Counter(fs) & Counter(gs)).elements())


def summands(a: Term) -> tuple[int, list[tuple[int, Term]]]:
    """An index term as its constant and its (number, term) summands."""
    constant, items = t.linear_parts(a)
    return constant, list(items)


def sizes(a: Coefficient) -> Coefficient:
    """The number and those symbolic factors that are sizes.

    >>> from eqsat.ir.terms.term import sym, var
    >>> sizes(of_term(4 * sym("N") * var("x")))
    (4, (N,))
    """
    number, factors = parts(a)
    return make(number, (f for f in factors if f.op == "sym"))


def divisors(wanted: Coefficient | None, coefficients: Iterable[Coefficient], most: int = 16) -> list[Coefficient]:
    """What can be drawn out of some summands: common divisors of coefficients (and of `wanted`), greatest first; of
    those of one alone also its sizes, where nothing is wanted."""
    found: dict[tuple[int, tuple[int, ...]], Coefficient] = {}

    def add(c: Coefficient) -> None:
        number, factors = abs(parts(c)[0]), parts(c)[1]
        if number > 1 or factors:
            found.setdefault((number, tuple(f.serial for f in factors)), (number, factors) if factors else number)

    for c in coefficients:
        add(c if wanted is None else divisor(c, wanted))
        if wanted is None:
            add(sizes(c))
    if wanted is not None:
        add(wanted)
    basis = list(found.values())[:most]
    for k, a in enumerate(basis):
        for b in basis[:k]:
            add(divisor(a, b))
    return sorted(found.values(), key=lambda c: (-len(parts(c)[1]), -parts(c)[0]))[:most]
