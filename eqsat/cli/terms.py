"""`eqsat explain`: are two index expressions equal, and why."""

from __future__ import annotations

from eqsat.cli.output import Output
from eqsat.index_graph.explain import Explanation, explain_terms
from eqsat.ir.errors import EqsatError
from eqsat.proving.prover import prove_equal


def ranges_of(text: str) -> dict[str, int | tuple[int | None, int | None]]:
    """Ranges of variables from a text such as i=16,j=2:8; an open end means no bound there.

    >>> ranges_of("i=16, j=2:8, k=0:")
    {'i': 16, 'j': (2, 8), 'k': (0, None)}
    """
    found: dict[str, int | tuple[int | None, int | None]] = {}
    for piece in (p.strip() for p in text.split(",") if p.strip()):
        name, equals, value = (s.strip() for s in piece.partition("="))
        start, colon, stop = (s.strip() for s in value.partition(":"))
        try:
            if not name.isidentifier() or not equals:
                raise ValueError(piece)
            ends = tuple(int(s) if s else None for s in (start, stop))
        except ValueError as error:
            fix = "for example --ranges i=16,j=2:8"
            raise EqsatError(f"--ranges {piece!r}", "is neither NAME=EXTENT nor NAME=START:STOP", fix) from error
        if name in found:
            raise EqsatError(f"--ranges {piece!r}", f"{name} has a range already")
        if colon:
            found[name] = (ends[0], ends[1])
        elif ends[0] is not None:
            found[name] = ends[0]
        else:
            raise EqsatError(f"--ranges {piece!r}", "has no extent", "for example --ranges i=16")
    return found


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
