"""`plot`: an index map, or a chain of them, as a picture."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from eqsat.files import write_whole
from eqsat.ir.errors import EqsatError
from eqsat.ir.keywords import keywords
from eqsat.ir.terms.shape import format_shape
from eqsat.pictures.draw import draw
from eqsat.pictures.steps import Grid, Step, grids


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture: `svg` is its text, notebooks show it, `save` writes it.

    `grids` is what it shows: the source, then the layout after each step; `grids[n].cells` are the numbers.
    """

    svg: str
    grids: tuple[Grid, ...]

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Picture({'; '.join(f'{g.title}: {format_shape(g.shape)}' for g in self.grids)})"

    def figure(self) -> Any:
        """The picture as a figure of matplotlib, whose parts can be changed: one of its axes for each grid.

        >>> plot("i -> i//4, i%4", (14,)).figure().axes[1].get_title()    # doctest: +SKIP
        '1. i -> i // 4, i % 4'

        Errors: MissingPackage without matplotlib (`eqsat[plot]`).
        """
        from eqsat.pictures.figure import figure

        return figure(self.grids)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to an .svg file, whole or not at all.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot("i -> i//4, i%4", (14,)).save(Path(folder, "split.svg"))
        ...     Path(folder, "split.svg").read_text()[:4]
        '<svg'

        Errors: EqsatError for another kind of file, or where it cannot be written.
        """
        if Path(path).suffix.lower() != ".svg":
            raise EqsatError(f"save of a picture as {path}", "is not an .svg file", "name it .svg")
        try:
            write_whole(path, self.svg)
        except OSError as error:
            raise EqsatError(f"save of a picture as {path}", f"cannot be written: {error}") from error


@keywords
def plot(steps: Step | list[Any], shape: Any, /, **sizes: int) -> Picture:
    """A picture of where an index map, or each of a list of them in turn, puts the elements of a tensor of a shape.

    >>> picture = plot("i -> i//4, i%4", (6,))
    >>> picture.grids[-1].cells
    array([[ 0,  1,  2,  3],
           [ 4,  5, -1, -1]])
    >>> plot(["NHWC -> NCHW", "NCHW -> NCHW2c"], (1, 2, 2, 4))
    Picture(source: (1, 2, 2, 4); 1. n, h, w, c -> n, c, h, w: (1, 4, 2, 2); 2. ...: (1, 2, 2, 2, 2))

    A step is an index map, its text, a layout, two of them ("NCHW -> NCHW16c", or a pair), a function of indices, or
    an einops pattern, with the `sizes` that the shape does not give. Each cell has the number of its element in the
    order of the source, and the colour of that number; padding is hatched. The last axis goes to the right, the one
    before it down, the one before that to the right again, as blocks. Of large layouts the first cells are shown, and
    it says so.

    Errors: LayoutError where two elements meet in a cell (with both) or a map leaves its box, ShapeError for shapes
    with symbols, ParseError for a text that is no map.
    """
    chain = cast("list[Any]", steps) if isinstance(steps, list) else [steps]
    found = grids(chain, shape, sizes)
    return Picture(draw(found), tuple(found))
