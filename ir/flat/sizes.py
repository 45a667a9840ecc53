"""Sizes: whole numbers, or one-term products of numbers and unknown extents.

Extents, strides, offsets and windows of flat maps are sizes. All arithmetic on them goes through the few functions
here. Each answers exactly or gives up: ``None`` means "not one term", and ``at_most`` false means "not proved".
Unknown extents are terms (a symbol, or something like `N + 3`), so what is known of one is never asked of another that
has its name. A buffer in which one of them is 0 has no cells, and nothing that is said of its cells can be wrong.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from eqsat.ir.errors import LayoutError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.sums import content
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute


@dataclass(frozen=True, slots=True, eq=False)
class Monomial:
    """A product ``coef * factors[0] * factors[1] * ...``; made by :func:`monomial`, with at least one factor.

    >>> n = t.sym("N")
    >>> str(monomial(4, n, t.sym("C"), n))
    '4*C*N*N'
    """

    coef: int
    factors: tuple[Term, ...]

    @property
    def term(self) -> Term:
        """The product as an index term."""
        return t.product([t.index_const(self.coef), *self.factors])

    def __str__(self) -> str:
        return str(self.term)

    # The == of terms builds a term; here they are compared by identity.

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Monomial):
            return NotImplemented
        return self.coef == other.coef and _same(self.factors, other.factors)

    def __hash__(self) -> int:
        return hash((self.coef, *[f.serial for f in self.factors]))

    def __reduce__(self) -> tuple[object, ...]:
        return monomial, (self.coef, *self.factors)  # another process sorts its own terms


def _same(a: tuple[Term, ...], b: tuple[Term, ...]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


Size = int | Monomial


def monomial(coef: int, *factors: Term) -> Size:
    """The canonical size of a product: a plain number when no factor is left.

    >>> n = t.sym("N")
    >>> monomial(6), str(monomial(2, n)), monomial(0, n)
    (6, '2*N', 0)
    """
    return Monomial(coef, tuple(sorted(factors, key=lambda f: f.order))) if factors and coef else coef


def mul(a: Size, b: Size) -> Size:
    """The product.

    >>> str(mul(monomial(2, t.sym("N")), monomial(3, t.sym("C"))))
    '6*C*N'
    """
    if isinstance(a, int):
        return a * b if isinstance(b, int) else monomial(a * b.coef, *b.factors)
    if isinstance(b, int):
        return monomial(a.coef * b, *a.factors)
    return monomial(a.coef * b.coef, *a.factors, *b.factors)


def product(sizes: Iterable[Size]) -> Size:
    """The product of many sizes; 1 for none.

    >>> product([2, 3, 4])
    24
    """
    result: Size = 1
    for factor in sizes:
        result = mul(result, factor)
    return result


def div(a: Size, b: Size) -> Size | None:
    """The exact quotient a / b, or None where it is not one size for every value of the unknown extents.

    >>> n = t.sym("N")
    >>> div(12, 4), div(12, 5), div(monomial(4, n), monomial(2, n)), div(4, monomial(2, n))
    (3, None, 2, None)
    """
    if isinstance(a, int):
        if isinstance(b, int):
            return a // b if b and a % b == 0 else None
        return 0 if a == 0 else None
    if isinstance(b, int):
        return monomial(a.coef // b, *a.factors) if b and a.coef % b == 0 else None
    if a.coef % b.coef:
        return None
    rest = Counter(a.factors)
    rest.subtract(b.factors)
    return None if min(rest.values()) < 0 else monomial(a.coef // b.coef, *rest.elements())


def add(a: Size, b: Size) -> Size | None:
    """The sum, or None where it is not one size.

    >>> n = t.sym("N")
    >>> add(2, 3), str(add(monomial(2, n), monomial(1, n))), add(1, monomial(1, n))
    (5, '3*N', None)
    """
    if isinstance(a, int):
        if isinstance(b, int):
            return a + b
        return b if a == 0 else None
    if isinstance(b, int):
        return a if b == 0 else None
    return monomial(a.coef + b.coef, *a.factors) if _same(a.factors, b.factors) else None


def total(a: Size, b: Size) -> Size:
    """The sum, as an unknown extent of its own where it is not one term.

    >>> n = monomial(1, t.sym("N"))
    >>> total(2, 3), str(total(n, 3)), total(total(n, 3), -3) == n
    (5, 'N + 3', True)
    """
    found = add(a, b)
    if found is not None:
        return found
    return size_of(_term(a) + _term(b))


def signed_total(a: Size, b: Size) -> Size | None:
    """The sum as one size, where all unknown extents that are at least 1 make it positive, or make it negative; None
    where it is neither for certain.

    >>> n, c = monomial(1, t.sym("N")), monomial(2, t.sym("C"))
    >>> str(signed_total(n, 2)), str(signed_total(mul(-1, n), -2)), signed_total(n, -2), str(signed_total(n, c))
    ('N + 2', '-N - 2', None, '2*C + N')
    """
    found = add(a, b)
    if found is not None:
        return found
    signs = {(x if isinstance(x, int) else x.coef) > 0 for x in (a, b)}
    return total(a, b) if len(signs) == 1 else None


def _term(a: Size) -> Term:
    return t.index_const(a) if isinstance(a, int) else a.term


def size_of(term: Term) -> Size:
    """The size of an index term: a product of its factors, or one unknown extent, times what divides all its numbers.

    >>> n = t.sym("N")
    >>> size_of(4 * n) == monomial(4, n), size_of(n + 1) == monomial(1, n + 1)
    (True, True)
    >>> size_of(-4 * n - 4) == monomial(-4, n + 1)
    True
    """
    constant, parts = t.linear_parts(term)
    if not parts:
        return constant
    if constant or len(parts) != 1:
        return monomial(*content(term))
    coefficient, body = parts[0]
    return monomial(coefficient, *(body.args if body.op == "prod" else (body,)))


def at_most(a: Size, b: Size) -> bool:
    """Whether a <= b is certain where all unknown extents are at least 1 (false: refuted, or not decided).

    >>> n = t.sym("N")
    >>> at_most(3, 4), at_most(2, monomial(2, n)), at_most(monomial(2, n), 8)
    (True, True, False)
    """
    if isinstance(a, int) and isinstance(b, int):
        return a <= b
    low, low_factors = (a, ()) if isinstance(a, int) else (a.coef, a.factors)
    high, high_factors = (b, ()) if isinstance(b, int) else (b.coef, b.factors)
    if low <= 0 <= high:
        return True
    if low > 0:
        return low <= high and not Counter(low_factors) - Counter(high_factors)
    return low <= high and not Counter(high_factors) - Counter(low_factors)


def common(a: Size, b: Size) -> Size:
    """The greatest common divisor, unknown extents included; of 0 and x it is x.

    >>> n = t.sym("N")
    >>> common(12, 18), str(common(monomial(4, n), monomial(6, t.sym("C"), n)))
    (6, '2*N')
    """
    if isinstance(a, int) and isinstance(b, int):
        return math.gcd(a, b)
    if a == 0:
        return b
    if b == 0:
        return a
    left, left_factors = (a, ()) if isinstance(a, int) else (a.coef, a.factors)
    right, right_factors = (b, ()) if isinstance(b, int) else (b.coef, b.factors)
    return monomial(math.gcd(left, right), *(Counter(left_factors) & Counter(right_factors)).elements())


def numbers(sizes: Iterable[Size]) -> list[int] | None:
    """The sizes as numbers, or None where one is not known.

    >>> numbers([1, 2]), numbers([1, monomial(2, t.sym("N"))])
    ([1, 2], None)
    """
    result: list[int] = []
    for a in sizes:
        if not isinstance(a, int):
            return None
        result.append(a)
    return result


def number(a: Size) -> int:
    """The size as a number; an error where it is not known.

    >>> number(6)
    6
    """
    if isinstance(a, int):
        return a
    raise LayoutError(f"size {a}", "a number is needed here", "substitute the symbols first")


def value(a: Size, symbols: Mapping[Term, int]) -> int:
    """The number a size stands for; an error where a symbol is missing or the size has no value.

    >>> n, c = t.sym("N"), t.sym("C")
    >>> value(monomial(3, n, c), {n: 2, c: 5})
    30
    """
    if isinstance(a, int):
        return a
    table = {symbol: t.index_const(number) for symbol, number in symbols.items()}
    result = a.coef
    for factor in a.factors:
        known = t.int_value(substitute(factor, table))
        if known is None:
            raise LayoutError(f"size {a}", f"{factor} has no value", "give all its symbols one")
        result *= known
    return result
