"""Injectivity by structure: mixed-radix digits that tile every axis and do not overlap in any output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eqsat.ir import term as t
from eqsat.ir.term import Term
from eqsat.prove_points import UNKNOWN, Answer
from eqsat.prove_question import Question


@dataclass(frozen=True)
class _Digit:
    """(axis // weight) % radix; radix 0: no remainder is taken."""

    axis: Term
    weight: int
    radix: int


def _digit(node: Term, extents: Mapping[Term, int]) -> _Digit | None:
    if node in extents:
        return _Digit(node, 1, 0)
    number = t.int_value(node.args[1]) if node.op in ("floordiv", "mod") else None
    if number is None or number < 1:
        return None
    inner = _digit(node.args[0], extents)
    if inner is None:
        return None
    if node.op == "floordiv":
        if inner.radix and inner.radix % number:
            return None
        return _Digit(inner.axis, inner.weight * number, inner.radix // number)
    if inner.radix and inner.radix % number:
        return None
    return _Digit(inner.axis, inner.weight, number)


def _size(digit: _Digit, extents: Mapping[Term, int]) -> int:
    """The number of values the digit may take."""
    whole = -(-extents[digit.axis] // digit.weight)
    return min(whole, digit.radix) if digit.radix else whole


def digits_injective(question: Question) -> Answer:
    """Injectivity by certificate: every output determines its digits, and the digits determine the axes."""
    extents: dict[Term, int] = {}
    for v in question.variables:
        if v.start != 0 or v.stop is None or v.multiple_of != 1:
            return UNKNOWN
        extents[v.leaf] = v.stop
    found: set[_Digit] = set()
    for output in question.outputs:
        _, parts = t.linear_parts(output)
        digits: list[tuple[int, _Digit]] = []
        for c, node in parts:
            digit = _digit(node, extents)
            if digit is None:
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
        for digit in sorted((d for d in found if d.axis is axis), key=lambda d: (d.weight, -d.radix)):
            if digit.weight <= weight:
                top = digit.weight * digit.radix if digit.radix else extent
                weight = max(weight, top) if digit.radix == 0 or weight % digit.weight == 0 else weight
        if weight < extent:
            return UNKNOWN
    return Answer("proved", "mixed-radix digits")
