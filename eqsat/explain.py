"""What a search did and why, in words."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from eqsat.extraction.cost import layout_nodes
from eqsat.files import write_whole
from eqsat.ir.errors import EqsatError
from eqsat.ir.tensors.program_text import format_program

if TYPE_CHECKING:
    from eqsat.engine import Result


def explain_result(result: Result) -> str:
    """Costs, why the search stopped, the rules that matched, the side conditions, and what layout work is left."""
    lines = [
        f"bytes moved by layout operators: {result.cost_before} before, {result.cost_after} after",
        f"layout operators: {result.initial.layout_ops} before, {result.layout_ops} after",
        f"search: {result.status} after {result.progress.iterations} iterations, {result.progress.nodes} e-nodes, "
        f"{result.progress.seconds:.2f} s",
        f"laws used while loading: {', '.join(f'{n} {c}' for n, c in result.progress.loaded.items()) or 'none'}",
        "rules that matched:",
    ]
    fired = {n: c for n, c in result.progress.matches.items() if not n.startswith("ask") and c}
    for name, count in sorted(fired.items(), key=lambda item: -item[1]):
        lines.append(f"  {name}: {count}")
    lines.append(f"side conditions: {len(result.obligations)}")
    lines += [f"  {o.proof.verdict} ({o.proof.method}): {o.question}" for o in result.obligations]
    lines.append(f"checked: {result.checked.summary()}")
    lines += [f"  {r.verdict}: {_named(r.before)} -> {_named(r.after)} ({r.reason})" for r in result.checked]
    lines += [f"note: {note}" for note in result.notes]
    left = layout_nodes(result.program)
    lines += [f"left: {node.outputs[0][0]} {node.outputs[0][1]} moves {moved} bytes" for node, moved in left]
    return "\n".join(lines)


def _named(nodes: tuple[str, ...]) -> str:
    """The first nodes of a region."""
    return ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "") or "nothing"


def write_html(result: Result, path: str) -> None:
    """The explanation and the program as a page, written whole or not at all."""
    page = (
        "<!doctype html><meta charset='utf-8'><title>eqsat</title>"
        f"<h1>eqsat</h1><pre>{html.escape(explain_result(result))}</pre>"
        f"<h2>program</h2><pre>{html.escape(format_program(result.program))}</pre>"
    )
    try:
        write_whole(path, page)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise EqsatError(f"report {path}", f"cannot be written: {reason}", "choose another name or folder") from error
