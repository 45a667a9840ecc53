"""Floor division as machines divide: what is divided by a number is made non-negative by whole multiples of it.

Machines round quotients towards zero. Where a dividend may be negative, but not below a known number, a multiple of the
divisor is added to it, and taken off the quotient again; the remainder stays as it is.
"""

from __future__ import annotations

from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.ir.dtypes import INDEX
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, int_value
from eqsat.ir.terms.walk import transform


def upwards(term: Term, simplifier: IndexSimplifier) -> Term:
    """The term with dividends of index type that are not negative, where they have a lower bound.

    >>> i, j = t.ax(0, 4), t.ax(1, 8)
    >>> str(upwards((i - j) % 5, IndexSimplifier())), str(upwards((i - j) // 5 + 1, IndexSimplifier()))
    ('(i0 - i1 + 10) % 5', '(i0 - i1 + 10) // 5 - 1')
    """

    def change(node: Term) -> Term | None:
        if node.op not in ("floordiv", "mod") or node.dtype != INDEX:
            return None
        x, divisor = node.args[0], int_value(node.args[1])
        known = simplifier.range(x) if divisor is not None and divisor > 0 else None
        if known is None or divisor is None or known[0] >= 0:
            return None
        multiples = -(known[0] // divisor)
        raised = t.make(node.op, (x + multiples * divisor, node.args[1]))
        return raised - multiples if node.op == "floordiv" else raised

    return transform(term, change)
