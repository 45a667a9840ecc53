"""Grids as SVG: one colour for each place in the order of the source, padding hatched, numbers where they fit."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.terms.shape import format_shape
from eqsat.pictures.place import CELL, places
from eqsat.pictures.steps import PADDING, Grid

MARGIN, LINE, PAGE, LETTER = 14, 16, 900, 6.8
"""Pixels: around grids, of a line of text, of a row of grids, of a letter."""
LETTERS = 72
SIZES = {1: 11, 2: 11, 3: 10, 4: 8, 5: 7}
"""The size of numbers by their digits; longer ones are left out."""
COLOURS = ((28, 51, 92), (30, 110, 130), (60, 160, 110), (170, 200, 80), (250, 215, 90))
EVEN = 0.179
"""The luminance on which black and white letters have the same contrast."""

HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" class="eqsat-plot" role="img" width="{width}" height="{height}" \
viewBox="0 0 {width} {height}">
<title>{title}</title>
<style>
.eqsat-plot text {{ font: 11px ui-monospace, monospace; fill: #24292f }}
.eqsat-plot .eqsat-number {{ text-anchor: middle; dominant-baseline: central }}
.eqsat-plot .eqsat-light {{ fill: #ffffff }}
.eqsat-plot .eqsat-dark {{ fill: #111111 }}
@media (prefers-color-scheme: dark) {{ .eqsat-plot .eqsat-caption {{ fill: #d0d7de }} }}
</style>
<defs><pattern id="eqsat-hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">\
<rect width="6" height="6" fill="#eceff2"/><line x1="0" y1="0" x2="0" y2="6" stroke="#9aa4ae" stroke-width="2"/>\
</pattern></defs>
"""


@dataclass(frozen=True, eq=False)
class Panel:
    """A grid with its lines of text, and the size of both together."""

    grid: Grid
    lines: list[str]
    width: int
    height: int


def draw(grids: Sequence[Grid]) -> str:
    """The grids from left to right, in as many rows as they need."""
    rows: list[list[Panel]] = [[]]
    for panel in map(_panel, grids):
        if rows[-1] and sum(p.width + MARGIN for p in rows[-1]) + panel.width > PAGE:
            rows.append([])
        rows[-1].append(panel)
    width = max(sum(p.width + 2 * MARGIN for p in row) for row in rows)
    height = sum(max(p.height for p in row) + 2 * MARGIN for row in rows)
    parts = [HEAD.format(width=width, height=height, title=escape("; ".join(g.title for g in grids)))]
    colours = colours_of(grids)
    top = MARGIN
    for row in rows:
        left = MARGIN
        for panel in row:
            parts += _drawn(panel, left, top, colours)
            left += panel.width + 2 * MARGIN
        top += max(p.height for p in row) + 2 * MARGIN
    return "".join(parts) + "</svg>\n"


def _panel(grid: Grid) -> Panel:
    padding = f", {grid.padding} {'cell' if grid.padding == 1 else 'cells'} of padding" if grid.padding else ""
    words = [grid.title, f"shape {format_shape(grid.shape)}{padding}"]
    if grid.cut:
        shown: tuple[int, ...] = grid.cells.shape
        words.append(f"the first {format_shape(shown)} of {format_shape(grid.shape)} are shown")
    if not grid.cells.size:
        words.append("no cells")
    lines = [line for text in words for line in textwrap.wrap(text, LETTERS)]
    _, _, width, height = places(grid.cells.shape)
    text_width = int(max(map(len, lines)) * LETTER) + 1
    return Panel(grid, lines, max(width, text_width), len(lines) * LINE + height + LINE // 2)


def colours_of(grids: Sequence[Grid]) -> dict[int, tuple[int, int, int]]:
    """A colour for each element that is shown, spread evenly over them in the order of the source."""
    shown = sorted({int(v) for grid in grids for v in grid.cells.flat} - {PADDING})
    last = max(1, len(shown) - 1)
    return {value: _colour(n / last) for n, value in enumerate(shown)}


def _colour(share: float) -> tuple[int, int, int]:
    at = share * (len(COLOURS) - 1)
    low = min(int(at), len(COLOURS) - 2)
    red, green, blue = (round(a + (b - a) * (at - low)) for a, b in zip(COLOURS[low], COLOURS[low + 1], strict=True))
    return red, green, blue


def luminance(colour: tuple[int, int, int]) -> float:
    """From 0 to 1, as WCAG defines it."""
    parts = [(c / 255 / 12.92) if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def _drawn(panel: Panel, left: int, top: int, colours: dict[int, tuple[int, int, int]]) -> Iterator[str]:
    for n, line in enumerate(panel.lines):
        yield f'<text class="eqsat-caption" x="{left}" y="{top + n * LINE + 11}">{escape(line)}</text>\n'
    xs, ys, width, height = places(panel.grid.cells.shape)
    top += len(panel.lines) * LINE
    cells: NDArray = panel.grid.cells
    for cell in np.ndindex(cells.shape):
        yield _cell(cell, int(cells[cell]), left + int(xs[cell]), top + int(ys[cell]), colours)
    if panel.grid.cut:
        edge = f'x="{left - 3}" y="{top - 3}" width="{width + 6}" height="{height + 6}"'
        yield f'<rect {edge} fill="none" stroke="#9aa4ae" stroke-dasharray="4 4"/>\n'


def _cell(cell: tuple[int, ...], value: int, x: int, y: int, colours: dict[int, tuple[int, int, int]]) -> str:
    holds = "padding" if value == PADDING else f"element {value}"
    colour = colours.get(value, (0, 0, 0))
    fill = "url(#eqsat-hatch)" if value == PADDING else "#{:02x}{:02x}{:02x}".format(*colour)
    size = f'width="{CELL - 1}" height="{CELL - 1}"'
    hint = f"<title>cell {format_shape(cell)}: {holds}</title>"
    drawn = f'<rect x="{x}" y="{y}" {size} rx="2" fill="{fill}">{hint}</rect>'
    digits = len(str(value))
    if value != PADDING and digits in SIZES:
        bright = luminance(colour) > EVEN
        place = f'x="{x + CELL / 2 - 0.5}" y="{y + CELL / 2}" style="font-size: {SIZES[digits]}px"'
        drawn += f'<text class="eqsat-number eqsat-{"dark" if bright else "light"}" {place}>{value}</text>'
    return drawn + "\n"
