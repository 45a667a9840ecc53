"""What notebooks show: a heading, text as it is printed, and facts as a table. All names are text, never HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

COLOURS = {"proved": "#1a7f37", "refuted": "#d1242f", "unknown": "#9a6700"}
"""Of headings that are verdicts."""
PRE = '<pre style="margin:.3em 0;overflow-x:auto">{}</pre>'
HATCHED = "background:repeating-linear-gradient(45deg,#8c959f33 0 3px,transparent 3px 6px)"


def card(head: str, text: str = "", facts: Mapping[str, object] | None = None, more: str = "") -> str:
    """A heading, a text with its lines, and named facts; more: HTML that follows.

    >>> card("Proof", "i < 4", {"by": "<points>"})
    '<div><b>Proof</b><pre style="margin:.3em 0;overflow-x:auto">i &lt; 4</pre>by: <code>&lt;points&gt;</code></div>'
    """
    pre = PRE.format(escape(text)) if text else ""
    lines = "<br>".join(f"{escape(name)}: <code>{escape(str(value))}</code>" for name, value in (facts or {}).items())
    style = f' style="color:{COLOURS[head]}"' if head in COLOURS else ""
    gap = "<br>" if head and lines and not pre else ""
    return f"<div><b{style}>{escape(head)}</b>{gap}{pre}{lines}{more}</div>"


def folded(head: str, text: str) -> str:
    """A text that opens when its heading is touched."""
    return f"<details><summary>{escape(head)}</summary>{PRE.format(escape(text))}</details>"


def grid(rows: Sequence[Sequence[str]]) -> str:
    """Cells as a table; empty ones are padding, hatched."""
    style = "border:1px solid #8c959f66;padding:1px 6px;text-align:center"
    body = "".join(
        "<tr>"
        + "".join(f'<td style="{style}{"" if cell else ";" + HATCHED}">{escape(cell)}</td>' for cell in row)
        + "</tr>"
        for row in rows
    )
    return f'<table style="border-collapse:collapse;margin:.3em 0">{body}</table>'
