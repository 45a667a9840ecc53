"""`rearrange`: axes split, put in another order and merged by an einops pattern, as three views that fold into one."""

from __future__ import annotations

from typing import Any, cast

from eqsat.ir.errors import ParseError
from eqsat.ir.given import text
from eqsat.ir.layouts.pattern import on_shape
from eqsat.ir.tensors import views
from eqsat.ir.tensors.arrays.joining import stack
from eqsat.ir.tensors.arrays.types import as_tensor
from eqsat.ir.tensors.tensor import Tensor


def rearrange(x: Any, pattern: str, **sizes: int) -> Tensor:
    """The axes of a tensor (of a list of tensors: stacked) by an einops pattern, as einops.rearrange.

    >>> import eqsat as eq
    >>> x = eq.input("x", (1, 3, 8, 8), "float32")
    >>> eq.rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=2).shape
    (1, 16, 12)

    `sizes` are those of names that the shape does not give. Raises LayoutError, a ParseError for what is no pattern.
    """
    y = stack(cast(Any, x)) if isinstance(x, (list, tuple)) else as_tensor(x, "rearrange")
    found = on_shape(text(pattern, "rearrange", ParseError), y.shape, sizes)
    return views.reshape(views.permute_dims(views.reshape(y, found.parts), found.order), found.shape)
