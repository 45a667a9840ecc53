"""`eqsat rules`: the catalogue of laws, and their proofs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eqsat.cli.output import Output, writable, write_file
from eqsat.cli.user_rules import exists, rules_of
from eqsat.ir.errors import EqsatError
from eqsat.ir.law import Law
from eqsat.ir.rule import Rule
from eqsat.ir.statements.law import StatementLaw
from eqsat.ir.tensors.told import KnownOperator, PadValue
from eqsat.rulebook import check_rules
from eqsat.rulebook.acting import acts, law_acts, why_idle
from eqsat.rulebook.choice import distinct
from eqsat.rulebook.firings import firings
from eqsat.rulebook.packages import Given, origins, rules_of_package
from eqsat.rulebook.parallel import executor_of
from eqsat.rulebook.report import BELIEVED, RuleReport
from eqsat.rules import all_rules
from eqsat.rules.statement_laws import all_declared


def run_list(out: Output) -> int:
    """Print every rule, and those that installed packages offer, with where they come from."""
    rules = all_declared()
    data = [_entry(r, "eqsat") for r in rules]
    lines: list[str] = []
    for family in dict.fromkeys(r.family for r in rules):
        members = [r for r in rules if r.family == family]
        lines.append(f"{family} ({len(members)})")
        lines += [f"  {r}" for r in members]
    for origin in origins():
        try:
            more = rules_of_package(origin.name)
        except EqsatError as error:
            lines.append(f"{origin}: cannot be read: {error.problem}")
            continue
        lines.append(f"{origin}: acts only where it is named ({len(more)})")
        lines += [f"  {r}" for r in more]
        data += [_entry(r, str(origin)) for r in more]
    out.answer({"rules": data}, "\n".join(lines))
    return 0


def _entry(r: Given | StatementLaw, origin: str) -> dict[str, object]:
    """A rule, a signature or a pad value as plain data."""
    if isinstance(r, (KnownOperator, PadValue)):
        family = "operators" if isinstance(r, KnownOperator) else "pad values"
        text = str(r).removeprefix(f"{r.name}: ")
        return {"name": r.name, "family": family, "origin": origin, "law": text, "doc": r.doc, "acts": ["optimize"]}
    return {
        "name": r.name,
        "family": r.family,
        "origin": origin,
        "law": str(r).removeprefix(f"{r.name}: "),
        "doc": r.doc,
        "source": "" if isinstance(r, StatementLaw) else r.source,
        "acts": list(_acts(r)),
        "fires": firings().get(r.name, {}) if origin == "eqsat" else {},
        "tags": sorted(r.tags) if isinstance(r, Rule) else ["axiom"] if isinstance(r, Law) and r.axiom else [],
    }


def _acts(r: Rule | Law | StatementLaw) -> tuple[str, ...]:
    if isinstance(r, StatementLaw):
        return r.acts
    if isinstance(r, Law):
        return law_acts(r)
    return () if why_idle(r) else acts(r)


@dataclass(frozen=True)
class Checking:
    """What `eqsat rules check` was asked: names of rules or modules of one's own, on how many processes or at which
    address, how many seconds for a rule, and where a JUnit file goes."""

    names: tuple[str, ...] = ()
    jobs: str = "1"
    seconds: float | None = None
    junit: Path | None = None


def run_check(asked: Checking, out: Output) -> int:
    """Prove the rules; the exit code says whether all are proved or axioms."""
    rules = chosen_rules(asked.names)
    junit = writable(asked.junit)
    done: list[RuleReport] = []
    with out.progress(f"proving {len(rules)} rules") as show:

        def progress(report: RuleReport) -> None:
            done.append(report)
            failed = sum(r.status not in BELIEVED for r in done)
            show(f"{len(done)} of {len(rules)} rules, {failed} not proved; last: {report.name}")

        with executor_of(asked.jobs) as executor:
            book = check_rules(rules, executor, seconds=asked.seconds, progress=progress)
    if junit is not None:
        write_file(junit, book.to_junit())
    out.answer(book.data(), str(book))
    return 0 if book.ok else 1


def chosen_rules(names: tuple[str, ...]) -> list[Rule | Law]:
    """Our rules of these names, and those that modules of these names declare; all of ours where none are given."""
    ours = all_rules()
    known = {r.name for r in ours}
    named = {name for name in names if name in known}
    more: list[Rule | Law] = []
    for name in (n for n in names if n not in known):
        if not exists(name) and all(origin.name != name for origin in origins()):
            near = [r.name for r in ours if name.split("-")[0] in r.name][:5]
            fix = f"near: {', '.join(near)}" if near else "see `eqsat rules list`, or name a module such as my.rules"
            if (file := Path(name)).suffix == ".py" and file.is_file():
                fix = f"name the module, {file.stem}, in the folder of its file"
            raise EqsatError(f"rule {name!r}", "there is neither a rule nor a module of this name", fix)
        more += [r for r in rules_of(name) if isinstance(r, (Law, Rule))]
    return [*(r for r in ours if not names or r.name in named), *distinct(more)]
