"""`eqsat rules`: the catalogue of laws, and their proofs."""

from __future__ import annotations

from eqsat.cli.output import Output
from eqsat.ir.errors import EqsatError
from eqsat.ir.law import Law
from eqsat.ir.rule import Rule
from eqsat.rulebook import Rulebook, check_rule
from eqsat.rulebook.acting import acts, law_acts
from eqsat.rulebook.firings import firings
from eqsat.rules import all_rules


def run_list(out: Output) -> int:
    """Print every rule."""
    rules = all_rules()
    data = [
        {
            "name": r.name,
            "family": r.family,
            "law": str(r).removeprefix(f"{r.name}: "),
            "doc": r.doc,
            "source": r.source,
            "acts": list(acts(r) if isinstance(r, Rule) else law_acts(r)),
            "fires": firings().get(r.name, {}),
            "tags": sorted(r.tags) if isinstance(r, Rule) else ["axiom"] if r.axiom else [],
        }
        for r in rules
    ]
    lines: list[str] = []
    for family in dict.fromkeys(r.family for r in rules):
        members = [r for r in rules if r.family == family]
        lines.append(f"{family} ({len(members)})")
        lines += [f"  {r}" for r in members]
    out.answer({"rules": data}, "\n".join(lines))
    return 0


def run_check(names: tuple[str, ...], out: Output) -> int:
    """Prove the rules; the exit code says whether all are proved or axioms."""
    rules = _chosen(names)
    with out.progress(f"proving {len(rules)} rules"):
        book = Rulebook(tuple(check_rule(rule) for rule in rules))
    data = {
        "ok": book.ok,
        "counts": book.counts(),
        "rules": [
            {
                "name": r.name,
                "family": r.family,
                "status": r.status,
                "method": r.method,
                "seconds": round(r.seconds, 3),
                "witness": r.witness,
                "note": r.note,
                "law": r.text,
            }
            for r in book.reports
        ],
    }
    out.answer(data, str(book))
    return 0 if book.ok else 1


def _chosen(names: tuple[str, ...]) -> list[Rule | Law]:
    rules = all_rules()
    for name in names:
        if all(r.name != name for r in rules):
            near = [r.name for r in rules if name.split("-")[0] in r.name][:5]
            raise EqsatError(
                f"rule {name!r}",
                "there is none of this name",
                f"near: {', '.join(near)}" if near else "see `eqsat rules list`",
            )
    return [r for r in rules if not names or r.name in names]
