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
from eqsat.ir.terms.walk import expanded, substitute


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


Lows = Mapping[Term, int]
"""What symbols, and maxima of which one operand can be that large, are known to be at least."""
NO_LOWS: Lows = {}

MOST_STEPS = 16
"""After how many subtractions a division of polynomials gives up."""


def divided(a: Size, b: Size, lows: Lows = NO_LOWS) -> tuple[Size, Size] | None:
    """The quotient and the remainder of a by b as polynomials, where the remainder is certain to be in [0, b); `lows`
    as for :func:`leaves_room`.

    >>> n = t.sym("N")
    >>> quotient, remainder = divided(size_of(2 * n + 7), size_of(n + 3))
    >>> quotient, remainder, divided(size_of(3 * n), size_of(n + 5))
    (2, 1, None)
    >>> [str(x) for x in divided(size_of(2 * n - 1), size_of(n))]
    ['1', 'N - 1']
    """
    rest, whole = (expanded(_term(x)) for x in (a, b))
    lead, quotient = max(_monomials(whole), key=lambda x: (len(x[1]), [f.order for f in x[1]])), t.index_const(0)
    for _ in range(MOST_STEPS):
        found = (div(monomial(k, *factors), monomial(lead[0], *lead[1])) for k, factors in _monomials(rest))
        step = next((_term(x) for x in found if x is not None and x != 0), None)
        if step is None:
            break
        quotient, rest = quotient + step, expanded(rest - step * whole)
    for found, left in ((size_of(quotient), size_of(rest)), (size_of(quotient - 1), size_of(rest + whole))):
        if leaves_room(0, left, lows) and leaves_room(total(left, 1), b, lows):
            return found, left
    return None


def _monomials(x: Term) -> list[tuple[int, tuple[Term, ...]]]:
    """The summands of an expanded term: a number, and what it multiplies."""
    constant, parts = t.linear_parts(x)
    found = [(k, body.args if body.op == "prod" else (body,)) for k, body in parts]
    return [*found, (constant, ())] if constant or not found else found


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
    >>> str(total(mul(n, total(n, 4)), mul(-2, n)))
    'N*(N + 2)'
    """
    found = add(a, b)
    if found is not None:
        return found
    shared = common(a, b)
    if isinstance(shared, int):
        return size_of(_term(a) + _term(b))
    unit = monomial(1, *shared.factors)
    parts = [part for x in (a, b) if (part := div(x, unit)) is not None]
    return mul(unit, total(*parts))


def signed_total(a: Size, b: Size) -> Size | None:
    """The sum as one size, where all unknown extents that are at least 1 make it positive, or make it negative; None
    where it is neither for certain.

    >>> n, c = monomial(1, t.sym("N")), monomial(2, t.sym("C"))
    >>> str(signed_total(n, 2)), str(signed_total(mul(-1, n), -2)), signed_total(n, -2), str(signed_total(n, c))
    ('N + 2', '-N - 2', None, '2*C + N')
    >>> str(signed_total(total(n, 2), -1))
    'N + 1'
    """
    found = add(a, b)
    if found is not None:
        return found
    signs = {(x if isinstance(x, int) else x.coef) > 0 for x in (a, b)}
    whole = total(a, b)
    return whole if len(signs) == 1 or isinstance(whole, int) or all(map(_is_positive, whole.factors)) else None


def _is_positive(factor: Term) -> bool:
    """Whether a size is a sum, without a minus, of unknown extents that are at least 0."""
    constant, parts = t.linear_parts(factor)
    bodies = [x for _, body in parts for x in (body.args if body.op == "prod" else (body,))]
    return constant >= 0 and all(k > 0 for k, _ in parts) and all(map(_is_extent, bodies))


def _is_extent(x: Term) -> bool:
    if x.op == "sum":
        return _is_positive(x)
    low = least(x)
    return low is not None and low >= 0


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
    >>> at_most(size_of(n + 1), size_of(n + 2)), at_most(size_of(n + 2), size_of(n + 1))
    (True, False)
    """
    if isinstance(a, int) and isinstance(b, int):
        return a <= b
    low, low_factors = (a, ()) if isinstance(a, int) else (a.coef, a.factors)
    high, high_factors = (b, ()) if isinstance(b, int) else (b.coef, b.factors)
    if low <= 0 <= high:
        return True
    fewer, more = (low_factors, high_factors) if low > 0 else (high_factors, low_factors)
    if low <= high and not Counter(fewer) - Counter(more):
        return True
    return any(f.op == "sum" for f in (*low_factors, *high_factors)) and leaves_room(a, b)


