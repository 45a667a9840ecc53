"""Injectivity by structure: mixed-radix digits that tile every axis and do not overlap in any output."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

from eqsat.ir.layouts.digits import StaticDigit, static_digit
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.proving.points import UNKNOWN, Answer
from eqsat.proving.question import Question
from eqsat.proving.rules import normaliser, ranges_of
from eqsat.rewriting import coefficient as co
from eqsat.rewriting.match_sums import splits
from eqsat.rewriting.rewrite import Session

MOST_OUTPUTS = 24
MOST_QUESTIONS = 8


def _size(digit: StaticDigit, extents: Mapping[Term, int]) -> int:
    """The number of values the digit may take."""
    whole = -(-extents[digit.source] // digit.weight)
    return min(whole, digit.radix) if digit.radix else whole


def digits_injective(question: Question) -> Answer:
    """Injectivity by certificate: every output determines its digits, and the digits determine the axes."""
    extents: dict[Term, int] = {}
    for v in question.variables:
        if v.start != 0 or v.stop is None or v.multiple_of != 1:
            return UNKNOWN
        extents[v.leaf] = v.stop
    found: set[StaticDigit] = set()
    for output in question.outputs:
        _, parts = t.linear_parts(output)
        digits: list[tuple[int, StaticDigit]] = []
        for c, node in parts:
            digit = static_digit(node)
            if digit is None or digit.source not in extents:
                return UNKNOWN
            if _size(digit, extents) > 1:
                digits.append((abs(c), digit))
        digits.sort(key=lambda item: item[0])
        reach = 0  # the greatest value of the smaller digits together
        for c, digit in digits:
            if c <= reach:
                return UNKNOWN
            reach += c * (_size(digit, extents) - 1)
            found.add(digit)
    for axis, extent in extents.items():
        weight = 1
        for digit in sorted((d for d in found if d.source is axis), key=lambda d: (d.weight, -(d.radix or 0))):
            if digit.weight <= weight:
                top = digit.weight * digit.radix if digit.radix else extent
                weight = max(weight, top) if digit.radix is None or weight % digit.weight == 0 else weight
        if weight < extent:
            return UNKNOWN
    return Answer("proved", "mixed-radix digits")


class _Peeler:
    """Replaces sums of digits by their digits, and digits by the number that they are digits of."""

    def __init__(self, question: Question, holds: Callable[[Term], bool]) -> None:
        self.session = Session(normaliser(), ranges_of(question), t.logical_and(*question.facts))
        self.bounds = self.session.top.of
        self.holds = holds
        self.left = MOST_QUESTIONS

    def certain(self, predicate: Term) -> bool:
        """Whether a predicate holds, by its normal form or by asking, a few times at most."""
        normal = self.session.normal(predicate)
        if normal.op == "const":
            return normal is t.TRUE
        self.left -= 1
        return self.left >= 0 and self.holds(normal)

    def peeled(self, outputs: Sequence[Term]) -> dict[Term, None]:
        """What the outputs determine, with every sum of two digits taken apart."""
        found: dict[Term, None] = {}
        waiting = list(outputs)
        while waiting:
            output = waiting.pop()
            constant, parts = t.linear_parts(output)
            if len(parts) == 1 and (constant or parts[0][0] != 1):  # c*x + d determines x
                waiting.append(parts[0][1])
                continue
            digits = self.digits(output)
            waiting.extend(digits)
            if not digits:
                found[output] = None
        return found

    def digits(self, output: Term) -> tuple[Term, ...]:
        """The digits q and r of `k*q + r`; only x of a positive size times x; none where there is nothing to take."""
        _, items = co.summands(output)
        factors = [co.times(n, co.of_term(x)) if x.op == "prod" else n for n, x in items]
        single = [co.of_term(f) for c in factors for f in co.parts(c)[1]]
        for k in dict.fromkeys([*co.divisors(None, factors), *single]):
            radix = co.to_term(k)
            if (self.bounds(radix)[0] or 0) < 1 or t.is_const(radix, 1):
                continue
            for q, r in splits(output, k, self.bounds, True, False):
                if t.is_const(r, 0):
                    return (self.session.normal(q),)
                if r.op != "const" and self.certain(t.logical_and(r >= 0, r < radix)):
                    return self.session.normal(q), self.session.normal(r)
        return ()

    def joined(self, outputs: Iterable[Term]) -> list[Term]:
        """The outputs with a remainder and what continues it replaced by the number that they are digits of."""
        current = list(outputs)
        for low, high in itertools.permutations(current, 2):
            if low.op == "mod" and (self.bounds(low.args[1])[0] or 0) >= 1:
                whole = self.session.normal(low.args[1] * high + low)
                if whole.op != "sum" and whole is not low and whole is not high:
                    return self.joined([*(o for o in current if o is not low and o is not high), whole])
        return current


def peeled_injective(question: Question, holds: Callable[[Term], bool]) -> Answer:
    """Injectivity by taking sums of digits apart and putting digits together again, sizes being numbers or symbols.

    `k*q + r` with 0 <= r < k may be replaced by q and r, and the other way round: they determine each other. What is
    left when nothing changes must contain every axis. `holds` is asked a few times whether a predicate is true.
    """
    if len(question.outputs) > MOST_OUTPUTS:
        return UNKNOWN
    peeler = _Peeler(question, holds)
    known = peeler.peeled([peeler.session.normal(o) for o in question.outputs])
    known = peeler.peeled(peeler.joined(known))
    if all(v.leaf in known for v in question.variables):
        return Answer("proved", "mixed-radix digits")
    return UNKNOWN
