"""Views of flat buffers as an algebra: composed once, for loading, search and extraction alike."""

from __future__ import annotations

from eqsat.ir.flat.formula import composed_parts
from eqsat.operators.interned import Reindex


def compose(first: Reindex, then: Reindex) -> Reindex | None:
    """The view by `then` of the view by `first`, as one view (law: compose); None where their paddings show two values,
    or where only a large formula says it.

    >>> from eqsat.ir.flat.map import digit, from_digits
    >>> pad, crop = from_digits(4, [digit(6, 1, 1, 5)], -1), from_digits(6, [digit(4, 1)], 1)
    >>> print(compose(Reindex(pad, None, "int8"), Reindex(crop, None, "int8")).map)
    (4:1) of 4
    """
    found = composed_parts(first.map, then.map)
    if found is None or (found.outer_pads and found.inner_pads and first.fill is not then.fill):
        return None
    fill = then.fill if found.outer_pads else first.fill if found.inner_pads else None
    return Reindex(found.map, fill, then.dtype)
