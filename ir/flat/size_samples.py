"""What sizes with symbols count as where numbers are compared: costs, reports, guards and searches all ask here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod

from eqsat.ir.flat.sizes import Size
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute, symbols

SAMPLE = 64
"""What a symbol counts as, or the nearest number that its bounds allow."""


def symbol_sample(symbol: Term, wish: int = SAMPLE) -> int:
    """The value nearest to a wish that a symbol may have.

    >>> [symbol_sample(t.sym("N", *facts)) for facts in ((1,), (1, 8), (100, None, 8), (0, 50, 12))]
    [64, 8, 104, 48]
    """
    _, lower, upper, multiple, _ = t.symbol_facts(symbol)
    value = (wish + multiple // 2) // multiple * multiple
    value = value if upper is None else min(value, upper // multiple * multiple)
    return value if lower is None else max(value, -(-lower // multiple) * multiple)


def sampled(size: Size, given: Mapping[Term, int] | None = None) -> int:
    """The number that a size counts as; `given` are the values of symbols that are known.

    >>> from eqsat.ir.flat.size_terms import as_size
    >>> n = t.sym("N")
    >>> sampled(as_size(3 * n)), sampled(as_size(n + 3), {n: 5}), sampled(7)
    (192, 8, 7)
    """
    if isinstance(size, int):
        return size
    return size.coef * prod(_value(f, given) if given else _sample(f) for f in size.factors)


@lru_cache(maxsize=4096)
def _sample(extent: Term) -> int:
    return _value(extent, {})


def _value(extent: Term, given: Mapping[Term, int]) -> int:
    numbers = {s: t.index_const(given[s] if s in given else symbol_sample(s)) for s in symbols(extent)}
    found = t.int_value(substitute(extent, numbers))
    # An extent that is undefined or negative at the sample exists at other sizes only.
    return SAMPLE if found is None else max(found, 0 if extent.op == "sym" else 1)
