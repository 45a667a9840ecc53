"""What an index term costs: the measure by which the simpler of two equal terms is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder

# A mask or a shift by a number is a remainder or a quotient in other words, and costs the same.
WEIGHT = {"floordiv": 3, "mod": 3, "truncdiv": 3, "truncmod": 3, "bitand": 3, "shr": 3}
BY_NEGATIVE = 6


def operation_cost(node: Term) -> int:
    """What one node costs without its operands: divisions 3, other operations 2, each coefficient and constant too.

    A negative divisor costs more: no machine divides so that the quotient is rounded down, and what replaces it turns
    two signs and adds a number.
    """
    if node.op == "sum":
        return sum_cost(*node.payload)
    if node.op in ("const", "axis", "var", "sym"):
        return 0
    if node.op in ("and", "or", "prod"):
        return 2 * (len(node.args) - 1)
    if node.op in WEIGHT and (t.int_value(node.args[1]) or 0) < 0:
        return WEIGHT[node.op] + BY_NEGATIVE
    return WEIGHT.get(node.op, 2)


def sum_cost(constant: int, coefficients: Sequence[int]) -> int:
    """What the additions, multiplications and changes of sign of a sum cost: a minus sign that no subtraction and no
    factor takes is an operation."""
    negated = constant == 0 and bool(coefficients) and all(k == -1 for k in coefficients)
    return 2 * (max(0, len(coefficients) - 1) + (constant != 0) + sum(abs(k) != 1 for k in coefficients) + negated)


@lru_cache(maxsize=1 << 14)
def cost(term: Term) -> int:
    """The cost of a term, each shared part counted once, and 1 per leaf that occurs."""
    return sum(operation_cost(n) for n in postorder(term)) + 1
