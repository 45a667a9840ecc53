"""`eqsat rules profile`, `discover`, `minimize` and `derivable`: rules as the subject."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from eqsat.cli.output import Output, writable
from eqsat.cli.rules import chosen_rules
from eqsat.cli.user_rules import rules_of
from eqsat.files import text_of
from eqsat.ir.errors import EqsatError
from eqsat.ir.law import Law
from eqsat.ir.rule import Rule
from eqsat.proving.ranges_text import ranges_of
from eqsat.research.derive import Deriver, derivation, minimize
from eqsat.research.discover import discover
from eqsat.research.discover_moves import discover_moves
from eqsat.research.grammars import GRAMMARS
from eqsat.research.move_rules import to_paste
from eqsat.research.picture import graph_picture
from eqsat.research.plots import plot
from eqsat.research.profile import corpus_of, profile
from eqsat.rulebook import check_rules
from eqsat.rules import scalar_rules


@dataclass(frozen=True)
class Profiling:
    """What `eqsat rules profile` was asked: modules of rules, expressions in a file and given, and files to draw."""

    modules: tuple[str, ...] = ()
    corpus: Path | None = None
    expressions: tuple[str, ...] = ()
    plot: Path | None = None
    graph: Path | None = None


def run_profile(asked: Profiling, out: Output) -> int:
    """Print what the rules do to searches over a corpus; 1 where facts contradict each other."""
    own = [rule for name in asked.modules for rule in rules_of(name) if isinstance(rule, (Rule, Law))]
    lines = [*asked.expressions, *(text_of(asked.corpus).splitlines() if asked.corpus is not None else ())]
    file, graph = writable(asked.plot), writable(asked.graph)
    entries = corpus_of(lines) if lines or asked.corpus else None
    if graph is not None and entries is None:
        raise EqsatError("--graph", "there is no expression to draw", "give one: --on 'x//4*4 + x%4'")
    with out.progress("saturating") as show:
        found = profile(entries, own, progress=show)
        if file is not None:
            plot(found, file)
        if graph is not None and entries is not None:
            usable = [r for r in own if isinstance(r, Rule) and r.name not in found.idle]
            graph_picture(*entries[0], [*scalar_rules(), *usable]).save(graph)
    out.answer(found.data(), str(found))
    return 1 if "contradiction" in found.status.values() else 0


LAYOUTS = "layouts"  # no grammar of terms: chains of moves of tensors


def run_discover(grammar: str, known: str, without: str, seconds: float, most: int, out: Output) -> int:
    """Print the rules that are found."""
    if grammar == LAYOUTS:
        with out.progress("looking for laws") as show:
            laws = discover_moves(seconds=seconds, progress=show)
            text = f"{to_paste(laws.laws)}\n\n\n{laws.tail}"
        out.answer(laws.data(), text)
        return 0
    if grammar not in GRAMMARS:
        names = ", ".join((*GRAMMARS, LAYOUTS))
        raise EqsatError(f"--grammar {grammar!r}", "there is none of this name", f"one of {names}")
    rules = list(scalar_rules()) if known == "default" else [] if known == "none" else _scalars(rules_of(known))
    gone = [name.strip() for name in without.split(",") if name.strip()]
    missing = [name for name in gone if name not in {r.name for r in rules}]
    if missing:
        raise EqsatError(f"--without {without!r}", f"{missing[0]!r} is none of the known rules", "`eqsat rules list`")
    rules = [r for r in rules if r.name not in gone]
    with out.progress("looking for rules") as show:
        found = discover(GRAMMARS[grammar], rules, seconds=seconds, most=most, progress=show)
    out.answer(found.data(), str(found))
    return 0


def run_minimize(names: tuple[str, ...], out: Output) -> int:
    """Print which rules are enough."""
    chosen = _true(_scalars(chosen_rules(names)))
    with out.progress(f"deriving {len(chosen)} rules from each other"):
        found = minimize(chosen)
    dropped = [{"name": d.rule, "by": d.by} for d in found.dropped]
    out.answer({"kept": [r.name for r in found.kept], "dropped": dropped, "idle": dict(found.idle)}, str(found))
    return 0


def run_derivable(names: tuple[str, ...], steps: Path | None, ranges: str, out: Output) -> int:
    """Print what follows, and from what; 1 where something does not."""
    if steps is not None:
        lines = [line.partition("#")[0].strip() for line in text_of(steps).splitlines()]
        own = [r for r in _true(_scalars(chosen_rules(names))) if r not in scalar_rules()] if names else []
        found = derivation([line for line in lines if line], ranges_of(ranges), own)
        data = [{"before": b.before, "after": b.after, "verdict": b.verdict, "reason": b.reason} for b in found]
        out.answer({"steps": data}, "\n".join(map(str, found)))
        return 0 if all(b.verdict == "derived" for b in found) else 1
    if not names:
        raise EqsatError("rules derivable", "names no rule", "name rules or a module, or give a derivation by --steps")
    ours, asked = scalar_rules(), _true(_scalars(chosen_rules(names)))
    answers = [Deriver([r for r in ours if r is not rule]).derive(rule) for rule in asked]
    out.answer({"rules": [{"name": d.rule, "by": d.by} for d in answers]}, "\n".join(map(str, answers)))
    return 0 if all(answers) else 1


def _scalars(rules: Iterable[object]) -> list[Rule]:
    """The rules about scalars: laws of tensors are not derived. An EqsatError where there are laws alone."""
    found = [r for r in rules if isinstance(r, Rule)]
    if not found:
        raise EqsatError("rules", "there are laws of tensors alone, which are not derived", "name rules (eq.rule)")
    return found


def _true(rules: list[Rule]) -> list[Rule]:
    """The rules, where none of them is refuted: from a false one anything follows."""
    known = set(scalar_rules())
    for report in check_rules([r for r in rules if r not in known]).reports:
        if report.status == "refuted":
            raise EqsatError(f"rule {report.text}", f"refuted{report.where}", "from a false rule anything follows")
    return rules
