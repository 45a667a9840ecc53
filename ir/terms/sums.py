"""Index sums and products in their one normal form: a number plus coefficients times sorted summands."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from eqsat.ir.terms.leaves import index_const
from eqsat.ir.terms.node import Term, make


def _order(entry: tuple[int, Term]) -> tuple[bytes, bytes]:
    return entry[1].order


def linear(constant: int, parts: Iterable[tuple[int, Term]]) -> Term:
    """The index term constant + sum of coefficient * term, in its one normal form."""
    table: dict[int, tuple[int, Term]] = {}
    for coefficient, term in parts:
        if term.op == "const":
            constant += coefficient * term.payload
            continue
        inner, coefficients = term.payload if term.op == "sum" else (0, (1,))
        constant += coefficient * inner
        for c, summand in zip(coefficients, term.args if term.op == "sum" else (term,), strict=True):
            known = table.get(summand.serial)
            table[summand.serial] = (coefficient * c + known[0] if known else coefficient * c, summand)
    kept = [entry for entry in table.values() if entry[0]]
    if not kept:
        return index_const(constant)
    if len(kept) > 1:
        kept.sort(key=_order)
    elif constant == 0 and kept[0][0] == 1:
        return kept[0][1]
    return make("sum", [s for _, s in kept], (int(constant), tuple([int(c) for c, _ in kept])))


def linear_parts(term: Term) -> tuple[int, tuple[tuple[int, Term], ...]]:
    """An index term as (constant, ((coefficient, summand), ...)).

    >>> from eqsat.ir.terms.term import var
    >>> linear_parts(2 * var("i") + 3)
    (3, ((2, i),))
    """
    if term.op == "const":
        return term.payload, ()
    if term.op == "sum":
        constant, coefficients = term.payload
        return constant, tuple(zip(coefficients, term.args, strict=True))
    return 0, ((1, term),)


def content(term: Term) -> tuple[int, Term]:
    """A sum as what divides all its numbers, negative where all of them are, and the rest; (1, term) for other terms.

    >>> from eqsat.ir.terms.term import sym
    >>> n = sym("N")
    >>> content(10 * n + 20), content(-2 * n - 2), content(2 * n - 1)
    ((10, N + 2), (-2, N + 1), (1, 2*N - 1))
    """
    constant, parts = linear_parts(term)
    if not parts:
        return 1, term
    divisor = gcd(constant, *(c for c, _ in parts))
    divisor = -divisor if constant <= 0 and all(c < 0 for c, _ in parts) else divisor
    return divisor, linear(constant // divisor, [(c // divisor, body) for c, body in parts])


def product(factors: Iterable[Term]) -> Term:
    """The index product: numbers become a coefficient, a number times a sum is distributed, the rest is sorted."""
    coefficient = 1
    rest: list[Term] = []
    for factor in factors:
        if factor.op == "const":
            coefficient *= factor.payload
        elif factor.op == "prod":
            rest.extend(factor.args)
        elif factor.op == "sum" and factor.payload[0] == 0 and len(factor.args) == 1:
            coefficient *= factor.payload[1][0]
            inner = factor.args[0]
            rest.extend(inner.args if inner.op == "prod" else (inner,))
        else:
            rest.append(factor)
    if not rest or coefficient == 0:
        return index_const(coefficient)
    body = rest[0] if len(rest) == 1 else make("prod", tuple(sorted(rest, key=lambda t: t.order)))
    return linear(0, ((coefficient, body),))


def distributed(*factors: Term, most: int = 64) -> Term:
    """The product, multiplied out over sums while it has no more than `most` summands.

    >>> from eqsat.ir.terms.term import sym
    >>> n = sym("N")
    >>> distributed(n + 1, n - 1)
    N*N - 1
    """
    total = index_const(1)
    for f in factors:
        (c, left), (d, right) = linear_parts(total), linear_parts(f)
        parts = [(p * q, product((x, y))) for p, x in left for q, y in right]
        parts += [(p * d, x) for p, x in left] + [(c * q, y) for q, y in right]
        total = linear(c * d, parts) if len(parts) <= most else product((total, f))
    return total


def unclipped(x: Term) -> Term | None:
    """y, where a term is max(y, 0).

    >>> from eqsat.ir.terms.term import binary, index_const, sym
    >>> n = sym("N")
    >>> unclipped(binary("max", n - 1, index_const(0))), unclipped(n)
    (N - 1, None)
    """
    zero = index_const(0)
    if x.op != "max" or not any(a is zero for a in x.args):
        return None
    return next((a for a in x.args if a is not zero), None)
