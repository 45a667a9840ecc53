"""Chains as plain data, LaTeX and pages."""

from __future__ import annotations

import html
from typing import Any

from eqsat.explaining.chain import Chain, Link
from eqsat.latex import latex


def chain_data(chain: Chain) -> dict[str, Any]:
    """A chain as plain data."""
    return {
        "start": str(chain.start),
        "end": str(chain.end),
        "rules": list(chain.rules),
        "complete": chain.complete,
        "holds": chain.holds,
        "steps": [_link_data(link) for link in chain.links],
    }


def _link_data(link: Link) -> dict[str, Any]:
    return {
        "rule": link.rule,
        "from_right_to_left": link.reversed,
        "path": list(link.path),
        "before": str(link.before),
        "after": str(link.after),
        "whole": str(link.whole),
        "conditions": [{"condition": str(c), "verdict": p.verdict, "method": p.method} for c, p in link.conditions],
        "proof": {"verdict": link.proof.verdict, "method": link.proof.method},
        "tried": link.tried,
    }


def chain_latex(chain: Chain) -> str:
    r"""A chain as an aligned equation, a line for each step with its rule and its conditions.

    >>> from eqsat.explaining.chain import explain
    >>> print(chain_latex(explain("(4*x + y) // 4", "x", {"y": 4})))
    \begin{align*}
    & \left\lfloor{\frac{y + 4 x}{4}}\right\rfloor \\
    &= x && \text{div-of-sum: } 0 \leq y,\ y < 4
    \end{align*}
    """
    lines = [f"& {latex(chain.start)}"]
    for link in chain.links:
        needs = r",\ ".join(latex(c) for c, _ in link.conditions)
        arrow = r"$\leftarrow$ " if link.reversed else ""
        lines.append(
            rf"&= {latex(link.whole)} && \text{{{arrow}{link.rule}{': ' if needs else ''}}}{needs and ' '}{needs}"
        )
    return "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"


def chain_html(chain: Chain) -> str:
    """A chain as a page of its own."""
    rows = [("", "", chain.start, "", "")]
    rows += [
        (
            link.rule + (" (from right to left)" if link.reversed else ""),
            f"{link.before} = {link.after}",
            link.whole,
            "; ".join(f"{c}: {p.verdict} ({p.method})" for c, p in link.conditions),
            f"{link.proof.verdict} ({link.proof.method})" + ("" if link.tried is None else ", tried"),
        )
        for link in chain.links
    ]
    cells = "".join(f"<tr>{''.join(f'<td>{html.escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    heads = "".join(f"<th>{h}</th>" for h in ("rule", "part", "term", "conditions", "checked"))
    title = html.escape(f"{chain.start} = {chain.end}")
    return (
        f"<!doctype html><meta charset='utf-8'><title>{title}</title><h1>{title}</h1>"
        f"<p>by {html.escape(', '.join(chain.rules) or 'no rule')}</p><table border='1'><tr>{heads}</tr>{cells}</table>"
    )
