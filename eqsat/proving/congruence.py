"""Congruences with an unknown divisor: polynomials that differ by multiples of it, and of what it is known to divide.

`(k*(x % m) + y) % c == (k*x + y) % c` where `k*m % c == 0` is of this kind: to a solver it is a nonlinear question
about quotients, while the two sides differ by `k*m` times a quotient, as polynomials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import gcd, lcm

from eqsat.ir.dtypes import INDEX
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import conjuncts
from eqsat.proving.points import UNKNOWN, Answer
from eqsat.proving.question import Question

MOST_MONOMIALS = 64
MOST_STEPS = 200
MOST_KNOWN = 16
"""Polynomials that are known to be divided, with those that follow of them."""
Monomial = tuple[Term, ...]
Polynomial = dict[Monomial, int]


class _TooLong(Exception):
    """A polynomial has more monomials than are looked at."""


def congruence_claim(question: Question) -> Answer:
    """Prove equal remainders by a division of polynomials with integer coefficients.

    >>> from eqsat.ir.terms.text import parse_expr
    >>> from eqsat.proving.question import claim
    >>> from eqsat.proving.range import settled
    >>> known = parse_expr("c > 0 and k*m % c == 0 and m > 0")
    >>> asked = claim(parse_expr("k*(x % m) % c == k*x % c"), {}, known)
    >>> congruence_claim(settled(asked.question)).verdict
    'proved'
    """
    facts = [pair for fact in question.facts for part in conjuncts(fact) if (pair := _congruence(part)) is not None]
    for part in conjuncts(question.goal):
        asked = _congruence(part)
        if asked is None or not _holds(asked, facts):
            return UNKNOWN
    return Answer("proved", "congruence")


def _congruence(claim: Term) -> tuple[Term, Term] | None:
    """The difference and the divisor of an equation of remainders, `a % c == b % c` or `a % c == 0`."""
    if claim.op != "eq" or claim.args[0].dtype != INDEX:
        return None
    constant, parts = t.linear_parts(claim.args[0] - claim.args[1])
    divisors = {x.args[1] for _, x in parts if x.op == "mod"}
    if constant or len(divisors) != 1 or any(x.op != "mod" for _, x in parts):
        return None
    if sorted(c for c, _ in parts) not in ([1], [-1], [-1, 1]):
        return None
    return t.linear(0, [(c, x.args[0]) for c, x in parts]), divisors.pop()


def _holds(asked: tuple[Term, Term], facts: Sequence[tuple[Term, Term]]) -> bool:
    difference, divisor = asked
    try:
        whole = polynomial(divisor)
        known = [whole]
        for zero, other in facts:
            if not reduced(polynomial(other), [whole]):  # what a multiple of the divisor divides, it divides as well
                known.append(polynomial(zero))
        return not reduced(polynomial(difference), completed([p for p in known if p]))
    except _TooLong:
        return False


def polynomial(term: Term) -> Polynomial:
    """An index term as a polynomial over what is no sum, product or remainder; `x % m` is `x - m*(x // m)`."""
    if term.op == "const":
        return {(): term.payload} if term.payload else {}
    if term.op == "sum":
        constant, parts = t.linear_parts(term)
        total: Polynomial = {(): constant} if constant else {}
        for c, x in parts:
            total = _plus(total, polynomial(x), c)
        return total
    if term.op == "prod":
        product: Polynomial = {(): 1}
        for factor in term.args:
            product = _times(product, polynomial(factor))
        return product
    if term.op == "mod":
        number, divisor = term.args
        quotient = polynomial(t.binary("floordiv", number, divisor))
        return _plus(polynomial(number), _times(polynomial(divisor), quotient), -1)
    return {(term,): 1}


def reduced(dividend: Polynomial, divisors: Sequence[Polynomial]) -> Polynomial:
    """What remains of a polynomial where multiples of others are taken away, while their first monomials divide."""
    rest = dict(dividend)
    leading = [(max(d, key=_order), d) for d in divisors]
    for _ in range(MOST_STEPS):
        for monomial in sorted(rest, key=_order, reverse=True):
            found = next((x for x in leading if _divides(x[0], monomial) and rest[monomial] % x[1][x[0]] == 0), None)
            if found is not None:
                first, divisor = found
                others = tuple((Counter(monomial) - Counter(first)).elements())
                rest = _plus(rest, _times(divisor, {_sorted(others): 1}), -(rest[monomial] // divisor[first]))
                break
        else:
            return rest
    return rest


def completed(divisors: Sequence[Polynomial]) -> list[Polynomial]:
    """Polynomials, and sums of multiples of two of them without the first monomial of either: without these, what is
    reduced depends on which monomials are the first ones.

    >>> x, y, z = (t.var(name) for name in "xyz")
    >>> [len(completed([polynomial(z + x), polynomial(z * 3 - y)])), len(completed([polynomial(x), polynomial(y)]))]
    [3, 2]
    """
    found = list(divisors)
    pairs = [(f, g) for n, f in enumerate(found) for g in found[:n]]
    while pairs and len(found) < MOST_KNOWN:
        f, g = pairs.pop(0)
        (first, c), (second, d) = ((m := max(p, key=_order), p[m]) for p in (f, g))
        both = Counter(first) | Counter(second)
        if gcd(c, d) == 1 and not Counter(first) & Counter(second):
            continue  # nothing would be left
        common = lcm(c, d)
        left, right = (_sorted(tuple((both - Counter(m)).elements())) for m in (first, second))
        rest = reduced(_plus(_times(f, {left: common // c}), _times(g, {right: common // d}), -1), found)
        if rest:
            pairs += [(rest, p) for p in found]
            found.append(rest)
    return found


def _order(monomial: Monomial) -> tuple[int, tuple[int, ...]]:
    """An order that products keep: by degree, then by factors."""
    return len(monomial), tuple(f.serial for f in monomial)


def _sorted(factors: Sequence[Term]) -> Monomial:
    return tuple(sorted(factors, key=lambda f: f.serial))


def _divides(first: Monomial, monomial: Monomial) -> bool:
    return not Counter(first) - Counter(monomial)


def _plus(a: Polynomial, b: Polynomial, times: int) -> Polynomial:
    total = dict(a)
    for monomial, c in b.items():
        total[monomial] = total.get(monomial, 0) + times * c
        if not total[monomial]:
            del total[monomial]
    if len(total) > MOST_MONOMIALS:
        raise _TooLong
    return total


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for x, c in a.items():
        for y, d in b.items():
            total = _plus(total, {_sorted((*x, *y)): c * d}, 1)
    return total