def leaves_room(a: Size, b: Size, lows: Lows = NO_LOWS) -> bool:
    """Whether a <= b is certain for all symbols that keep their bounds, extents of 0 included; `lows` says more of some
    symbols than that.

    >>> n, m = t.sym("N", lower=0), t.sym("M", lower=1)
    >>> leaves_room(1, monomial(1, n)), leaves_room(1, monomial(1, m)), leaves_room(size_of(n + 1), size_of(n * m + 1))
    (False, True, True)
    >>> leaves_room(size_of(m - 3), monomial(1, m)), leaves_room(size_of(2 * n), size_of((n + 1) * (n + 2)))
    (True, True)
    """
    room = total(b, mul(-1, a))
    if isinstance(room, int):
        return room >= 0
    known = least(room.term, lows)
    known = least(expanded(room.term), lows) if known is None or known < 0 else known
    return known is not None and known >= 0


def where_filled(counts: Iterable[Size]) -> dict[Term, int]:
    """What symbols, and maxima that are one of their operands then, are at least, where counts are at least 1.

    >>> n, m = t.sym("N", lower=0), t.sym("M", lower=0)
    >>> where_filled([size_of(3 * t.binary("max", n - 1, t.index_const(0))), size_of(m)])
    {M: 1, maximum(N - 1, 0): 1, N: 2}
    """
    found: dict[Term, int] = {}
    stack = [(f, 1) for x in counts for f in factors(x)]
    while stack:
        x, low = stack.pop()
        if x.op == "sym":
            found[x] = max(low, found.get(x, low))
        elif x.op == "min":
            stack += [(a, low) for a in x.args]
        elif x.op == "max":
            large = _operands_from(x, low)
            if len(large) == 1:
                found[x] = low
                stack.append((large[0], low))
        elif x.op == "sum" and len(x.args) == 1:
            constant, (k,) = x.payload
            stack += [(a, -((constant - low) // k)) for a in x.args if k > 0]
    return found


def _operands_from(x: Term, low: int) -> list[Term]:
    """The operands that are not known to be less than a number."""
    return [a for a in x.args if (known := t.int_value(a)) is None or known >= low]


def least(x: Term, lows: Lows = NO_LOWS) -> int | None:
    """A number that symbols within their bounds do not fall below, by the signs of the summands; None where none is
    found.

    >>> n, m = t.sym("N", lower=0), t.sym("M")
    >>> least(3 * n + m + 1), least(n * m + m), least(m - n), least(n - t.binary("min", n, t.index_const(3)))
    (2, 1, None, 0)
    >>> least(n * t.binary("max", m - 1, t.index_const(0)) - n * m + n)
    0
    """
    if x.op == "sym":
        return max((k for k in (t.symbol_facts(x).lower, lows.get(x)) if k is not None), default=None)
    constant, parts = t.linear_parts(x)
    choices = [(k, body) for k, body in parts if body.op in ("min", "max")]
    if choices:
        return _least_of_choices(x, *choices[0], lows) if len(choices) <= MOST_CHOICES else None
    if len(parts) == 1 and parts[0][1] is x:
        known = [least(f, lows) for f in x.args] if x.op == "prod" else [None]
        return None if any(k is None or k < 0 for k in known) else math.prod(k for k in known if k is not None)
    if constant == 0 and len(parts) > 1 and (shared := _shared(x)) is not None:
        return least(shared, lows)
    for k, body in parts:
        low = least(body, lows) if k > 0 else None
        if low is None:
            return None
        constant += k * low
    return constant


def _shared(x: Term) -> Term | None:
    """A sum of products as the product of the factors that all of them have and a sum; None where they have none."""
    rows = [(k, Counter(bodies)) for k, bodies in _monomials(x)]
    shared = Counter(rows[0][1])
    for _, row in rows[1:]:
        shared &= row
    if not shared:
        return None
    rest = sum((t.product([t.index_const(k), *(row - shared).elements()]) for k, row in rows), t.index_const(0))
    return t.product([*shared.elements(), rest])


MOST_CHOICES = 4
"""With how many minima and maxima a sum is bounded."""


def _least_of_choices(x: Term, k: int, choice: Term, lows: Lows) -> int | None:
    """A lower bound of a sum with k times a minimum or a maximum: of which one operand is enough, or all are needed."""
    operands = _operands_from(choice, lows[choice]) if choice in lows else choice.args
    known = [least(x + k * (a - choice), lows) for a in operands]
    if (k > 0) == (choice.op == "max"):
        return max((low for low in known if low is not None), default=None)
    return None if any(low is None for low in known) else min(low for low in known if low is not None)


def factors(a: Size) -> tuple[Term, ...]:
    """The unknown extents that a size multiplies.

    >>> factors(6), factors(monomial(4, t.sym("N")))
    ((), (N,))
    """
    return () if isinstance(a, int) else a.factors


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
