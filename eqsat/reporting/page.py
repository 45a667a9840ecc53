"""A report as one page that loads nothing: what was gained, both programs, what was removed and why, what is left."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib import resources

from eqsat.checking.verdict import RegionCheck
from eqsat.reporting.drawing import curve, graph
from eqsat.reporting.sides import Side, Vertex
from eqsat.reporting.summary import Advice, Report, arrow, count, microseconds, names_of

MANY = 300
"""Rows of a table that are shown; what is beyond is counted."""
NEEDED = {"": "", "some": ", of which some may not be needed", "least": ", none of which can be left out"}
NAMED = 40
"""Operators of a region that are named."""

HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title}</title><style>{style}</style></head><body>
"""


def page(report: Report, title: str = "", program: str = "") -> str:
    """The page of a report; title: what was optimised; program: the result as text.

    >>> import eqsat as eq
    >>> x = eq.input("x", (2, 3), "float32")
    >>> text = page(eq.optimize(x.permute_dims((1, 0)).permute_dims((1, 0))).report)
    >>> text.count("<svg"), "http://" in text
    (3, False)
    """
    gone, new = report.changed_moves
    parts = [
        HEAD.format(title=escape(f"{title} - eqsat" if title else "eqsat"), style=_file("report.css")),
        f'<p class="soft">{escape(title)}</p><h1>{escape(report.verdict)}</h1>',
        _tiles(report),
        _graphs(report, {v.key for v in gone}, {v.key for v in new}),
        _bars(report),
        _operators(report),
        _removed(report, gone),
        _left(report),
        _laws(report),
        _checks(report),
        _timeline(report),
        _rest(report, program),
        f"<script>{_file('report.js')}</script></body></html>\n",
    ]
    return "".join(parts)


