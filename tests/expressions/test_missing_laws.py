"""Laws that ours lack, and the simplifiers of TVM and Halide as well: each makes several expressions of the table's
classes shorter, at seeds beyond the table. `eqsat rules discover` proposes them over small grammars."""

from __future__ import annotations

import pytest
from grammars import GROUPS, expression

import eqsat as eq
from eqsat import maximum, minimum
from eqsat.index_graph.cost import cost
from eqsat.ir.rule import Family, Idx, Num, Pos, Rule, when
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.research.derive import Deriver
from eqsat.research.discover import discover
from eqsat.research.grammars import GRAMMARS
from eqsat.rules import scalar_rules
from eqsat.simplifying.simplify import simplify

MISSING = Family("missing")


def truncmod(a: Term, b: Term) -> Term:
    return t.binary("truncmod", a, b)


def zero(a: Term) -> Term:
    return t.compare("eq", a, 0)


@MISSING.rule("thirds")
def thirds(x: Idx, k: Num):
    """Two thirds of a number, in two parts."""
    return x // 3 + (x + k) // 3, (2 * x + k - 1) // 3, when(t.compare("ne", k % 3, 0))


@MISSING.rule("turned-thirds")
def turned_thirds(x: Idx, y: Idx):
    """The remainders by three of opposites."""
    return y % 3 - x % 3, (x + 1) % 3 - 1, when(zero((x + y) % 3))


@MISSING.rule("turned-quarters")
def turned_quarters(x: Idx, y: Idx):
    """The remainders by four of numbers of which the sum is one more than a multiple."""
    return y % 4 - x % 4, 1 - x % 2 * 2, when(zero((x + y - 1) % 4))


@MISSING.rule("truncmod-unit")
def truncmod_unit(x: Idx, a: Pos, c: Pos):
    """A factor that leaves one is none, whatever the sign."""
    return truncmod(a * x, c), truncmod(x, c), when(t.compare("eq", a % c, 1))


@MISSING.rule("truncmod-of-multiple")
def truncmod_of_multiple(x: Idx, k: Pos, b: Pos, c: Pos):
    """A remainder may be left out where its factor makes whole multiples of what it takes away."""
    return truncmod(k * truncmod(x, b), c), truncmod(k * x, c), when(zero(k * b % c))


@MISSING.rule("sum-of-greatest")
def sum_of_greatest(x: Idx, y: Idx, a: Num, b: Num):
    """A number and its opposite, each with its limit."""
    return maximum(x, a) - minimum(y, b), maximum(x + maximum(x, a), a - b), when(zero(x + y), -b <= a)


SHORTER: dict[Rule, tuple[str, tuple[int, ...]]] = {
    thirds: ("digits", (500089, 500255, 500321, 500556)),
    turned_thirds: ("digits", (500246, 500302, 500576)),
    turned_quarters: ("digits", (500017, 500118, 500760)),
    truncmod_unit: ("trunc", (500129, 500483, 500771, 501306)),
    truncmod_of_multiple: ("trunc", (500304, 500873, 500885, 501416)),
    sum_of_greatest: ("scaled", (500221, 501369, 501814)),
}


LONG = {thirds, turned_thirds, turned_quarters, sum_of_greatest}
"""Rules that take seconds to prove, or to look for in our own."""


@pytest.mark.parametrize(
    "rule", [pytest.param(r, marks=pytest.mark.slow) if r in LONG else r for r in SHORTER], ids=lambda r: r.name
)
def test_a_law_that_is_missing(rule: Rule) -> None:  # feature: J5
    assert eq.check_rules([rule])[rule.name].status == "proved"
    assert not Deriver(scalar_rules()).derive(rule)
    name, seeds = SHORTER[rule]
    group = next(g for g in GROUPS if g.name == name)
    for seed in seeds:
        text, profile = expression(group, seed)
        asked = text, profile.ranges, profile.assuming or None
        assert cost(simplify(*asked, rules=[rule])) < cost(simplify(*asked)), text


@pytest.mark.parametrize(
    ("grammar", "names"),
    [
        ("units", ["truncmod-unit"]),
        pytest.param("product-units", ["truncmod-of-multiple"], marks=pytest.mark.slow),  # a proof of a second
        pytest.param("quarters", ["turned-quarters"], marks=pytest.mark.slow),
        pytest.param("thirds", ["turned-thirds"], marks=pytest.mark.slow),
    ],
)
def test_discovery_proposes_them(grammar: str, names: list[str]) -> None:  # feature: J5
    found = discover(GRAMMARS[grammar], seconds=100)
    known = Deriver([*found.rules, *scalar_rules()], cases=0)
    assert all(known.derive(rule) for rule in SHORTER if rule.name in names)
