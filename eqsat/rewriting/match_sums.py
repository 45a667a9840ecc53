"""What the matcher asks of terms: intervals, totality, and the ways to write a sum as k*q + r."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder
from eqsat.rewriting import coefficient as co
from eqsat.rewriting.coefficient import Coefficient

Interval = tuple[int | None, int | None]
Bounds = Callable[[Term], Interval]


def lower(bounds: Bounds, a: Term) -> int | None:
    """The greatest known lower bound."""
    return a.payload if a.op == "const" else bounds(a)[0]


def holds(op: str, low: int | None, high: int | None) -> bool:
    """Whether a comparison is certain from the interval of right - left."""
    if op in ("lt", "le"):
        return low is not None and low >= (op == "lt")
    if op == "eq":
        return low == high == 0
    return (low is not None and low > 0) or (high is not None and high < 0)


def put(members: Sequence[Term], used: Sequence[int], new: Term) -> list[Term]:
    """The members with those at `used` replaced by one, where the first of them stood."""
    first = min(used)
    return [new if k == first else m for k, m in enumerate(members) if k == first or k not in used]


@lru_cache(maxsize=1 << 14)
def is_total(a: Term) -> bool:
    """Whether a term is defined for all values of its variables by its looks: no loads, all divisors numbers."""
    for node in postorder(a):
        if node.op in ("load", "hole", "shl", "shr", "cast"):
            return False
        if node.op in ("floordiv", "mod", "truncdiv", "truncmod"):
            divisor = node.args[1]
            if divisor.op != "const" or not divisor.payload:
                return False
    return True


def is_subtracted(a: Term) -> bool:
    """Whether a term is a sum without a constant whose summands are all subtracted."""
    return a.op == "sum" and not a.payload[0] and all(k < 0 for k in a.payload[1])


def slack(comparison: Term) -> Term:
    """The index term d such that a `lt` or `le` comparison of indices holds where 0 <= d."""
    p, q = comparison.args
    return t.linear(-1 if comparison.op == "lt" else 0, ((1, q), (-1, p)))


def factorings(number: int, core: Term, op: str) -> list[tuple[Coefficient, Term]]:
    """A summand as coefficient times a term of this operation, in all ways."""
    if op == "prod":
        ways: list[tuple[Coefficient, Term]] = [(abs(number), core if number > 0 else -core), (1, number * core)]
        return ways if abs(number) != 1 else ways[:1]
    if core.op != "prod":
        return [(number, core)] if core.op == op or op in ("lt", "le") else []
    result: list[tuple[Coefficient, Term]] = []
    for k, factor in enumerate(core.args):
        if factor.op == op and not (k and core.args[k - 1] is factor):
            result.append((co.make(number, (*core.args[:k], *core.args[k + 1 :])), factor))
    return result


def parts_of_sum(s: Term) -> list[Term]:
    """The summands of a sum, with their coefficients; the constant; and of a coefficient beyond 1 one of its ones."""
    constant, items = t.linear_parts(s)
    units = [x if k > 0 else -x for k, x in items if abs(k) > 1]
    return [*(k * x for k, x in items), *([t.index_const(constant)] if constant else []), *units]


def contains(s: Term, part: Term) -> bool:
    """Whether a sum is another one and something that has no opposite in it.

    >>> i, j = t.var("i"), t.var("j")
    >>> contains(3 * i + j + 2, i + 1), contains(i, j), contains(i + 2, i + 3)
    (True, False, False)
    """
    return _amount(s) == _amount(part) + _amount(s - part)


def _amount(s: Term) -> int:
    constant, items = t.linear_parts(s)
    return abs(constant) + sum(abs(k) for k, _ in items)


def splits(
    s: Term, k: Coefficient, bounds: Bounds, fitting: bool, reduce: bool, edges: bool = False
) -> list[tuple[Term, Term]]:
    """Ways to write s = k*q + r with q not zero.

    Always: whole multiples go to q, and the floor part of the constant. With `reduce`, coefficients above k are divided
    with remainder. Where r has to fit an interval (`fitting`), that is tried too, and the constant is shared so that r
    starts just above zero; with `edges` also so that q starts or ends at zero.
    """
    constant, items = co.summands(s)
    whole: list[tuple[int, Term]] = []
    rest: list[tuple[int, Term]] = []
    drawn: list[tuple[int, Term]] = []
    left: list[tuple[int, Term]] = []
    for number, x in items:
        named = x.op == "prod" or not isinstance(k, int)
        coefficient = co.times(number, co.of_term(x)) if named else number
        share = co.quotient(coefficient, k)
        if share is not None:
            whole.append((1, co.to_term(share)) if named else _scaled(share, x))
            continue
        rest.append((number, x))
        if isinstance(k, int) and isinstance(coefficient, int):
            low = _residue(number, k, constant) if reduce else number % k if abs(number) > k else number
            drawn += [((number - low) // k, x)] if low != number else []
            left.append((low, x))
        else:
            left.append((number, x))
    result: list[tuple[Term, Term]] = []

    def add(large: list[tuple[int, Term]], small: list[tuple[int, Term]], taken: int) -> None:
        q = t.linear(taken, large)
        if not t.is_const(q, 0):
            r = t.linear(constant, small) if not taken else t.linear(constant, (*small, (-taken, co.to_term(k))))
            if not any(q is a and r is b for a, b in result):
                result.append((q, r))

    floor = constant // k if isinstance(k, int) else 0
    ways = [(whole, rest)]
    if drawn and (fitting or reduce):
        ways.insert(0 if reduce else 1, ([*whole, *drawn], left))
    for large, small in ways:
        if fitting and isinstance(k, int):
            low = lower(bounds, t.linear(constant, small))
            if low is not None:
                add(large, small, low // k)
        add(large, small, floor)
        if fitting:
            add(large, small, 0)
            if not isinstance(k, int):
                add(large, small, -1)
        if edges and isinstance(k, int):
            for end in bounds(t.linear(0, large)):
                if end is not None:
                    add(large, small, -end)
    return result


def _residue(number: int, k: int, constant: int) -> int:
    """The coefficient that a remainder by k may have instead: -x has fewer operations than (k - 1)*x.

    Modulo 2 the sign is free: beside an odd constant everything is subtracted, since (1 - x) % 2 is 1 - x % 2.

    >>> [_residue(n, 4, 0) for n in (5, 3, -1, 2, -2)], _residue(-1, 2, 0), _residue(1, 2, 5)
    ([1, -1, -1, 2, 2], 1, -1)
    """
    if k == 2:
        return -(number % 2) if constant % 2 else number % 2
    return -1 if number % k == k - 1 else number % k


def _scaled(share: Coefficient, x: Term) -> tuple[int, Term]:
    return (share, x) if isinstance(share, int) else (1, t.product((co.to_term(share), x)))
