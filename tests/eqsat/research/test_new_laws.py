"""Laws that `eqsat rules discover --grammar least-part` proposes, with a second constant where that is true too, and
their mirror images: true, not derivable from ours, and each makes an answer shorter."""

from __future__ import annotations

import pytest

import eqsat as eq
from eqsat import maximum, minimum
from eqsat.index_graph.cost import cost
from eqsat.ir.rule import Family, Idx, Pos, Rule
from eqsat.research.derive import Deriver
from eqsat.rules import scalar_rules

CLAMPS = Family("clamps")
RANGE = {"x": (-1000, 1000)}


@CLAMPS.rule("least-multiple", tags=["normal"])
def least_multiple(x: Idx, c: Pos):
    return minimum(0, minimum(x, c * x)), minimum(0, c * x)


@CLAMPS.rule("greatest-multiple", tags=["normal"])
def greatest_multiple(x: Idx, c: Pos):
    return maximum(0, maximum(x, c * x)), maximum(0, c * x)


@CLAMPS.rule("clamp-scaled-below", tags=["normal"])
def clamp_scaled_below(x: Idx, c: Pos, d: Pos):
    return minimum(c * minimum(x, d), 0), minimum(0, c * x)


@CLAMPS.rule("clamp-scaled-above", tags=["normal"])
def clamp_scaled_above(x: Idx, c: Pos, d: Pos):
    return maximum(0, c * maximum(x, -d)), maximum(0, c * x)


@CLAMPS.rule("clamp-sum-below", tags=["normal"])
def clamp_sum_below(x: Idx, c: Pos):
    return minimum(x + minimum(x, c), c), minimum(c, 2 * x)


@CLAMPS.rule("clamp-sum-above", tags=["normal"])
def clamp_sum_above(x: Idx, c: Pos):
    return maximum(0, x + maximum(x, -c)), maximum(0, 2 * x)


@CLAMPS.rule("least-quotient", tags=["normal"])
def least_quotient(x: Idx, c: Pos):
    return minimum(0, minimum(x, x // c)), minimum(0, x)


@CLAMPS.rule("greatest-quotient", tags=["normal"])
def greatest_quotient(x: Idx, c: Pos):
    return maximum(0, maximum(x, x // c)), maximum(0, x)


SHORTER = {
    least_multiple: "minimum(0, minimum(x, 4*x))",
    greatest_multiple: "maximum(0, maximum(x, 4*x))",
    clamp_scaled_below: "minimum(0, 4*minimum(x, 7))",
    clamp_scaled_above: "maximum(0, 4*maximum(x, -3))",
    clamp_sum_below: "minimum(5, x + minimum(x, 5))",
    clamp_sum_above: "maximum(0, x + maximum(x, -5))",
    least_quotient: "minimum(0, minimum(x, x//4))",
    greatest_quotient: "maximum(0, maximum(x, x//4))",
}


@pytest.mark.parametrize("rule", SHORTER, ids=lambda rule: rule.name)
def test_a_law_that_was_missing(rule: Rule) -> None:  # feature: J5
    assert eq.check_rules([rule])[rule.name].status == "proved"
    assert Deriver(scalar_rules(), cases=0).by(rule, rule.instances[0], 60, 0.5) is None
    plain = eq.simplify(SHORTER[rule], RANGE)
    assert cost(eq.simplify(SHORTER[rule], RANGE, rules=[rule])) < cost(plain)
