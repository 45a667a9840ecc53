"""Upper bounds of index terms as terms of sizes: `i // (3*N)` is at most `k - 1` for an `i` below `3*N*k`, where its
number alone says no more than the greatest `i`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce

from eqsat.ir.dtypes import INDEX
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.ranges.intervals import End
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import conjuncts, postorder


class Ceilings:
    """The greatest values of terms, as terms of sizes.

    `extents` are the axes that run to a size, each of at least one iteration where it is used; a size is not negative.
    `known` are conditions that hold.

    >>> i, n, k = t.ax(0, 1 << 60), t.sym("N", lower=1, upper=99), t.sym("K", lower=1, upper=99)
    >>> box = Ceilings({i: 3 * n * k})
    >>> print(box.of(i // (3 * n)), box.most(i // (3 * n)), Ceilings({}, [i < 2 * n]).of(i // n), sep="; ")
    K - 1; 98; 1
    """

    def __init__(self, extents: Mapping[Term, Term], known: Sequence[Term] = ()) -> None:
        self.extents = extents
        self.bounds = Bounds()
        self._slacks = [slack for condition in known for slack in _slacks(condition)]
        self._found: dict[Term, Term | None] = {}

    def under(self, condition: Term) -> Ceilings:
        """The same where a condition holds, too."""
        inner = Ceilings(self.extents)
        inner._slacks = [*self._slacks, *_slacks(condition)]
        inner.bounds = self.bounds
        return inner

    def most(self, term: Term) -> End:
        """The greatest value as a number; infinity where none is known."""
        found = self.of(term)
        return math.inf if found is None else self.bounds.span(found)[1]

    def of(self, term: Term) -> Term | None:
        """A term of sizes that is at least this one, the least that is found by its number."""
        for node in postorder(term, done=self._found):
            self._found[node] = self._least(node) if node.dtype == INDEX else None
        return self._found[term]

    def _least(self, node: Term) -> Term | None:
        candidates = [node, self._by_parts(node), *(t.linear(0, [(1, node), (1, slack)]) for slack in self._slacks)]
        high = self.bounds.span(node)[1]
        if isinstance(high, int):
            candidates.append(t.index_const(high))
        free = [x for x in candidates if x is not None and _of_sizes(x)]
        return min(free, key=self._height, default=None)

    def _height(self, ceiling: Term) -> tuple[End, int]:
        """Of equal numbers a polynomial says most, and a number least."""
        rank = 2 if t.int_value(ceiling) is not None else int(any(x.op == "floordiv" for x in postorder(ceiling)))
        return self.bounds.span(ceiling)[1], rank

    def _by_parts(self, node: Term) -> Term | None:
        if node.op in ("axis", "var"):
            extent = self.extents.get(node)
            return None if extent is None else extent - 1
        if node.op == "sum":
            return self._sum(node)
        if node.op == "prod":
            parts = [p for a in node.args if (p := self._found[a]) is not None and self.bounds.span(a)[0] >= 0]
            return t.distributed(*parts) if len(parts) == len(node.args) else None
        if node.op == "min":
            parts = [p for a in node.args if (p := self._found[a]) is not None]
            return min(parts, key=self._height, default=None)
        if node.op in ("floordiv", "mod"):
            return self._by_divisor(node)
        return None

    def _sum(self, node: Term) -> Term | None:
        constant, parts = t.linear_parts(node)
        ceilings: list[tuple[int, Term]] = []
        for c, x in parts:
            if c > 0:
                ceiling = self._found[x]
            elif _of_sizes(x):
                ceiling = x
            else:
                low = self.bounds.span(x)[0]
                ceiling = t.index_const(low) if isinstance(low, int) else None
            if ceiling is None:
                return None
            ceilings.append((c, ceiling))
        return _whole(t.linear(constant, ceilings))

    def _by_divisor(self, node: Term) -> Term | None:
        x, divisor = node.args
        whole = self._found[x]
        if self.bounds.span(divisor)[0] < 0 or not _of_sizes(divisor):
            return None
        if node.op == "floordiv":
            return None if whole is None else self._quotient(whole, divisor)
        if whole is not None and self.bounds.span(x)[0] >= 0:
            return min(whole, divisor - 1, key=self._height)
        return divisor - 1

    def _quotient(self, whole: Term, divisor: Term) -> Term | None:
        """What `whole // divisor` is at most: multiples of the divisor leave it, and the rest counts by its number."""
        constant, parts = t.linear_parts(whole)
        scale, factor = _monomial(divisor)
        quotient, rest = t.index_const(0), t.index_const(constant)
        for c, x in parts:
            left = _without(x, factor)
            taken = c // scale if left is not None and scale > 0 else 0
            quotient = quotient if left is None else t.linear(0, [(1, quotient), (taken, left)])
            rest = t.linear(0, [(1, rest), (c - taken * scale, x)])
        high = self.bounds.span(rest)[1]
        if high < 0 or self.bounds.span(rest - divisor)[1] < 0:
            return quotient - int(high < 0)
        least = max(self.bounds.span(divisor)[0], 1)
        numbers = [high // least] if isinstance(high, int) and isinstance(least, int) else []
        by_parts = self._of_parts(rest, divisor)
        numbers += [] if by_parts is None else [by_parts]
        return quotient + min(numbers) if numbers else None

    def _of_parts(self, rest: Term, divisor: Term) -> int | None:
        """What `rest // divisor` is at most, each summand without the factors that it shares with the divisor."""
        constant, parts = t.linear_parts(rest)
        scale, factor = _monomial(divisor)
        if scale <= 0 or any(self.bounds.span(x)[0] < 0 for _, x in parts):
            return None
        total = Fraction(0)
        for c, x in [(constant, t.index_const(1)), *parts]:
            if c <= 0:
                continue
            left, below = _without_shared(x, factor)
            high, low = self.bounds.span(left)[1], max(self.bounds.span(below)[0], 1)
            if not isinstance(high, int) or not isinstance(low, int):
                return None
            total += Fraction(c * high, scale * low)
        return math.floor(total)


def _slacks(condition: Term) -> Iterator[Term]:
    """What a condition says is not negative."""
    for part in conjuncts(condition):
        if part.op in ("lt", "le", "eq") and part.args[0].dtype == INDEX:
            a, b = part.args
            yield t.linear(-1 if part.op == "lt" else 0, [(1, b), (-1, a)])
            if part.op == "eq":
                yield t.linear(0, [(1, a), (-1, b)])


def _of_sizes(term: Term) -> bool:
    return not any(x.op in ("axis", "var", "load") for x in postorder(term))


def _whole(ceiling: Term) -> Term:
    """At least a sum, without its quotients of which it has as many as they divide by: `x // 4 * 4` is at most x."""
    constant, parts = t.linear_parts(ceiling)
    found: list[tuple[int, Term]] = []
    for c, x in parts:
        divisor = t.int_value(x.args[1]) if x.op == "floordiv" else None
        rounded = divisor is not None and c > 0 and divisor > 0 and c % divisor == 0
        found.append((c // divisor, x.args[0]) if rounded and divisor is not None else (c, x))
    return t.linear(constant, found)


def _monomial(divisor: Term) -> tuple[int, Term]:
    """A term as a number times a product of sizes; number 0 where it is none."""
    constant, parts = t.linear_parts(divisor)
    if constant and not parts:
        return constant, t.index_const(1)
    return (0, divisor) if constant or len(parts) != 1 else parts[0]


def _without_shared(a: Term, b: Term) -> tuple[Term, Term]:
    """Two products without the factors that are in both."""
    for x in a.args if a.op == "prod" else (a,):
        left, below = _without(a, x), _without(b, x)
        if t.int_value(x) is None and left is not None and below is not None:
            return _without_shared(left, below)
    return a, b


def _without(product: Term, factor: Term) -> Term | None:
    """A product without the factors of another one; None where it does not have them."""
    left = list(product.args) if product.op == "prod" else [product]
    for x in factor.args if factor.op == "prod" else () if t.int_value(factor) == 1 else (factor,):
        found = next((n for n, y in enumerate(left) if y is x), None)
        if found is None:
            return None
        left.pop(found)
    return reduce(lambda a, b: a * b, left, t.index_const(1))
