"""Sums of products of halves, rounded once: `contract=True` for types that are computed in float32.

    before:  y = half(sum of float(half(float(a) * float(b))))
    after:   y = half(sum of float(a) * float(b))

A product of two halves is exact in float32, so this is what a fused multiply-add of halves would give. Without that
the same product is rounded by itself, as a half that is made float at once: operands can be floats all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eqsat.backends.lowering.reduce import held_as
from eqsat.backends.lowering.values import Value
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term


def contracted(values: Sequence[Value], fused: bool = True) -> tuple[Value, ...]:
    """The values, where products of narrow floats are summed those of the type in which they are summed; not `fused`
    those of halves, each rounded."""
    return tuple(_contracted(value, fused) for value in values)


def _contracted(value: Value, fused: bool) -> Value:
    if value.body is None or value.combiner != "sum" or held_as(value.body.dtype) == value.body.dtype:
        return value
    return replace(value, body=_widened(value.body, fused)) if fused or value.body.dtype == "float16" else value


def _widened(x: Term, fused: bool) -> Term:
    """What is summed, in the type of the sum: a product as one of that type, also under a condition."""
    if x.op == "mul":
        a, b = (t.cast_to(y, held_as(x.dtype)) for y in x.args)
        return t.mul(a, b) if fused else t.cast_to(t.cast_to(t.mul(a, b), x.dtype), held_as(x.dtype))
    if x.op == "where":
        return t.where(x.args[0], _widened(x.args[1], fused), _widened(x.args[2], fused))
    return t.cast_to(x, held_as(x.dtype))
