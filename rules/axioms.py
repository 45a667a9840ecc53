"""The closed list of axioms: laws that are stated and not proved, at most ten.

Each is part of what an operator means. That a reduction has no order is a choice of the language (numpy, BLAS and ONNX
fix none); a result that relies on it says `reordered`, and `ordered=True` on a Compute forbids it.
"""

from __future__ import annotations

from eqsat.ir.law import Expr, Laws, combine, combine_permuted, read, tensor

AXIOMS = Laws("axioms", axioms=True)
MOST = 10


@AXIOMS.law("reduce-reindex")
def reduce_reindex() -> tuple[Expr, ...]:
    """An order-free reduction over a bijection of its reduced box is the reduction: its order does not matter."""
    x = tensor("x")
    return combine_permuted("s", "op", read(x, "a")), combine("op", read(x, "a"))
