"""Sizes: whole numbers, or one-term products of numbers and symbols that are at least 1.

Extents, strides, offsets and windows of flat maps are sizes. All arithmetic on them goes through the few functions
here. Each answers exactly or gives up: ``None`` means "not one term", and ``at_most`` false means "not proved".
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from eqsat.ir.errors import LayoutError


@dataclass(frozen=True, slots=True)
class Monomial:
    """A product ``coef * symbols[0] * symbols[1] * ...``; made by :func:`size`, never with zero factors or no symbol.

    >>> str(monomial(4, "N", "C", "N"))
    '4*C*N*N'
    """

    coef: int
    symbols: tuple[str, ...]

    def __str__(self) -> str:
        head = [] if self.coef == 1 else ["-"] if self.coef == -1 else [str(self.coef)]
        return "*".join([*head, *self.symbols]).replace("-*", "-")


Size = int | Monomial


def monomial(coef: int, *symbols: str) -> Size:
    """The canonical size of a product: a plain number when no symbol is left.

    >>> monomial(6), str(monomial(2, "N")), monomial(0, "N")
    (6, '2*N', 0)
    """
    return Monomial(coef, tuple(sorted(symbols))) if symbols and coef else coef


def mul(a: Size, b: Size) -> Size:
    """The product.

    >>> str(mul(monomial(2, "N"), monomial(3, "C")))
    '6*C*N'
    """
    if isinstance(a, int):
        return a * b if isinstance(b, int) else monomial(a * b.coef, *b.symbols)
    if isinstance(b, int):
        return monomial(a.coef * b, *a.symbols)
    return monomial(a.coef * b.coef, *a.symbols, *b.symbols)


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
    """The exact quotient a / b, or None where it is not one size for every value of the symbols.

    >>> div(12, 4), div(12, 5), div(monomial(4, "N"), monomial(2, "N")), div(4, monomial(2, "N"))
    (3, None, 2, None)
    """
    if isinstance(a, int):
        if isinstance(b, int):
            return a // b if b and a % b == 0 else None
        return 0 if a == 0 else None
    if isinstance(b, int):
        return monomial(a.coef // b, *a.symbols) if b and a.coef % b == 0 else None
    if a.coef % b.coef:
        return None
    rest = Counter(a.symbols)
    rest.subtract(b.symbols)
    return None if min(rest.values()) < 0 else monomial(a.coef // b.coef, *rest.elements())


def add(a: Size, b: Size) -> Size | None:
    """The sum, or None where it is not one size.

    >>> add(2, 3), str(add(monomial(2, "N"), monomial(1, "N"))), add(1, monomial(1, "N"))
    (5, '3*N', None)
    """
    if isinstance(a, int):
        if isinstance(b, int):
            return a + b
        return b if a == 0 else None
    if isinstance(b, int):
        return a if b == 0 else None
    return monomial(a.coef + b.coef, *a.symbols) if a.symbols == b.symbols else None


def at_most(a: Size, b: Size) -> bool:
    """Whether a <= b is certain for all symbols >= 1 (false: refuted, or not decided).

    >>> at_most(3, 4), at_most(2, monomial(2, "N")), at_most(monomial(2, "N"), 8)
    (True, True, False)
    """
    if isinstance(a, int) and isinstance(b, int):
        return a <= b
    low, low_symbols = (a, ()) if isinstance(a, int) else (a.coef, a.symbols)
    high, high_symbols = (b, ()) if isinstance(b, int) else (b.coef, b.symbols)
    if low <= 0 <= high:
        return True
    if low > 0:
        return low <= high and not Counter(low_symbols) - Counter(high_symbols)
    return low <= high and not Counter(high_symbols) - Counter(low_symbols)


def common(a: Size, b: Size) -> Size:
    """The greatest common divisor, symbols included; of 0 and x it is x.

    >>> common(12, 18), str(common(monomial(4, "N"), monomial(6, "C", "N")))
    (6, '2*N')
    """
    if isinstance(a, int) and isinstance(b, int):
        return math.gcd(a, b)
    if a == 0:
        return b
    if b == 0:
        return a
    left, left_symbols = (a, ()) if isinstance(a, int) else (a.coef, a.symbols)
    right, right_symbols = (b, ()) if isinstance(b, int) else (b.coef, b.symbols)
    return monomial(math.gcd(left, right), *(Counter(left_symbols) & Counter(right_symbols)).elements())


def numbers(sizes: Iterable[Size]) -> list[int] | None:
    """The sizes as numbers, or None where one has a symbol.

    >>> numbers([1, 2]), numbers([1, monomial(2, "N")])
    ([1, 2], None)
    """
    result: list[int] = []
    for a in sizes:
        if not isinstance(a, int):
            return None
        result.append(a)
    return result


def number(a: Size) -> int:
    """The size as a number; an error where it has a symbol.

    >>> number(6)
    6
    """
    if isinstance(a, int):
        return a
    raise LayoutError(f"size {a}", "a number is needed here", "substitute the symbols first")


def value(a: Size, symbols: Mapping[str, int]) -> int:
    """The number a size stands for.

    >>> value(monomial(3, "N", "C"), {"N": 2, "C": 5})
    30
    """
    return a if isinstance(a, int) else a.coef * math.prod(symbols[name] for name in a.symbols)
