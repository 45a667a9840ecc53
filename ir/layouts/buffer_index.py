"""Arithmetic of addresses: vector indices as ramps, and digits that flattening puts together again."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.ir.layouts.digits import Digit, read_digit
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term


def as_ramp(index: Term) -> Term:
    """A vector index as one ramp where it is one ramp scaled and moved; a ramp of one lane as its base.

    >>> print(as_ramp(t.ramp(t.var("i"), 1, 4) * 2 + 3))
    ramp(2*i + 3, 2, 4)
    """
    if index.op == "ramp":
        return index if index.payload > 1 else index.args[0]
    constant, parts = t.linear_parts(index)
    ramps = [(c, x) for c, x in parts if x.lanes > 1 or x.op == "ramp"]
    if len(ramps) != 1 or ramps[0][1].op != "ramp":
        return index
    c, ramp = ramps[0]
    base = t.linear(constant, [(c, ramp.args[0]), *((d, x) for d, x in parts if x is not ramp)])
    return base if ramp.payload == 1 else t.ramp(base, ramp.args[1] * c, ramp.payload)


def fused(summands: Sequence[tuple[Term, Term]]) -> list[tuple[Term, Term]]:
    """(stride, index) summands of an address in which neighbouring digits of one number became that number.

    >>> i, n = t.var("i"), t.sym("n")
    >>> fused([(n * n, i // (n * n)), (n, i % (n * n) // n), (t.index_const(1), i % n)])
    [(1, i)]
    """
    result: list[tuple[Term, Term]] = []
    for step, index in reversed(summands):
        high = read_digit(index) if index.lanes == 1 else None
        low = read_digit(result[-1][1]) if result and result[-1][1].lanes == 1 else None
        both = None if high is None or low is None else _joined(step, high, result[-1][0], low)
        if both is None:
            result.append((step, index))
        else:
            result[-1] = (result[-1][0], both)
    return result[::-1]


def _joined(step: Term, high: Digit, low_step: Term, low: Digit) -> Term | None:
    """x // (d*m) [% M] * (s*m) + x // d % m * s is s times x // d [% (M*m)]."""
    if low.modulus is None or high.source is not low.source:
        return None
    if t.distributed(low_step, low.modulus) is not step or t.distributed(low.divisor, low.modulus) is not high.divisor:
        return None
    value = low.source if t.is_const(low.divisor, 1) else t.binary("floordiv", low.source, low.divisor)
    return value if high.modulus is None else t.binary("mod", value, t.distributed(high.modulus, low.modulus))
