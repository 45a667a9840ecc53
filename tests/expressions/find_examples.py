"""Writes for each scalar rule a smallest expression whose answer changes where the rule is left out.

    python tests/expressions/find_examples.py [--rules NAME,NAME]

Looked at are the table, the expressions with known sizes, more of the grammars, all small terms over two variables, and
instances of the rules; of those in whose simplification a rule takes part, the smallest one whose result gets larger
without it, or at least another one. Rules for which nothing is found are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from grammars import GROUPS, Profile, expression
from make_sizes import SIZES
from make_table import TABLE, points
from terms_by_size import Search
from without import answer, forget, leaving_out, simplified

from eqsat.index_graph.cost import cost
from eqsat.ir.dtypes import BOOL
from eqsat.ir.errors import EqsatError
from eqsat.ir.rule import Instance, Kind, Rule, variable
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import parse_expr
from eqsat.ir.terms.walk import substitute
from eqsat.rewriting.context import Context
from eqsat.rewriting.rewrite import Rewriter, Step
from eqsat.rules import scalar_rules

EXAMPLES = Path(__file__).parent / "examples.json"
CANDIDATES = 20_000
SEEDS = range(200_000, 200_600)  # of expressions that neither the table nor the sizes have
INSTANCES = 80
NAMES = tuple("xyzwvutsrq")


def small_terms() -> Iterator[dict[str, Any]]:
    """All terms up to a small size over two variables."""
    group = replace(
        GROUPS[0],
        names=("x", "y"),
        constants=(0, 1, 2, 3),
        factors=(2,),
        divisors=(2, 4),
        operations=frozenset(("min", "max", "abs", "floordiv", "mod", "truncdiv", "truncmod", "lt", "eq", "prod")),
    )
    for profile in (Profile({}), Profile({"x": 8, "y": (-2, 3)})):
        search = Search(group, points(group, profile, 40))
        search.grow(4)
        for shelf in (search.index, search.truth):
            for recipe in shelf.recipes:
                yield {"text": str(search.term(recipe)), "ranges": profile.ranges}


def of_grammars() -> Iterator[dict[str, Any]]:
    """More expressions of the grammars."""
    for group in GROUPS:
        for seed in SEEDS:
            text, profile = expression(group, seed)
            yield {"text": text, "ranges": profile.ranges, "assuming": profile.assuming}


def instances(rule: Rule) -> Iterator[dict[str, Any]]:
    """The left side of a rule over variables, small numbers and comparisons, alone and beside another summand."""
    for theorem in (*rule.instances[:3], *rule.instances[-1:]):
        for seed in range(INSTANCES):
            made = instance(rule, theorem, Random(f"{rule.name} {theorem.dtype} {seed}"))
            if made is not None:
                yield made


def instance(rule: Rule, theorem: Instance, source: Random) -> dict[str, Any] | None:
    """One of them; None where it has no text."""
    table: dict[Term, Term] = {}
    ranges: dict[str, Any] = {}
    bounded, sized = source.random() < 0.7, source.random() < 0.3
    for k, p in enumerate(rule.parameters):
        v, name = variable(p, theorem.dtype), NAMES[k]
        if p.kind is Kind.BUFFER:
            return None
        leaf = t.var(name)
        if p.kind is Kind.POS and sized:
            table[v], ranges[name.upper()] = t.var(name.upper()), (1, None)
            continue
        if p.kind in (Kind.POS, Kind.NUM):
            table[v] = t.index_const(source.choice([1, 2, 2, 3, 4, 8] + [-3, -1, 0] * (p.kind is Kind.NUM)))
            continue
        if bounded:
            low = source.choice([-9, -3, -1, 0, 0, 0, 1])
            ranges[name] = (low, low + source.choice([1, 2, 3, 4, 8, 12]))
        if v.dtype == BOOL:
            table[v] = source.choice([leaf < 2, t.compare("eq", leaf % 2, 0), t.compare("ne", leaf, 3)])
        elif p.kind in (Kind.DATA, Kind.ANY):
            table[v] = t.cast_to(leaf, v.dtype)
        else:
            table[v] = -leaf if p.kind is Kind.NEG else source.choice([leaf, leaf, leaf, t.var("x")])
    try:
        left = substitute(theorem.left, table)
        if left.dtype == "index" and source.random() < 0.2:
            left = 3 * left + t.var("x")
        return {"text": str(left), "ranges": ranges} if parse_expr(str(left)) is left else None
    except EqsatError:
        return None


def fired(row: dict[str, Any]) -> set[str]:
    """The rules that take part in simplifying a row."""
    names: set[str] = set()
    match = Rewriter.match

    def recorded(self: Rewriter, node: Term, context: Context) -> Step | None:
        step = match(self, node, context)
        if step is not None:
            names.add(step.rule)
        return step

    forget()
    with mock.patch.object(Rewriter, "match", recorded):
        simplified(row)
    return names


def candidates(rules: Iterable[Rule]) -> dict[str, list[dict[str, Any]]]:
    """For each rule the smallest rows in which it takes part."""
    rows = [*json.loads(TABLE.read_text()), *json.loads(SIZES.read_text()), *small_terms(), *of_grammars()]
    rows += [row for rule in rules for row in instances(rule)]
    found: dict[str, dict[str, tuple[tuple[int, int], dict[str, Any]]]] = {}
    for row in rows:
        kept = {k: row[k] for k in ("text", "ranges", "assuming") if row.get(k)}
        try:
            size = (cost(parse_expr(row["text"])), len(json.dumps(kept)))
            names = fired(kept)
        except EqsatError:
            continue
        for name in names:
            found.setdefault(name, {})[json.dumps(kept)] = (size, kept)
    return {n: [row for _, row in sorted(those.values(), key=lambda x: x[0])] for n, those in found.items()}


def example(name: str, rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The first of these rows that gets larger without a rule, or else the first whose answer changes."""
    forget()
    before = [(cost(simplified(row)), answer(row)) for row in rows[:CANDIDATES]]
    other: dict[str, Any] | None = None
    with leaving_out(name):
        for row, (size, said) in zip(rows, before, strict=False):
            now = simplified(row)
            if str(now) != said:
                made = {"rule": name, **row, "answer": said, "without": str(now)}
                if cost(now) > size:
                    return made
                other = other or made
    return other


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", default="")
    options = parser.parse_args(arguments)
    os.environ["EQSAT_CACHE"] = "off"
    asked = [r for r in scalar_rules() if not options.rules or r.name in options.rules.split(",")]
    rows = candidates(asked)
    found = [made for rule in asked if (made := example(rule.name, rows.get(rule.name, []))) is not None]
    known: list[dict[str, Any]] = []
    if EXAMPLES.exists() and options.rules:
        known = json.loads(EXAMPLES.read_text())
    kept = [e for e in known if e["rule"] not in {r.name for r in asked}]
    order = {r.name: k for k, r in enumerate(scalar_rules())}
    result = sorted((*kept, *found), key=lambda e: order.get(e["rule"], -1))
    EXAMPLES.write_text("[\n" + ",\n".join(json.dumps(e) for e in result) + "\n]\n")
    missing = [r.name for r in asked if r.name not in {e["rule"] for e in found}]
    print(f"{len(found)} of {len(asked)} rules have an example; none: {', '.join(missing)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