def _file(name: str) -> str:
    return resources.files("eqsat.reporting").joinpath(name).read_text(encoding="utf-8")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table of cells that are HTML; numbers: the columns that are numbers."""
    shown = list(rows)
    kinds = [' class="number"' if k in numbers else "" for k in range(len(heads))]
    head = "".join(f"<th{kind}>{h}</th>" for h, kind in zip(heads, kinds, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f'<td{k} data-head="{h}">{c}</td>' for c, k, h in zip(row, kinds, heads, strict=True))
        + "</tr>"
        for row in shown[:MANY]
    )
    more = f'<p class="soft">{len(shown) - MANY} more rows</p>' if len(shown) > MANY else ""
    table = f'<table class="stack"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="wide">{table}</div>{more}'


def _tiles(report: Report) -> str:
    before, after = report.before, report.after
    moved = sum(v.moved for v in before.vertices), sum(v.moved for v in after.vertices)
    tiles: list[tuple[str, str]] = []
    if report.objective == "time":
        tiles.append(("estimated time, us", arrow((microseconds(report.costs[0]), microseconds(report.costs[1])))))
    tiles += [
        ("bytes moved by layouts", arrow(moved)),
        ("moves", arrow((before.moves, after.moves))),
        ("operators", arrow((len(before.operators), len(after.operators)))),
        (
            "bytes of the model" if report.objective == "time" else "bytes of constants",
            arrow((before.size, after.size)),
        ),
        ("checked", report.checked.summary()),
    ]
    cells = "".join(f'<div class="tile"><b>{escape(v)}</b><span>{escape(n)}</span></div>' for n, v in tiles)
    return f'<div class="tiles">{cells}</div>'


def _graphs(report: Report, gone: set[str], new: set[str]) -> str:
    tools = "".join(
        f'<button data-do="{do}" aria-label="{label}" title="{label}">{sign}</button>'
        for do, label, sign in (("in", "closer", "+"), ("out", "farther", "−"), ("fit", "show all", "fit"))
    )
    panes = "".join(
        f'<section class="pane {name}"><header><b>{name}</b>{tools}</header>{graph(side, name, keys)}</section>'
        for name, side, keys in (("before", report.before, gone), ("after", report.after, new))
    )
    key = (
        '<div class="key"><span><i class="changed"></i>a move that was removed or replaced</span>'
        '<span><i class="move"></i>a move that is left</span><span><i></i>any other operator</span></div>'
    )
    hint = "Point at an operator, or touch it, to read what it does to indices. Drag to move; + and - to zoom."
    return (
        f'<h2>Before and after</h2>{key}<div class="panes">{panes}</div><pre id="told" aria-live="polite">{hint}</pre>'
    )


def _bars(report: Report) -> str:
    def bars(title: str, values: Sequence[tuple[str, tuple[float, float]]], unit: str) -> str:
        shown = [(kind, pair) for kind, pair in values if any(pair)]
        most = max((max(pair) for _, pair in shown), default=0)
        if not most:
            return ""
        rows = "".join(
            f'<span>{escape(kind)}</span><div class="pair">'
            + "".join(
                f'<div class="bar {name}"><i style="width:{70 * value / most:.1f}%"></i>{count(value)}{unit}</div>'
                for name, value in zip(("before", "after"), pair, strict=True)
            )
            + "</div>"
            for kind, pair in shown
        )
        return f'<h2>{title}</h2><p class="soft">grey: before, blue: after</p><div class="bars">{rows}</div>'

    times = [
        (r.kind, (microseconds(r.picoseconds[0]), microseconds(r.picoseconds[1]))) for r in report.rows if r.picoseconds
    ]
    moved = [(r.kind, (float(r.moved[0]), float(r.moved[1]))) for r in report.rows]
    by_bytes = bars("Bytes moved, by operator", [(k, (int(a), int(b))) for k, (a, b) in moved], "")
    return by_bytes + bars("Estimated time, by operator", sorted(times, key=lambda x: -max(x[1])), " us")


def _operators(report: Report) -> str:
    timed = any(r.picoseconds for r in report.rows)
    heads = ["operator", "nodes", "bytes moved", *(["estimated us"] if timed else [])]
    rows = [
        [
            escape(r.kind),
            arrow(r.nodes),
            arrow(r.moved),
            *(
                [arrow((microseconds(r.picoseconds[0]), microseconds(r.picoseconds[1])))]
                if r.picoseconds
                else [""] * timed
            ),
        ]
        for r in report.rows
    ]
    return f"<h2>Operators</h2>{_table(heads, rows, (1, 2, 3))}"


def _links(keys: Sequence[str], side: Side, name: str) -> str:
    """The operators of a region, as links to the picture."""
    places = {v.key: n for n, v in enumerate(side.vertices)}
    shown = [
        f'<a class="to" href="#{name}-{places[key]}">{escape(key)}</a>' if key in places else escape(key)
        for key in keys[:NAMED]
    ]
    more = [f"{len(keys) - NAMED} more"] if len(keys) > NAMED else []
    return ", ".join([*shown, *more]) or "nothing"


def _removed(report: Report, gone: Sequence[Vertex]) -> str:
    """The moves that are gone, by the region that was changed, with the check of it."""
    if not gone:
        return "<h2>Moves that were removed</h2><p>none</p>"
    rest = {v.key: v for v in gone}
    parts: list[str] = []
    for number, region in enumerate(report.checked):
        inside = [rest.pop(key) for key in region.before if key in rest]
        if inside:
            parts.append(_region(report, number, region, inside))
    if rest:
        table = _moves(report, list(rest.values()))
        parts.append(f"<details open><summary>outside of the regions that were checked</summary>{table}</details>")
    laws = ", ".join(f'<a href="#law-{escape(name)}">{escape(name)}</a>' for name, *_ in report.laws)
    said = (
        f"<p>By the laws {laws}{NEEDED[report.needed]}. Each of them is proved or an axiom, see below.</p>"
        if laws
        else ""
    )
    return f"<h2>Moves that were removed or replaced: {len(gone)}</h2>{said}{''.join(parts)}"


def _region(report: Report, number: int, region: RegionCheck, inside: Sequence[Vertex]) -> str:
    moves = "1 move" if len(inside) == 1 else f"{len(inside)} moves"
    head = f'region {number + 1}: {moves}, <span class="{region.verdict}">{region.verdict}</span>'
    return (
        f"<details{' open' if number < 3 else ''}><summary>{head}: {escape(region.reason)}</summary>"
        f"{_moves(report, inside)}{_taken(report, number)}"
        f'<p><span class="soft">before:</span> {_links(region.before, report.before, "before")}</p>'
        f'<p><span class="soft">in its place:</span> {_links(region.after, report.after, "after")}</p></details>'
    )


def _taken(report: Report, number: int) -> str:
    """The laws of a region, with links to what they say, and what they asked."""
    if not report.taken:
        return ""
    taken, known = report.taken[number], {name for name, *_ in report.laws}
    said = escape(taken.told)
    if taken.laws is None:
        return f"<p>{said} (<code>r.to_html(path, steps=True)</code> takes more)</p>"
    for name in sorted({*taken.laws} & known, key=len, reverse=True):
        said = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", f'<a href="#law-{name}">{name}</a>', said, count=1)
    rows = "".join(
        f'<li><span class="{verdict}">{verdict}</span> ({escape(method)}): <code>{escape(question)}</code></li>'
        for question, verdict, method in taken.conditions
    )
    asked = f'<p class="soft">which asked</p><ul>{rows}</ul>' if rows else ""
    return f"<p>{said}</p>{asked}"


def _moves(report: Report, moves: Sequence[Vertex]) -> str:
    rows = [
        [_links([v.key], report.before, "before"), escape(v.kind), count(v.moved), f"<code>{escape(v.text)}</code>"]
        for v in moves
    ]
    return _table(["move", "operator", "bytes", "what it did"], rows, (2,))


def _left(report: Report) -> str:
    if not report.left:
        return "<h2>Moves that are left: none</h2>"
    names, places = names_of(report.after), {v.tensor: n for n, v in enumerate(report.after.vertices)}

    def linked(tensor: str) -> str:
        name = escape(names.get(tensor, tensor))
        return f'<a class="to" href="#after-{places[tensor]}">{name}</a>' if tensor in places else name

    rows = [
        [
            escape(f"{m.name} in {m.inside}") if m.inside else linked(m.name),
            escape(m.shape),
            count(m.moved),
            escape(m.source),
            escape(", ".join(m.readers)),
            escape(m.reason),
        ]
        for m in report.left
    ]
    heads = ["move", "type", "bytes", "from", "to", "why it stays"]
    return f"<h2>Moves that are left: {len(rows)}</h2>{_table(heads, rows, (2,))}"


def _laws(report: Report) -> str:
    laws = [
        [
            f'<b id="law-{escape(name)}">{escape(name)}</b>',
            f"<code>{escape(statement)}</code><br>{escape(doc)}",
            status,
            count(times),
        ]
        for name, statement, doc, status, times in report.laws
    ]
    text = f"<h2>Laws that acted</h2>{_table(['law', 'statement', 'status', 'matches'], laws, (3,))}" if laws else ""
    conditions = [
        [f'<span class="{verdict}">{verdict}</span>', escape(method), f"<code>{escape(question)}</code>"]
        for question, verdict, method in report.conditions
    ]
    said = _table(["verdict", "by", "condition"], conditions) if conditions else "<p>none had to be asked</p>"
    return f"{text}<h2>Side conditions</h2>{said}"


def _checks(report: Report) -> str:
    rows = [
        [
            str(number + 1),
            f'<span class="{r.verdict}">{r.verdict}</span>',
            escape(r.reason),
            _links(r.before, report.before, "before"),
            _links(r.after, report.after, "after"),
            f"{1000 * r.seconds:.1f}",
        ]
        for number, r in enumerate(report.checked)
    ]
    heads = ["region", "verdict", "why", "before", "after", "ms"]
    return f"<h2>Checks</h2><p>{escape(report.checked.summary())}</p>{_table(heads, rows, (0, 5)) if rows else ''}"


def _timeline(report: Report) -> str:
    optimal = ", and the result is the cheapest that its e-graph has" if report.gap == 0 else ""
    lines = [
        f"<p>{report.iterations} iterations, {count(report.e_nodes)} e-nodes, status {escape(report.status)}{optimal}; "
        f"{report.seconds:.2f} s from reading to checking, of which {report.checked.seconds:.2f} s checking.</p>"
    ]
    if report.history:
        lines.append(curve(report.history))
    return f"<h2>The search</h2>{''.join(lines)}"


def _rest(report: Report, program: str) -> str:
    return "".join(_sections(report, program))


def _sections(report: Report, program: str) -> Iterator[str]:
    steps = report.next_steps(Advice())
    for title, lines in (("Notes", report.notes), ("What to do next", steps)):
        if lines:
            yield f"<h2>{title}</h2><ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
    if report.rules:
        rules = ", ".join(f"{escape(name)} {count(times)}" for name, times in report.rules.items())
        yield f"<details><summary>How often each rule of the search matched</summary><p>{rules}</p></details>"
    if program:
        yield f"<details><summary>The result as text</summary><pre>{escape(program)}</pre></details>"
