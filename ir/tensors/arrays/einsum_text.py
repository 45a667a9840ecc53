"""The subscripts of an einsum as labels, one for each axis: ellipses are spelled out, the result is always given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eqsat.ir.errors import ParseError

SPARE = "".join(chr(c) for c in range(0x3B1, 0x3CA))
"""Labels that no text may have: they stand for the axes of an ellipsis, the last one first."""


@dataclass(frozen=True)
class Contraction:
    """The labels of each operand and of the result."""

    operands: tuple[str, ...]
    result: str


def read(text: str, ranks: Sequence[int], what: str) -> Contraction:
    """The labels of operands of these ranks.

    >>> read("ij, jk", [2, 2], "einsum")
    Contraction(operands=('ij', 'jk'), result='ik')
    >>> read("...i->i...", [2], "einsum").result == "i" + SPARE[0]
    True
    """
    left, arrow, right = text.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks) or not ranks:
        raise ParseError(what, f"{len(parts)} operands in the text, {len(ranks)} given")
    most = 0
    operands: list[str] = []
    for part, rank in zip(parts, ranks, strict=True):
        hidden = rank - len(part.replace("...", ""))
        if hidden < 0 or (hidden and "..." not in part) or part.count(".") not in (0, 3):
            raise ParseError(what, f"{part!r} does not fit rank {rank}")
        most = max(most, hidden if "..." in part else 0)
        operands.append(part.replace("...", SPARE[:hidden][::-1]))
    dots = SPARE[:most][::-1]
    seen = "".join(operands)
    if arrow:
        result = right.replace("...", dots)
    else:
        once = sorted(c for c in set(seen) if seen.count(c) == 1 and c not in SPARE)
        result = dots + "".join(once)
    for label in result:
        if label not in seen or result.count(label) > 1:
            raise ParseError(
                what, f"the result's label {label!r} occurs " + ("twice" if label in seen else "nowhere else")
            )
    wrong = [c for c in seen if not (c.isalpha())]
    if wrong:
        raise ParseError(what, f"{wrong[0]!r} is not a label", "letters, commas, '...' and '->'")
    if set(dots) - set(result):
        raise ParseError(what, "the result drops the axes of '...'", "write '...' in it, too")
    return Contraction(tuple(operands), result)
