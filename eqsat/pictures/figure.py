"""Grids as a figure of matplotlib, for those who want to change it or put it beside others."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from eqsat.ir.errors import MissingPackage
from eqsat.pictures.draw import EVEN, colours_of, luminance
from eqsat.pictures.place import CELL, places
from eqsat.pictures.steps import PADDING, Grid

INCH = 72
"""Pixels of a picture on an inch of a figure."""


def figure(grids: Sequence[Grid]) -> Any:
    """A figure with one of its axes for each grid, as `eqsat.pictures.draw` places and colours the cells.

    Errors: MissingPackage without matplotlib.
    """
    try:
        figures: Any = import_module("matplotlib.figure")
        patches: Any = import_module("matplotlib.patches")
    except ImportError as error:
        fix = "pip install eqsat[plot]; the picture itself is SVG and needs nothing"
        raise MissingPackage("figure of a picture", "the package matplotlib is not installed", fix) from error
    sizes = [places(grid.cells.shape)[2:] for grid in grids]
    width = sum(max(w, 6 * CELL) + 2 * CELL for w, _ in sizes) / INCH
    height = (max(h for _, h in sizes) + 3 * CELL) / INCH
    made: Any = figures.Figure(figsize=(width, height), layout="constrained")
    colours = colours_of(grids)
    shares = made.add_gridspec(1, len(grids), width_ratios=[max(w, 6 * CELL) for w, _ in sizes])
    for number, grid in enumerate(grids):
        axes = made.add_subplot(shares[number])
        xs, ys, wide, high = places(grid.cells.shape)
        for cell in np.ndindex(grid.cells.shape):
            value, corner = int(grid.cells[cell]), (int(xs[cell]), int(ys[cell]))
            if value == PADDING:
                axes.add_patch(
                    patches.Rectangle(corner, CELL, CELL, facecolor="#eceff2", edgecolor="#9aa4ae", hatch="///")
                )
                continue
            colour = colours[value]
            axes.add_patch(
                patches.Rectangle(corner, CELL, CELL, facecolor=[c / 255 for c in colour], edgecolor="white")
            )
            ink = "black" if luminance(colour) > EVEN else "white"
            axes.text(
                corner[0] + CELL / 2, corner[1] + CELL / 2, str(value), ha="center", va="center", size=7, color=ink
            )
        axes.set(xlim=(-2, wide + 2), ylim=(high + 2, -2), aspect="equal")
        axes.set_title(grid.title, size=9)
        axes.axis("off")
    return made
