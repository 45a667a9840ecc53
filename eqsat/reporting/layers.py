"""Where the vertices of a graph are drawn: in layers from top to bottom, operands above what reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.reporting.sides import Vertex

WIDTH, HEIGHT, GAP, STEP = 168, 30, 18, 58
"""Of a box, between boxes of one layer, and from layer to layer, in pixels."""
SWEEPS = 2


def places(vertices: Sequence[Vertex]) -> list[tuple[float, int]]:
    """The left upper corner of each vertex.

    >>> a, b, c = (Vertex(n, "", "op", "", "", r) for n, r in (("a", ()), ("b", ("a",)), ("c", ("b", "a"))))
    >>> [y for _, y in places([a, b, c])]
    [0, 58, 116]
    """
    numbers = {v.tensor: n for n, v in enumerate(vertices)}
    reads = [[numbers[t] for t in v.reads if t in numbers] for v in vertices]
    depth = depths(reads)
    layers: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for n, d in enumerate(depth):
        layers[d].append(n)
    readers: dict[int, list[int]] = {}
    for n, sources in enumerate(reads):
        for source in sources:
            readers.setdefault(source, []).append(n)
    xs = [0.0] * len(vertices)
    down = dict(enumerate(reads))
    for layer in layers:
        _arrange(layer, down, xs)
    for _ in range(SWEEPS):
        for layer in reversed(layers):
            _arrange(layer, readers, xs)
        for layer in layers:
            _arrange(layer, down, xs)
    least = min(xs, default=0.0)
    return [(round(x - least, 1), d * STEP) for x, d in zip(xs, depth, strict=True)]


def depths(reads: Sequence[Sequence[int]]) -> list[int]:
    """The layer of each vertex: below all that it reads; what reads nothing stands just above its first reader."""
    depth = [0] * len(reads)
    for n, sources in enumerate(reads):
        depth[n] = max((depth[s] + 1 for s in sources), default=0)
    first: dict[int, int] = {}
    for n, sources in enumerate(reads):
        for source in sources:
            first[source] = min(first.get(source, depth[n]), depth[n])
    return [max(first.get(n, 1) - 1, 0) if not reads[n] else d for n, d in enumerate(depth)]


def _arrange(layer: Sequence[int], neighbours: Mapping[int, Sequence[int]], xs: list[float]) -> None:
    """Put the vertices of a layer near the middle of their neighbours, in the order of those, apart from each other."""
    wishes = {n: _middle([xs[k] for k in neighbours.get(n, ())], xs[n]) for n in layer}
    ordered = sorted(layer, key=lambda n: (wishes[n], n))
    right = float("-inf")
    for n in ordered:
        xs[n] = max(wishes[n], right)
        right = xs[n] + WIDTH + GAP
    shift = _middle([wishes[n] - xs[n] for n in ordered], 0.0)
    for n in ordered:
        xs[n] += shift


def _middle(numbers: Sequence[float], other: float) -> float:
    return sum(numbers) / len(numbers) if numbers else other
