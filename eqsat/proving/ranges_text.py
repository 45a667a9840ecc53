"""Ranges of variables as commands and files write them."""

from __future__ import annotations

from eqsat.ir.errors import EqsatError


def ranges_of(text: str) -> dict[str, int | tuple[int | None, int | None]]:
    """Ranges of variables from a text such as i=16,j=2:8; an open end means no bound there.

    >>> ranges_of("i=16, j=2:8, k=0:")
    {'i': 16, 'j': (2, 8), 'k': (0, None)}
    """
    found: dict[str, int | tuple[int | None, int | None]] = {}
    for piece in (p.strip() for p in text.split(",") if p.strip()):
        name, equals, value = (s.strip() for s in piece.partition("="))
        start, colon, stop = (s.strip() for s in value.partition(":"))
        try:
            if not name.isidentifier() or not equals:
                raise ValueError(piece)
            ends = tuple(int(s) if s else None for s in (start, stop))
        except ValueError as error:
            fix = "for example --ranges i=16,j=2:8"
            raise EqsatError(f"--ranges {piece!r}", "is neither NAME=EXTENT nor NAME=START:STOP", fix) from error
        if name in found:
            raise EqsatError(f"--ranges {piece!r}", f"{name} has a range already")
        if colon:
            found[name] = (ends[0], ends[1])
        elif ends[0] is not None:
            found[name] = ends[0]
        else:
            raise EqsatError(f"--ranges {piece!r}", "has no extent", "for example --ranges i=16")
    return found
