"""The closed list of axioms: laws that are stated and not proved, at most ten.

Each is part of what an operator means. That a reduction has no order is a choice of the language (numpy, BLAS and ONNX
fix none); a result that relies on it says `reordered`, and `ordered=True` on a Compute forbids it.
"""

from __future__ import annotations

from eqsat.ir.law import (
    Expr,
    Laws,
    both,
    combine,
    combine_permuted,
    combine_within,
    implies,
    inside,
    negation,
    neutral,
    read,
    reduces,
    tensor,
    within,
)

AXIOMS = Laws("axioms", axioms=True)
MOST = 10


@AXIOMS.law("reduce-reindex")
def reduce_reindex() -> tuple[Expr, ...]:
    """An order-free reduction over a bijection of its reduced box is the reduction: its order does not matter."""
    x = tensor("x")
    return combine_permuted("s", "op", read(x, "a")), combine("op", read(x, "a"))


@AXIOMS.law("reduce-neutral")
def reduce_neutral() -> tuple[Expr, ...]:
    """An order-free reduction may leave out the indices at which its body changes nothing that it is combined with."""
    whole = combine("op", read(tensor("x"), "a"))
    idle = implies(both(inside(whole), reduces("op"), negation(within("k"))), neutral(whole))
    return whole, combine_within("k", "op", read(tensor("x"), "a")), idle
