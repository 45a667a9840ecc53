"""A small index e-graph as a picture: each class a box with its e-nodes, as graphviz text, SVG or a page of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from eqsat.files import write_whole
from eqsat.index_graph.extract import Extractor, Node
from eqsat.index_graph.graph import IndexGraph, Limits, Unsound
from eqsat.index_graph.reversed import both_ways
from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.errors import EqsatError
from eqsat.ir.rule import Kind, Parameter, Rule, variable
from eqsat.ir.terms.term import Term
from eqsat.proving.read import Ranges, read
from eqsat.research.saturate import LIMITS
from eqsat.rulebook import default_rules

MOST_CLASSES = 60
MOST_NODES = 12  # of a class that are shown
LINE, LETTER, MARGIN, GAP = 16, 7, 8, 46
"""Pixels: of a line of text, of a letter, around the text of a box, between rows of boxes."""
WHITE_SPACE = 18


@dataclass(frozen=True)
class ClassBox:
    """A class: its name, its cheapest term, its e-nodes over the names of classes, and the classes that each reads."""

    name: str
    best: str
    nodes: tuple[str, ...]
    reads: tuple[tuple[str, ...], ...]
    is_root: bool = False
    hidden: int = 0

    @property
    def lines(self) -> tuple[str, ...]:
        """What the box says."""
        more = (f"and {self.hidden} more",) if self.hidden else ()
        return (f"{self.name}: {self.best}", *self.nodes, *more)


@dataclass(frozen=True)
class GraphPicture:
    """An e-graph after its rules have run. `cut`: the classes that are not shown, those farthest from the term."""

    title: str
    status: str
    boxes: tuple[ClassBox, ...]
    cut: int = 0

    @property
    def caption(self) -> str:
        """What is shown, and what is not."""
        shown = (
            f"{len(self.boxes)} of {len(self.boxes) + self.cut} classes" if self.cut else f"{len(self.boxes)} classes"
        )
        return f"{self.title}: {self.status}, {shown}"

    def dot(self) -> str:
        """The picture for graphviz: `dot -Tsvg`."""
        lines = ["digraph egraph {", f"  label={_quoted(self.caption)}", "  compound=true; node [shape=record]"]
        for box in self.boxes:
            fields = "|".join(f"<n{k}> {_field(line)}" for k, line in enumerate(box.lines))
            lines.append(f'  {box.name} [label="{{{fields}}}"{", penwidth=2" if box.is_root else ""}]')
        names = {box.name for box in self.boxes}
        for box in self.boxes:
            for k, reads in enumerate(box.reads, 1):
                lines += [f"  {box.name}:n{k} -> {name}" for name in dict.fromkeys(reads) if name in names]
        return "\n".join([*lines, "}", ""])

    def svg(self) -> str:
        """The picture, drawn: what a class reads is below it, where that can be."""
        return _Drawing(self.boxes).text()

    def html(self) -> str:
        """A page of its own; with the pointer on a class, what it reads and what reads it stands out."""
        return PAGE.format(title=escape(self.caption), svg=self.svg())

    def save(self, path: str | Path) -> None:
        """Write it whole or not at all: .dot and .gv for graphviz, .svg, or .html.

        Errors: EqsatError for another kind of file, or where it cannot be written.
        """
        kinds = {".dot": self.dot, ".gv": self.dot, ".svg": self.svg, ".html": self.html}
        make = kinds.get(Path(path).suffix.lower())
        if make is None:
            raise EqsatError(f"e-graph as {path}", "is no kind of picture", f"name it {', '.join(kinds)}")
        try:
            write_whole(path, make())
        except OSError as error:
            raise EqsatError(f"e-graph as {path}", f"cannot be written: {error}") from error


def graph_picture(
    text: Any,
    ranges: Ranges | None = None,
    rules: Sequence[Rule] | None = None,
    *,
    limits: Limits = LIMITS,
    most: int = MOST_CLASSES,
) -> GraphPicture:
    """The index e-graph of a term (or text) in its ranges, after rules (omitted: all of eqsat) ran within the limits.

    most: classes to show, those nearest to the term first.

    >>> picture = graph_picture("x // 4 * 4 + x % 4")
    >>> picture.status, next(box.best for box in picture.boxes if box.is_root)
    ('saturated', 'x')
    """
    (term,), box = read([text], ranges)
    closed = {leaf: (a, b) for leaf, (a, b) in box.items() if a is not None and b is not None}
    with IndexGraph(both_ways(default_rules() if rules is None else rules), closed) as graph:
        root = graph.add(term)
        try:
            status = graph.run(limits).status
        except Unsound:
            graph.spoiled, status = True, "contradiction"
        boxes = _Boxes(graph.extractor(), graph.graph.find(graph.roots[root]))
        shown = tuple(boxes.nearest(most))
        return GraphPicture(
            str(term), "saturated" if status == "settled" else status, shown, len(boxes.order) - len(shown)
        )


class _Boxes:
    """The classes that a root reads, nearest first. Numbers and leaves without any other form have no box."""

    def __init__(self, extractor: Extractor, root: Any) -> None:
        self.extractor, self.root = extractor, root
        self.nodes: dict[Any, list[Node]] = {}
        for node in extractor.nodes:
            if extractor.reachable(node):
                self.nodes.setdefault(node.output, []).append(node)
        self.order: list[Any] = []
        waiting, seen = [root], {root}
        while waiting:
            here = waiting.pop(0)
            if here is not root and here != root and self._plain(here):
                continue
            self.order.append(here)
            for child in (c for node in self.nodes.get(here, ()) for c in node.children):
                if child not in seen:
                    seen.add(child)
                    waiting.append(child)
        self.names = {c: f"e{n}" for n, c in enumerate(self.order)}

    def _plain(self, c: Any) -> bool:
        """Whether a class is a number or a leaf and nothing else."""
        return all(not node.children for node in self.nodes.get(c, ()))

    def nearest(self, most: int) -> Iterator[ClassBox]:
        """The boxes of the first classes."""
        for c in self.order[:most]:
            found = dict(self._labelled(node) for node in self.nodes[c])
            kept = list(found.items())[:MOST_NODES]
            yield ClassBox(
                self.names[c],
                str(self.extractor.term(c)),
                tuple(label for label, _ in kept),
                tuple(reads for _, reads in kept),
                c == self.root,
                len(found) - len(kept),
            )

    def _labelled(self, node: Node) -> tuple[str, tuple[str, ...]]:
        """An e-node over the names of the classes that it reads, and these names."""
        reads = tuple(self.names[c] for c in node.children if c in self.names)
        try:
            return str(node.build([self._operand(c) for c in node.children])), reads
        except EqsatError:
            return f"{node.function}({', '.join(map(str, map(self._operand, node.children)))})", reads

    def _operand(self, c: Any) -> Term:
        term = self.extractor.term(c)
        if c not in self.names or term.op == "pair":
            return term
        kind = {INDEX: Kind.IDX, BOOL: Kind.PRED}.get(term.dtype, Kind.DATA)
        return variable(Parameter(self.names[c], kind), term.dtype if kind is Kind.DATA else "")


class _Drawing:
    """Boxes in rows, each below those that read it."""

    def __init__(self, boxes: Sequence[ClassBox]) -> None:
        self.boxes = {box.name: box for box in boxes}
        rows: list[list[ClassBox]] = []
        for box, level in self._levels().items():
            while len(rows) <= level:
                rows.append([])
            rows[level].append(self.boxes[box])
        self.places: dict[str, tuple[int, int, int, int]] = {}
        y = MARGIN
        for row in rows:
            row.sort(key=self._middle)
            x = MARGIN
            for box in row:
                width = max(map(len, box.lines)) * LETTER + 2 * MARGIN
                height = len(box.lines) * LINE + MARGIN
                self.places[box.name] = (x, y, width, height)
                x += width + WHITE_SPACE
            y += max((self.places[b.name][3] for b in row), default=0) + GAP

    def _levels(self) -> Mapping[str, int]:
        """The shortest way from the root to each class, as a number of steps."""
        found: dict[str, int] = {}
        for name in self.boxes:  # in the order of a search in breadth
            level = found.setdefault(name, 0)
            for reads in self.boxes[name].reads:
                for child in reads:
                    if child in self.boxes:
                        found.setdefault(child, level + 1)
        return found

    def _middle(self, box: ClassBox) -> float:
        """Where those stand that read a class, on average."""
        above = [p for name, p in self.places.items() if any(box.name in reads for reads in self.boxes[name].reads)]
        return sum(x + w / 2 for x, _, w, _ in above) / len(above) if above else 0.0

    def text(self) -> str:
        """The picture as SVG."""
        width = max((x + w for x, _, w, _ in self.places.values()), default=0) + MARGIN
        height = max((y + h for _, y, _, h in self.places.values()), default=0) + MARGIN
        parts = [HEAD.format(width=width, height=height), *self._edges(), *self._drawn()]
        return "\n".join([*parts, "</svg>", ""])

    def _edges(self) -> Iterator[str]:
        for box in self.boxes.values():
            x, y, w, h = self.places[box.name]
            for k, reads in enumerate(box.reads, 1):
                for name in dict.fromkeys(r for r in reads if r in self.places):
                    to_x, to_y, to_w, to_h = self.places[name]
                    below = to_y > y
                    start = (x + w / 2, y + h) if below else (x + w, y + k * LINE + LINE / 2)
                    end = (to_x + to_w / 2, to_y) if below else (to_x + to_w, to_y + to_h / 2)
                    bend = GAP / 2 if below else 0
                    side = 0 if below else GAP
                    ends = f'data-from="{box.name}" data-to="{name}"'
                    yield (
                        f'<path class="edge" {ends} d="M {start[0]:.0f} {start[1]:.0f} '
                        f"C {start[0] + side:.0f} {start[1] + bend:.0f}, {end[0] + side:.0f} {end[1] - bend:.0f}, "
                        f'{end[0]:.0f} {end[1]:.0f}"/>'
                    )

    def _drawn(self) -> Iterator[str]:
        for box in self.boxes.values():
            x, y, w, h = self.places[box.name]
            kind = "class root" if box.is_root else "class"
            yield f'<g class="{kind}" id="{box.name}"><rect x="{x}" y="{y}" width="{w}" height="{h}" rx="4"/>'
            for k, line in enumerate(box.lines):
                bold = ' class="best"' if not k else ""
                yield f'<text x="{x + MARGIN}" y="{y + (k + 1) * LINE - 2}"{bold}>{escape(line)}</text>'
            yield "</g>"


def _field(text: str) -> str:
    """A line of a record of graphviz."""
    return "".join(f"\\{c}" if c in '{}|<>"\\ ' else c for c in text)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" class="egraph" width="{width}" height="{height}" viewBox="0 0 {width} {height}">
<style>
.egraph text {{ font: 12px ui-monospace, monospace; fill: #24292f }} .egraph .best {{ font-weight: bold }}
.egraph rect {{ fill: #f6f8fa; stroke: #6e7781 }} .egraph .root rect {{ stroke-width: 2.5; fill: #ddf4ff }}
.egraph .edge {{ fill: none; stroke: #8c959f }} .egraph .edge.lit {{ stroke: #cf222e; stroke-width: 2 }}
.egraph .lit rect {{ stroke: #cf222e }}
</style>"""

PAGE = """\
<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body style="font-family: system-ui; margin: 1em"><h1 style="font-size: 1.1em">{title}</h1>
<p>Each box is a class of equal terms: its cheapest term, then its e-nodes over the names of classes.</p>
{svg}<script>
for (const box of document.querySelectorAll(".class"))
  for (const [kind, on] of [["mouseenter", true], ["mouseleave", false]])
    box.addEventListener(kind, () => {{
      for (const edge of document.querySelectorAll(".edge"))
        if (edge.dataset.from === box.id || edge.dataset.to === box.id) {{
          edge.classList.toggle("lit", on);
          for (const end of [edge.dataset.from, edge.dataset.to])
            document.getElementById(end).classList.toggle("lit", on);
        }}
    }});
</script></body></html>
"""
