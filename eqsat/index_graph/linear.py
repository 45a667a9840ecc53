"""Linear algebra for solving index maps: elimination over the fractions and over residues, and moduli put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import TypeVar

LARGEST_SYSTEM = 16
LARGEST_MODULUS = 1 << 40  # greater ones would overflow 64 bits when remainders are joined
Node = TypeVar("Node")


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
