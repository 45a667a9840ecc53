"""Graphs and curves as SVG, drawn here so that a page shows them at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from html import escape

from eqsat.reporting.layers import HEIGHT, WIDTH, places
from eqsat.reporting.sides import INPUT, OUTPUT, Side, Vertex

LETTERS = 22
"""Of a label that fit into a box."""
BOW = 100
"""How far an edge over several layers swings out, in pixels."""
MARGIN = 20


def graph(side: Side, name: str, changed: Collection[str]) -> str:
    """The operators of a side as boxes, moves coloured; changed: the keys of moves that the other side has not."""
    corners = places(side.vertices)
    numbers = {v.tensor: n for n, v in enumerate(side.vertices)}
    edges: list[str] = []
    for n, vertex in enumerate(side.vertices):
        for tensor in vertex.reads:
            if tensor in numbers:
                edges.append(_edge(corners[numbers[tensor]], corners[n]))
    boxes = [_box(v, corners[n], f"{name}-{n}", v.key in changed) for n, v in enumerate(side.vertices)]
    width = max((x for x, _ in corners), default=0) + WIDTH + 2 * MARGIN + BOW
    height = max((y for _, y in corners), default=0) + HEIGHT + 2 * MARGIN
    box = f"{-MARGIN} {-MARGIN} {width:g} {height:g}"
    return (
        f'<svg class="graph" viewBox="{box}" data-box="{box}" role="img" aria-label="the program {name}">'
        f'<path class="edge" d="{"".join(edges)}"/>{"".join(boxes)}</svg>'
    )


def _edge(start: tuple[float, int], end: tuple[float, int]) -> str:
    x, y = start[0] + WIDTH / 2, start[1] + HEIGHT
    to, below = end[0] + WIDTH / 2, end[1]
    if below - y > 2 * HEIGHT and abs(to - x) < WIDTH:
        return f"M{x:g} {y}C{x + BOW:g} {y + HEIGHT} {to + BOW:g} {below - HEIGHT} {to:g} {below}"
    middle = (y + below) / 2
    return f"M{x:g} {y}C{x:g} {middle:g} {to:g} {middle:g} {to:g} {below}"


def _box(vertex: Vertex, corner: tuple[float, int], number: str, changed: bool) -> str:
    kind = "end" if vertex.kind in (INPUT, OUTPUT) else ("changed" if changed else "move") if vertex.moved else "plain"
    label = vertex.text if kind == "end" else f"{vertex.kind} {vertex.name or vertex.tensor}"
    short = label if len(label) <= LETTERS else _short(vertex)
    lines = [label, vertex.types, vertex.text, f"moves {vertex.moved:,} bytes" if vertex.moved else ""]
    if vertex.picoseconds:
        lines.append(f"estimated {vertex.picoseconds / 1e6:,.1f} us")
    told = escape("\n".join(line for line in lines if line))
    x, y = corner
    return (
        f'<g id="{number}" class="node {kind}" tabindex="-1" transform="translate({x:g} {y})">'
        f'<title>{told}</title><rect width="{WIDTH}" height="{HEIGHT}" rx="{HEIGHT // 2 if kind == "end" else 5}"/>'
        f'<text x="{WIDTH // 2}" y="{HEIGHT // 2}">{escape(short)}</text></g>'
    )


def _short(vertex: Vertex) -> str:
    """A label that fits: the end of a name tells more than its beginning, and says the operator by itself as a rule.

    >>> _short(Vertex("t", "/encoder/layers.0/query/MatMul_1", "MatMul", "", "", ()))
    '…yers.0/query/MatMul_1'
    """
    name = vertex.name or vertex.tensor
    if vertex.kind in (INPUT, OUTPUT):
        return vertex.text[: LETTERS - 1] + "…"
    if vertex.kind in re.split(r"[/.:_]", name):
        return "…" + name[1 - LETTERS :]
    kind = vertex.kind[: LETTERS // 2]
    return f"{kind} …{name[len(kind) + 2 - LETTERS :]}"


def curve(points: Sequence[tuple[float, int]], width: int = 560, height: int = 160) -> str:
    """E-nodes over seconds as a curve with its axes."""
    last, most = max(points[-1][0], 1e-9), max(max(n for _, n in points), 1)
    left, below = 60, height - 30
    spots = [(left + (width - left - 10) * t / last, below - (below - 10) * n / most) for t, n in [(0.0, 0), *points]]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{t:.2f} s: {n:,} e-nodes</title></circle>'
        for (x, y), (t, n) in zip(spots[1:], points, strict=True)
    )
    return (
        f'<svg class="curve" viewBox="0 0 {width} {height}" role="img" aria-label="e-nodes over time">'
        f'<path class="axis" d="M{left} 5V{below}H{width - 5}"/><polyline points="{line}"/>{dots}'
        f'<text x="{left - 6}" y="14" text-anchor="end">{most:,}</text>'
        f'<text x="{left - 6}" y="{below}" text-anchor="end">0</text>'
        f'<text x="{left}" y="{height - 10}">0 s</text>'
        f'<text x="{width - 5}" y="{height - 10}" text-anchor="end">{last:.2f} s</text></svg>'
    )
