"""Writes for each rule and law a smallest example whose answer changes where it is left out: the mutation campaign.

    python tests/expressions/find_examples.py [--rules NAME,NAME]

For scalar rules the table is looked at, the expressions with known sizes, more of the grammars, all small terms over
two variables, instances of the rules, and some written by hand; of those in whose simplification a rule takes part, the
smallest one whose result gets larger without it, or at least another one: by the rewriter, or else by the e-graph with
the rewriter off, or else by the inverse of an index map. For laws of tensors it is the smallest program of the tests of
laws whose result moves more bytes; for laws of statements the smallest function, of those of the tests of laws and of
random ones, whose result is dearer or longer; for axioms the first law that is not proved without them. Those for which
nothing is found are printed; `campaign.py` prints what was found.
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

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
sys.path.insert(0, str(Path(__file__).parents[1] / "functions"))

from functions_of_laws import FUNCTIONS
from grammars import GROUPS, Profile, expression
from make_sizes import SIZES
from make_table import TABLE, points
from programs_of_laws import corpus, swapped_twice
from random_functions import random_function
from terms_by_size import Search
from without import answer, fired, forget, leaving_out, optimised_statements, simplified

from eqsat.index_graph.cost import cost
from eqsat.ir.dtypes import BOOL
from eqsat.ir.errors import EqsatError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.rule import Instance, Kind, Rule, variable
from eqsat.ir.tensors.program_json import program_to_json
from eqsat.ir.tensors.tensor import as_program
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import parse_expr
from eqsat.ir.terms.walk import nodes_of, substitute
from eqsat.rules import scalar_rules, tensor_laws
from eqsat.rules.statement_laws import STATEMENT_LAWS, all_declared
from eqsat.testing.maps import MAP_FAMILIES, random_map

EXAMPLES = Path(__file__).parent / "examples.json"
CANDIDATES = 20_000
SEEDS = range(200_000, 200_600)  # of expressions that neither the table nor the sizes have
INSTANCES = 80
NAMES = tuple("xyzwvutsrq")
IN_GRAPH = 60  # rows that the e-graph is asked about for one rule
RANDOM_FUNCTIONS = range(2000, 2020)
MAP_SIZES, MAPS = (24, 300, 10**5), range(12)
SIZED = {"N": [1, None], "M": [1, None]}
BY_HAND: list[dict[str, Any]] = [
    {"text": "(M - 1 - y % M) // (2*M)", "ranges": {"M": [1, None]}},
    {"text": "x // N % M * N + x % N", "ranges": SIZED},
    {"text": "x // 2 * 2", "assuming": "x % 4 == 2"},
    *({"text": f"where(x {op} y // z, {a}, {b})"} for op in ("<", "<=") for a, b in (("x", "y // z"), ("y // z", "x"))),
    {"text": "x % 4 <= x"},
    {"text": "x // c", "ranges": {"c": [1, None]}, "assuming": "-c <= x and x < 0"},
    {"text": "x <= x % c", "ranges": {"c": [1, None]}},
    {"text": "x % c < x", "ranges": {"c": [1, None]}},
    {"text": "0 == w + where(x < 2, y, x)", "ranges": {"x": [1, 13], "y": [0, 1], "w": [0, 3]}},
    {"text": "minimum(x // 4, y // 4)"},
    {"text": "maximum(x // 4, y // 4)"},
    {"text": "where(x < 2, where(y < 2, z, w), w)"},
    {"text": "where(x < 2, z, where(y < 2, z, w))"},
    {"text": "where(x < 2, x - 1, 0)"},
    {"text": "where(x < 2, 0, x - 2)"},
    {"text": "where(x == y, y + 2, x + z)"},
    {"text": "where(x != y, 2*x, y + 1)"},
]


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
    if source.random() < 0.5:
        solve(theorem, table)
    try:
        left = substitute(theorem.left, table)
        if left.dtype == "index" and source.random() < 0.2:
            left = 3 * left + t.var("x")
        return {"text": str(left), "ranges": ranges} if parse_expr(str(left)) is left else None
    except EqsatError:
        return None


def solve(theorem: Instance, table: dict[Term, Term]) -> None:
    """Give a variable of each condition that says what a remainder is a value for which it holds."""
    for condition in theorem.conditions:
        digit, value = condition.args if condition.op == "eq" else (t.TRUE, t.TRUE)
        if digit.op == "mod" and t.int_value(value) == 0:
            single = [x for k, x in t.linear_parts(digit.args[0])[1] if k == 1 and x.op == "var"]
            for x in single[:1]:
                table[x] = substitute(x - digit.args[0], table)


def candidates(rules: Iterable[Rule], question: str = "") -> dict[str, list[dict[str, Any]]]:
    """For each rule the smallest rows in which it takes part."""
    rows = [*json.loads(TABLE.read_text()), *json.loads(SIZES.read_text()), *BY_HAND]
    rows += [] if question else [*small_terms(), *of_grammars()]
    rows += [row for rule in rules for row in instances(rule)]
    found: dict[str, dict[str, tuple[tuple[int, int], dict[str, Any]]]] = {}
    for row in rows:
        kept = {k: row[k] for k in ("text", "ranges", "assuming") if row.get(k)}
        kept.update({"question": question} if question else {})
        try:
            size = (cost(parse_expr(row["text"])), len(json.dumps(kept)))
            names = fired(kept)
        except EqsatError:
            continue
        for name in names:
            found.setdefault(name, {})[json.dumps(kept)] = (size, kept)
    return {n: [row for _, row in sorted(those.values(), key=lambda x: x[0])] for n, those in found.items()}


def maps() -> list[dict[str, Any]]:
    """Index maps of all families, the shorter ones first."""
    rows: list[dict[str, Any]] = []
    for family in MAP_FAMILIES:
        for size in MAP_SIZES:
            for n in MAPS:
                m, shape = random_map(family, Random(f"campaign {family} {size} {n}"), size)
                if not nodes_of("load", *m.final_indices):  # a table has no text
                    rows.append({"question": "inverse", "map": str(m), "shape": list(shape)})
    return sorted(rows, key=lambda row: len(json.dumps(row)))


def programs() -> list[dict[str, Any]]:
    """The programs of the tests of laws, the smaller ones first."""
    texts = sorted((program_to_json(as_program(p)) for p in (*corpus(), swapped_twice())), key=len)
    return [{"question": "optimize", "program": text} for text in texts]


def functions() -> list[dict[str, Any]]:
    """The functions of the tests of the laws of statements, and random ones; the smaller ones first."""
    texts = sorted(
        {*FUNCTIONS.values(), *(str(random_function(n).func) for n in RANDOM_FUNCTIONS)}, key=lambda x: (len(x), x)
    )
    return [{"question": "optimize_statements", "function": text} for text in texts]


def proofs() -> list[dict[str, Any]]:
    """The laws of tensors that are proved."""
    return [{"question": "proof", "law": law.name} for law in tensor_laws() if not law.axiom]


def weighed(row: dict[str, Any]) -> tuple[float, str]:
    """What is said to a row, and how large that is: bytes, the cost of terms or statements, whether it is not proved; a
    table is larger than any."""
    said = answer(row)
    if row.get("question") == "optimize":
        return int(said.split()[0]), said
    if row.get("question") == "optimize_statements":
        _, price, lines, _ = said.replace(",", "").split()
        return int(price) + int(lines) / 1000, said
    if row.get("question") == "proof":
        return said != "proved", said
    if row.get("question") == "inverse":
        known = " -> " in said
        return sum(cost(x) for x in IndexMap.parse(said).final_indices) if known else float("inf"), said
    return cost(simplified(row)), said


Asked = list[tuple[dict[str, Any], float, str]]


def asked(rows: Iterable[dict[str, Any]]) -> Asked:
    """What is said to rows with all rules, and how large that is."""
    forget()
    return [(row, *weighed(row)) for row in rows]


def example(name: str, before: Asked) -> dict[str, Any] | None:
    """The first of these rows that gets larger without a rule or law, or else the first whose answer changes."""
    other: dict[str, Any] | None = None
    with leaving_out(name):
        for row, size, said in before:
            larger, now = weighed(row)
            if now != said:
                made = {"rule": name, **row, "answer": said, "without": now}
                if larger > size:
                    return made
                other = other or made
    return other


def found_by(names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """An example for each of these rules and laws that has one: one question after the other."""
    laws = [law.name for law in tensor_laws() if law.name in names and not law.axiom]
    before = asked(programs()) if laws else []
    yield from (made for name in laws if (made := example(name, before)) is not None)
    axioms = [law.name for law in tensor_laws() if law.name in names and law.axiom]
    before = asked(proofs()) if axioms else []
    yield from (made for name in axioms if (made := example(name, before)) is not None)
    statements = [law.name for law in STATEMENT_LAWS if law.name in names]
    before = asked(functions()) if statements else []
    taking_part = [optimised_statements(row).laws for row, *_ in before]
    for name in statements:
        made = example(name, [b for b, laws in zip(before, taking_part, strict=True) if name in laws])
        yield from () if made is None else (made,)
    rules = [r for r in scalar_rules() if r.name in names]
    for question, most in (("", CANDIDATES), ("graph", IN_GRAPH)):
        chosen = candidates(rules, question) if rules else {}
        made = [e for r in rules if (e := example(r.name, asked(chosen.get(r.name, [])[:most]))) is not None]
        yield from made
        rules = [r for r in rules if r.name not in {e["rule"] for e in made}]
    before = asked(maps()) if rules else []
    yield from (made for rule in rules if (made := example(rule.name, before)) is not None)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", default="")
    options = parser.parse_args(arguments)
    os.environ["EQSAT_CACHE"] = "off"
    names = [r.name for r in all_declared() if not options.rules or r.name in options.rules.split(",")]
    found = {e["rule"]: e for e in found_by(names)}
    known: list[dict[str, Any]] = json.loads(EXAMPLES.read_text()) if EXAMPLES.exists() and options.rules else []
    order = {r.name: k for k, r in enumerate(all_declared())}
    result = [*found.values(), *(e for e in known if e["rule"] not in names)]
    result.sort(key=lambda e: order.get(e["rule"], -1))
    EXAMPLES.write_text("[\n" + ",\n".join(json.dumps(e) for e in result) + "\n]\n")
    missing = [name for name in names if name not in found]
    print(f"{len(found)} of {len(names)} rules and laws have an example; none: {', '.join(missing)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
