"""Sums of products of halves, rounded once: `contract=True` for types that are computed in float32.

    before:  y = half(sum of float(half(float(a) * float(b))))
    after:   y = half(sum of float(a) * float(b))

A product of two halves is exact in float32, so this is what a fused multiply-add of halves would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eqsat.backends.lowering.reduce import held_as
from eqsat.backends.lowering.values import Value
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term


def contracted(values: Sequence[Value]) -> tuple[Value, ...]:
    """The values, where products of narrow floats are summed those of the type in which they are summed."""
    return tuple(_contracted(value) for value in values)


def _contracted(value: Value) -> Value:
    if value.body is None or value.combiner != "sum" or held_as(value.body.dtype) == value.body.dtype:
        return value
    return replace(value, body=_widened(value.body))


def _widened(x: Term) -> Term:
    """What is summed, in the type of the sum: a product as one of that type, also under a condition."""
    if x.op == "mul":
        a, b = (t.cast_to(y, held_as(x.dtype)) for y in x.args)
        return t.mul(a, b)
    if x.op == "where":
        return t.where(x.args[0], _widened(x.args[1]), _widened(x.args[2]))
    return t.cast_to(x, held_as(x.dtype))
