"""Answers with one rule or law left out: what `simplify` and `decide` say then by the rewriter alone, or by the e-graph
alone; each may find another way where the other does not. What `inverse` and `optimize` say, by the e-graphs alone;
what `optimize_statements` makes of a function, and what is proved of a law. And the rules that take part."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest import mock

import eqsat as eq
from eqsat import engine
from eqsat.graph.search import Snapshot, Task, run
from eqsat.index_graph import graph as index_graph
from eqsat.index_graph.graph import IndexGraph, Saturation
from eqsat.index_graph.pool import Engine, all_ways
from eqsat.index_graph.reversed import SUFFIX
from eqsat.ir.errors import LayoutError
from eqsat.ir.fast import by_rules_alone
from eqsat.ir.law import Law
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.rule import Rule
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.tensors.program_json import program_from_json
from eqsat.ir.terms.term import Term
from eqsat.proving import rules as deciding
from eqsat.proving.prover import decide
from eqsat.rewriting.context import Context
from eqsat.rewriting.match_filter import FilterKeys
from eqsat.rewriting.rewrite import Rewriter, RuleStep
from eqsat.rulebook.laws import prove_law
from eqsat.rulebook.tensor_model import AXIOMS
from eqsat.rules import tensor_laws
from eqsat.rules.statement_laws import STATEMENT_LAWS
from eqsat.simplifying import normal_forms
from eqsat.simplifying import simplify as simplifying
from eqsat.statement_graph.optimize import Optimized, optimize_statements

PATIENT = eq.Limits(seconds=1000)  # whatever the machine does beside
Row = Mapping[str, Any]
_compiled: Callable[..., Rewriter] = simplifying._rewriter  # pyright: ignore[reportPrivateUsage]
_normaliser = deciding.normaliser
_take = index_graph.take
_admitted = engine.admitted
_left_out: set[str] = set()


def reduced(rewriter: Rewriter, name: str) -> Rewriter:
    """Compiled rules without one of them; the rewriter itself where it does not have it."""
    if all(r.name != name for r in rewriter.rules):
        return rewriter
    result = Rewriter(())
    result.rules = tuple(r for r in rewriter.rules if r.name != name)
    for op, patterns in rewriter.by_root.items():
        kept = [(n, p) for n, p in patterns if n != name]
        if kept:
            result.by_root[op], result.keys[op] = kept, FilterKeys(p.filter for _, p in kept)
    return result


REMEMBERING = ("eqsat.simplifying.simplify", "eqsat.maps.", "eqsat.ir.layouts.", "eqsat.ir.flat.")


def forget() -> None:
    """Forget the answers, so that rules decide them again; verdicts on disk have to be off (EQSAT_CACHE=off)."""
    normal_forms.forget()
    for name, module in list(sys.modules.items()):
        if name.startswith(REMEMBERING):
            for key, value in list(vars(module).items()):
                clear = getattr(value, "cache_clear", None)
                if clear is not None and key != "_rewriter":  # the compiled rules
                    clear()


@contextmanager
def leaving_out(name: str) -> Generator[None]:
    """Within it, no question is answered by this rule or law."""

    @cache
    def rewriter(rules: object, *tags: str) -> Rewriter:
        return reduced(_compiled(None, *tags), name)

    @cache
    def normaliser() -> Rewriter:
        return reduced(_normaliser(), name)

    def take(rules: Sequence[Rule] | None = None) -> Engine:
        chosen = all_ways() if rules is None else rules
        return _take(tuple(r for r in chosen if r.name.removesuffix(SUFFIX) != name))

    def admitted(rules: Iterable[str | Law | Rule] | None) -> tuple[tuple[Law, ...], tuple[Rule, ...]]:
        laws, scalars = _admitted(rules)
        return tuple(law for law in laws if law.name != name), scalars

    forget()
    _left_out.add(name)
    with (
        mock.patch.object(simplifying, "_rewriter", rewriter),
        mock.patch.object(deciding, "normaliser", normaliser),
        mock.patch.object(index_graph, "take", take),
        mock.patch.object(engine, "admitted", admitted),
    ):
        yield
    _left_out.remove(name)
    forget()


def ranges_of(row: Row) -> dict[str, Any]:
    """The ranges of a row: lists of JSON are pairs."""
    return {n: r if isinstance(r, int) else tuple(r) for n, r in row.get("ranges", {}).items()}


def answer(row: Row) -> str:
    """What is said to a row: its text simplified, or decided."""
    question = row.get("question")
    if question == "decide":
        return decide(row["text"], ranges_of(row), row.get("assuming"))
    if question == "inverse":
        return inverted(row)
    if question == "optimize":
        return f"{optimised(row).cost_after} bytes"
    if question == "optimize_statements":
        found = optimised_statements(row)
        return f"cost {found.cost_after}, {len(str(found.func).splitlines())} lines"
    if question == "proof":
        law = next(law for law in tensor_laws() if law.name == row["law"])
        return prove_law(law, AXIOMS.keys() - _left_out).verdict
    return str(simplified(row))


def inverted(row: Row) -> str:
    """The inverse of the map of a row, by the index e-graph alone."""
    with by_rules_alone():
        try:
            found, _ = IndexMap.parse(row["map"]).non_surjective_inverse(tuple(row["shape"]))
        except LayoutError:
            return "none"
    return "a table" if found.is_table else str(found)


def here(task: Task, meanwhile: object = None) -> Snapshot:
    """The last snapshot of a search that is run in this process, where rules are left out."""
    last: list[Snapshot] = []
    run(task, last.append)
    return last[-1]


def optimised(row: Row) -> eq.Result:
    """The program of a row optimised by the e-graphs alone."""
    with by_rules_alone(), mock.patch.object(engine, "search", here):
        return eq.optimize(program_from_json(row["program"]), limits=PATIENT)


def optimised_statements(row: Row) -> Optimized:
    """The function of a row, with the laws of statements that are not left out."""
    laws = [law for law in STATEMENT_LAWS if law.name not in _left_out]
    return optimize_statements(PrimFunc.parse(row["function"]), laws)


def _never(_: Term) -> bool:
    return False


def simplified(row: Row) -> Term:
    """The text of a row simplified by the rewriter, or, where that is the question, by the e-graph."""
    if row.get("question") == "graph":
        with by_rules_alone():
            return simplifying.simplify(row["text"], ranges_of(row), row.get("assuming"))
    with mock.patch.object(simplifying, "may_be_stuck", _never):
        return simplifying.simplify(row["text"], ranges_of(row), row.get("assuming"))


def fired(row: Row) -> set[str]:
    """The rules that take part in simplifying a row."""
    names: set[str] = set()
    match, run = Rewriter.match, IndexGraph.run

    def recorded(self: Rewriter, node: Term, context: Context) -> RuleStep | None:
        step = match(self, node, context)
        if step is not None:
            names.add(step.rule)
        return step

    def counted(self: IndexGraph, *args: Any) -> Saturation:
        outcome = run(self, *args)
        names.update(name.removesuffix(SUFFIX) for name in outcome.matches)
        return outcome

    forget()
    with mock.patch.object(Rewriter, "match", recorded), mock.patch.object(IndexGraph, "run", counted):
        simplified(row)
    return names
