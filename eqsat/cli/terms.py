"""`eqsat explain`: are two index expressions equal, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eqsat.cli.output import Output, writable, write_file
from eqsat.cli.user_rules import rules_of
from eqsat.explaining.chain import Chain, chain_of
from eqsat.explaining.show import chain_data, chain_html, chain_latex
from eqsat.index_graph.explain import Explanation, explain_terms
from eqsat.ir.rule import Rule
from eqsat.proving.prover import prove_equal
from eqsat.proving.ranges_text import ranges_of
from eqsat.proving.read import Ranges, read
from eqsat.rulebook import default_rules
from eqsat.rulebook.choice import rules_in_use


@dataclass(frozen=True)
class Explaining:
    """What `eqsat explain` was asked: two expressions, ranges, how to show the chain, and modules of rules."""

    a: str
    b: str
    ranges: str = ""
    latex: bool = False
    html: Path | None = None
    rules: tuple[str, ...] = ()


def run_explain(asked: Explaining, out: Output) -> int:
    """Print the verdict and the steps; 1 where the expressions differ somewhere."""
    a, b = asked.a, asked.b
    box = ranges_of(asked.ranges)
    page = writable(asked.html)
    own = [r for name in asked.rules for r in rules_of(name) if isinstance(r, Rule)]
    rules = rules_in_use(own) if own else tuple(default_rules())
    with out.progress("proving") as show:
        proof = prove_equal(a, b, box)
        show("looking for rules")
        why = explain_terms(a, b, box, rules) if proof else Explanation(False)
        show("looking for steps")
        chain = _chain(a, b, box, why, rules)
    words = {"proved": "equal", "refuted": "not equal", "unknown": "not known to be equal"}[proof.verdict]
    lines = [f"{words}: {a}  and  {b}", f"  by {proof.method} in {proof.seconds:.3f} s"]
    if proof.witness:
        lines.append("  at " + ", ".join(f"{name}={value}" for name, value in proof.witness.items()))
    if chain is not None:
        lines += [f"  {line}" for line in str(chain).splitlines()]
    elif proof:
        lines.append("  note: no rules that show it were found")
    if proof.note:
        lines.append(f"  note: {proof.note}")
    if page is not None and chain is not None:
        write_file(page, chain_html(chain))
    data = {
        "a": a,
        "b": b,
        "verdict": proof.verdict,
        "witness": proof.witness,
        "method": proof.method,
        "seconds": proof.seconds,
        "note": proof.note,
        "assumptions": proof.assumptions,
        "rules": why.rules if why.equal else None,
        "steps": [[str(step) for step in side] for side in why.steps],
        "chain": None if chain is None else chain_data(chain),
    }
    out.answer(data, chain_latex(chain) if asked.latex and chain is not None else "\n".join(lines))
    return 1 if proof.verdict == "refuted" else 0


def _chain(a: str, b: str, ranges: Ranges, why: Explanation, rules: Sequence[Rule]) -> Chain | None:
    if not why.equal:
        return None
    (first, second), box = read([a, b], ranges)
    return chain_of(first, second, box, why, rules)
