"""`eqsat explain`: are two index expressions equal, and why."""

from __future__ import annotations

from eqsat.cli.output import Output
from eqsat.index_graph.explain import Explanation, explain_terms
from eqsat.proving.prover import prove_equal
from eqsat.proving.ranges_text import ranges_of


def run_explain(a: str, b: str, ranges: str, out: Output) -> int:
    """Print the verdict; 1 where the expressions differ somewhere."""
    box = ranges_of(ranges)
    proof = prove_equal(a, b, box)
    why = explain_terms(a, b, box) if proof else Explanation(False)
    words = {"proved": "equal", "refuted": "not equal", "unknown": "not known to be equal"}[proof.verdict]
    lines = [f"{words}: {a}  and  {b}", f"  by {proof.method} in {proof.seconds:.3f} s"]
    if proof.witness:
        lines.append("  at " + ", ".join(f"{name}={value}" for name, value in proof.witness.items()))
    if why.equal:
        lines += [f"  {line}" for line in str(why).splitlines()]
    elif proof:
        lines.append("  note: no chain of rules was found")
    if proof.note:
        lines.append(f"  note: {proof.note}")
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
    }
    out.answer(data, "\n".join(lines))
    return 1 if proof.verdict == "refuted" else 0
