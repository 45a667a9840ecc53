"""What a search did and why, in words."""

from __future__ import annotations

import html
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from eqsat.cost import layout_nodes
from eqsat.ir.errors import EqsatError
from eqsat.ir.program_text import format_program
from eqsat.tensor_graph import RULE_LAWS

if TYPE_CHECKING:
    from eqsat.engine import Result


def explain_result(result: Result) -> str:
    """Costs, why the search stopped, the rules that matched, the side conditions, and what layout work is left."""
    lines = [
        f"bytes moved by layout operators: {result.cost_before} before, {result.cost_after} after",
        f"layout operators: {result.initial.layout_ops} before, {result.layout_ops} after",
        f"search: {result.status} after {result.progress.iterations} iterations, {result.progress.nodes} e-nodes, "
        f"{result.progress.seconds:.2f} s",
        "rules that matched:",
    ]
    fired = {n: c for n, c in result.progress.matches.items() if not n.startswith("ask") and c}
    for name, count in sorted(fired.items(), key=lambda item: -item[1]):
        laws = f" (laws: {', '.join(RULE_LAWS[name])})" if name in RULE_LAWS else ""
        lines.append(f"  {name}: {count}{laws}")
    lines.append(f"side conditions: {len(result.obligations)}")
    lines += [f"  {o.proof.verdict} ({o.proof.method}): {o.question}" for o in result.obligations]
    lines += [f"note: {note}" for note in result.notes]
    left = layout_nodes(result.program)
    lines += [f"left: {node.outputs[0][0]} {node.outputs[0][1]} moves {moved} bytes" for node, moved in left]
    return "\n".join(lines)


def write_html(result: Result, path: str) -> None:
    """The explanation and the program as a page; written beside the target first, then renamed."""
    page = (
        "<!doctype html><meta charset='utf-8'><title>eqsat</title>"
        f"<h1>eqsat</h1><pre>{html.escape(explain_result(result))}</pre>"
        f"<h2>program</h2><pre>{html.escape(format_program(result.program))}</pre>"
    )
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(page)
        os.replace(name, target)
    except OSError as error:
        raise EqsatError(f"report {path}", str(error), "choose a folder that can be written") from error
