"""Writes for each rule and law the smallest example on which it fires, wherever it acts: eqsat/rulebook/firings.json.

    python tests/expressions/find_firings.py

Rules are looked for in the simplifying of the examples, the table, and small terms, by the rewriter and by the e-graph
alone; laws in the search for the programs of the tests of laws and in the loading of them; laws of statements in the
functions of their tests, and axioms in the proofs of laws. Rules and laws that act where they do not fire are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from find_examples import BY_HAND, EXAMPLES, functions, instances, programs, proofs, small_terms
from make_table import TABLE
from without import fired, optimised_statements

import eqsat.rulebook
from eqsat.engine import Limits
from eqsat.graph.encode import encode
from eqsat.graph.search import Snapshot, run, task_of
from eqsat.index_graph.cost import cost
from eqsat.index_graph.graph import IndexGraph
from eqsat.index_graph.reversed import SUFFIX
from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.errors import EqsatError
from eqsat.ir.tensors.program_json import program_from_json
from eqsat.ir.tensors.tensor import Program
from eqsat.ir.terms.text import parse_expr
from eqsat.rulebook.acting import acts, law_acts
from eqsat.rulebook.laws import prove_law
from eqsat.rulebook.tensor_model import AXIOMS
from eqsat.rules import scalar_rules, tensor_laws
from eqsat.rules.statement_laws import STATEMENT_LAWS, all_declared

FIRINGS = Path(eqsat.rulebook.__file__).with_name("firings.json")
PLACES = ("rewriter", "graph", "loading", "forms", "proofs", "optimize_statements")
OF_A_RULE = 20  # instances that are tried where nothing else lets a rule fire


def fired_by(row: dict[str, Any], place: str) -> set[str]:
    """The rules, or laws, that fire in one place on an example."""
    if "program" in row:
        return laws_fired(program_from_json(row["program"]), place)
    if "function" in row:
        return set(optimised_statements(row).laws)
    if "law" in row:
        return axioms_used(row["law"])
    if place != "graph":
        return fired(row)
    if parse_expr(row["text"]).dtype not in (
        INDEX,
        BOOL,
    ):  # of which no points can be tried, so only one stage is asked
        return fired_alone(row["text"])
    return fired({**row, "question": "graph"})


def fired_alone(text: str) -> set[str]:
    """The rules that fire in an e-graph of one term."""
    with IndexGraph() as graph:
        graph.add(parse_expr(text))
        return {name.removesuffix(SUFFIX) for name in graph.run().matches}


def laws_fired(program: Program, place: str) -> set[str]:
    """The laws that fire while a program is loaded, or searched."""
    encoded = encode(program)
    if place == "loading":
        return set(encoded.laws)
    last: list[Snapshot] = []
    run(task_of(encoded, "c", Limits()), last.append)
    return {name for name, count in last[-1].progress.matches.items() if count}


def axioms_used(name: str) -> set[str]:
    """The axioms that the proof of a law uses."""
    proof = prove_law(next(law for law in tensor_laws() if law.name == name))
    return {axiom for axiom, text in AXIOMS.items() if text in proof.assumptions}


def of_rules() -> Iterator[dict[str, Any]]:
    """The smallest firing of each rule in each place where it acts."""
    rows = [
        *(r for r in json.loads(EXAMPLES.read_text()) if "text" in r),
        *json.loads(TABLE.read_text()),
        *BY_HAND,
        *small_terms(),
    ]
    kept = {_key(row): row for row in ({k: r[k] for k in ("text", "ranges", "assuming") if r.get(k)} for r in rows)}
    ordered = sorted(kept.values(), key=lambda r: (cost(parse_expr(r["text"])), len(_key(r)), _key(r)))
    for place in PLACES[:2]:
        open_ones = {r.name: r for r in scalar_rules() if place in acts(r)}
        for row in ordered:
            yield from _taken(row, place, open_ones)
        for rule in list(open_ones.values()):
            for row in sorted(instances(rule), key=lambda r: len(_key(r)))[:OF_A_RULE]:
                yield from _taken(row, place, open_ones)
        print(f"{place}: {', '.join(open_ones) or 'all'}", "have not fired" if open_ones else "have fired")


def _taken(row: dict[str, Any], place: str, open_ones: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What an example adds, for names that are open still."""
    try:
        names = fired_by(row, place) & open_ones.keys() if open_ones else set[str]()
    except EqsatError:
        return
    for name in sorted(names):
        del open_ones[name]
        yield {"name": name, "in": place, **row}


def _key(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


def of_laws() -> Iterator[dict[str, Any]]:
    """The smallest program, function or proof for each law in each place."""
    corpora = {"proofs": proofs, "optimize_statements": functions}
    for place in PLACES[1:]:
        open_ones: dict[str, Any] = {law.name: law for law in tensor_laws() if place in law_acts(law)}
        open_ones |= {law.name: law for law in STATEMENT_LAWS if place in law.acts}
        for row in corpora.get(place, programs)():
            yield from _taken({k: v for k, v in row.items() if k != "question"}, place, open_ones)
        print(f"laws, {place}: {', '.join(open_ones) or 'all'}", "have not fired" if open_ones else "have fired")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(arguments)
    os.environ["EQSAT_CACHE"] = "off"
    order = {r.name: k for k, r in enumerate(all_declared())}
    rows = sorted((*of_rules(), *of_laws()), key=lambda r: (order[r["name"]], PLACES.index(r["in"])))
    FIRINGS.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
