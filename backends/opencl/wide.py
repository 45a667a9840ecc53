"""Accesses of several neighbouring elements at once, on devices whose buffers begin at whole vectors."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.backends.lowering.moves import Access
from eqsat.backends.opencl.expr import spell

WORD = 4
"""Bytes of a word of local memory."""


def aligned(access: Access, loop: int, extent: int, lanes: int) -> bool:
    """Whether an access walks along a loop in whole vectors of so many elements.

    >>> aligned(Access("x", "int8", 8, (64, 1)), 1, 32, 4), aligned(Access("x", "int8", 8, (63, 1)), 1, 32, 4)
    (True, False)
    """
    others = [s for k, s in enumerate(access.strides) if k != loop]
    return access.strides[loop] == 1 and not any(n % lanes for n in (access.offset, extent, *others))


def vector(element: str, lanes: int) -> str:
    """OpenCL's name of a vector type."""
    return f"{spell(element)}{lanes}"


def at(space: str, element: str, lanes: int, place: str) -> str:
    """Several neighbouring elements of memory in an address space as one, from an address that is a multiple.

    >>> at("__global", "uint8_t", 4, "out0 + i0")
    '*(__global uchar4 *)(out0 + i0)'
    """
    return f"*({space} {vector(element, lanes)} *)({place})"


def indented(lines: Sequence[str]) -> list[str]:
    """The lines one level deeper."""
    return [f"    {line}" for line in lines]
