"""Arithmetic for solving index maps: quotients and remainders of terms, residues, and linear elimination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import TypeVar

from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.ranges.map_bounds import floor_div, merged
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

LARGEST_SYSTEM = 16
Node = TypeVar("Node")


def canonical_mod(value: Term, modulus: int, bounds: Bounds) -> Term:
    """value % modulus with small coefficients, and without the `%` where the value lies in [0, modulus).

    >>> p, q = t.var("p"), t.var("q")
    >>> str(canonical_mod(p - 7 * q, 8, Bounds({p: (0, 8), q: (0, 9)})))
    '(p + q) % 8'
    """
    low, high = bounds.of(value)
    if low is not None and high is not None and low >= 0 and high < modulus:
        return value
    for _ in range(4):
        constant, parts = t.linear_parts(value)
        opened = [(c % modulus, _opened(c, x, modulus)) for c, x in parts if c % modulus]
        again = merged(_balanced(t.linear(constant % modulus, opened), modulus))
        if again is value:
            break
        value = again
    low, high = bounds.of(value)
    if low is not None and high is not None and low >= 0 and high < modulus:
        return value
    return t.binary("mod", value, modulus)


def _balanced(value: Term, modulus: int) -> Term:
    """Coefficients from 0 upwards, but small negative ones (of nearly the modulus) where another one is positive."""
    constant, parts = t.linear_parts(value)
    small = [(c - modulus if 8 * (modulus - c) <= modulus or c == modulus - 1 > 1 else c, x) for c, x in parts]
    return t.linear(constant % modulus, small if any(c > 0 for c, _ in small) else parts)


def _opened(c: int, x: Term, modulus: int) -> Term:
    inner = t.int_value(x.args[1]) if x.op == "mod" else None
    return x.args[0] if inner is not None and inner > 0 and c * inner % modulus == 0 else x


def exact_div(value: Term, divisor: int, bounds: Bounds) -> Term:
    """value // divisor, multiples of the divisor taken out, and nothing left of a rest that lies in [0, divisor)."""
    if divisor == 1:
        return value
    value = merged(value)
    constant, parts = t.linear_parts(value)
    outer = t.linear(constant // divisor, [(c // divisor, x) for c, x in parts if c % divisor == 0])
    inner = t.linear(constant % divisor, [(c, x) for c, x in parts if c % divisor])
    low, high = bounds.of(inner)
    if low is not None and high is not None and low // divisor == high // divisor:
        return outer + low // divisor
    if inner.op == "floordiv" and (n := t.int_value(inner.args[1])) is not None and n > 0:
        return outer + t.binary("floordiv", inner.args[0], n * divisor)
    common = gcd(divisor, *(c for c, _ in t.linear_parts(inner)[1]))
    if common > 1:
        constant, parts = t.linear_parts(inner)
        inner = t.linear(constant // common, [(c // common, x) for c, x in parts])
        return outer + floor_div(inner, t.index_const(divisor // common))
    return outer + t.binary("floordiv", inner, divisor)


def coprime_split(a: int, b: int) -> tuple[int, int]:
    """Divisors of a and b that are prime to each other and have the product lcm(a, b).

    >>> coprime_split(16, 12), coprime_split(6, 4)
    ((16, 3), (3, 4))
    """
    whole = lcm(a, b)
    # What b has more of than a stays in b; the primes of equal or lower power in b are taken out of it.
    first, second = a, whole // a
    g = gcd(first, second)
    while g > 1:
        first //= g
        g = gcd(first, second)
    return first, whole // first


def odd_inverse(factors: Sequence[Term], modulus: int, bounds: Bounds) -> Term | None:
    """The inverse of a product of odd terms modulo a power of two, by Newton's steps; None where one may be even."""
    if not factors or not all(_is_odd(f) for f in factors):
        return None
    product = canonical_mod(t.product(factors), modulus, bounds)
    inverse, correct = product, 8  # an odd number is its own inverse modulo 8
    while correct < modulus:
        step = canonical_mod(2 - t.product([product, inverse]), modulus, bounds)
        inverse = canonical_mod(t.product([inverse, step]), modulus, bounds)
        correct *= correct
    return inverse


def _is_odd(x: Term) -> bool:
    constant, parts = t.linear_parts(x)
    return constant % 2 == 1 and all(c % 2 == 0 for c, _ in parts)


def eliminate(rows: Sequence[Mapping[Node, int]], modulus: int = 0) -> list[tuple[int, Node, list[tuple[int, int]]]]:
    """From sum of c * node = value for each row: the nodes that the rows determine, as factor * node = the sum of
    multiples of values, (row, multiple) each.

    With a modulus the equations hold modulo it, and only units are divided by.

    >>> eliminate([{"i": 1, "j": 1}, {"i": 1, "j": -1}])
    [(2, 'i', [(0, 1), (1, 1)]), (2, 'j', [(0, 1), (1, -1)])]
    """
    if not 2 <= len(rows) <= LARGEST_SYSTEM:
        return []
    nodes = list(dict.fromkeys(node for row in rows for node in row))
    count = len(rows)
    table = [
        [Fraction(row.get(n, 0)) for n in nodes] + [Fraction(int(k == m)) for m in range(count)]
        for k, row in enumerate(rows)
    ]
    done = 0
    for column in range(len(nodes)):
        pivot = next((r for r in range(done, count) if _divides(table[r][column], modulus)), None)
        if pivot is None:
            continue
        table[done], table[pivot] = table[pivot], table[done]
        inverse = _inverse(table[done][column], modulus)
        table[done] = [_reduced(x * inverse, modulus) for x in table[done]]
        for r in range(count):
            if r != done and table[r][column]:
                f = table[r][column]
                table[r] = [_reduced(x - f * y, modulus) for x, y in zip(table[r], table[done], strict=True)]
        done += 1
    result: list[tuple[int, Node, list[tuple[int, int]]]] = []
    for row in table:
        used = [k for k in range(len(nodes)) if row[k]]
        if len(used) != 1:
            continue
        factor = lcm(*(x.denominator for x in row))
        scale = row[used[0]] * factor
        sign = 1 if scale > 0 else -1
        multiples = [(m, int(row[len(nodes) + m] * factor) * sign) for m in range(count)]
        result.append((int(scale) * sign, nodes[used[0]], [(m, k) for m, k in multiples if k]))
    return result


def _divides(x: Fraction, modulus: int) -> bool:
    return x != 0 if not modulus else gcd(int(x), modulus) == 1


def _inverse(x: Fraction, modulus: int) -> Fraction:
    return 1 / x if not modulus else Fraction(pow(int(x), -1, modulus))


def _reduced(x: Fraction, modulus: int) -> Fraction:
    return x if not modulus else Fraction(int(x) % modulus)
