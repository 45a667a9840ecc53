"""Wrong rules of other rewriters, as their own trackers report them: each is refuted, and its repair is proved."""

from __future__ import annotations

import pytest
from rule_mutants import differs_at, theorem

from eqsat.ir.rule import Family, Idx, Pos, Rule, when
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.rulebook import check_rule

WRONG, RIGHT = Family("wrong elsewhere"), Family("repaired")
rule_wrong, rule_right = WRONG.rule, RIGHT.rule


def truncdiv(a: Term, b: int | Term) -> Term:
    return t.binary("truncdiv", a, b)


def zero(a: Term) -> Term:
    return t.compare("eq", a, 0)


@rule_wrong("halide-1349", source="halide/Halide pull request 1349")
def halide_1349(x: Idx, y: Idx, z: Idx):
    """The floor of an opposite is not the opposite of the floor."""
    return (4 * x - y + z) // 2, 2 * x - (y - z) // 2


@rule_right("halide-1349-repaired")
def halide_1349_repaired(x: Idx, y: Idx, z: Idx):
    return (4 * x - y + z) // 2, 2 * x + (z - y) // 2


@rule_wrong("halide-2949", source="halide/Halide issue 2949")
def halide_2949(x: Idx, a: Pos, b: Pos):
    """A common negative factor is divided out: division by a negative number, as there, rounds the other way."""
    return (-a * x) // (a * b), -(x // b)


@rule_right("halide-2949-repaired")
def halide_2949_repaired(x: Idx, a: Pos, b: Pos):
    return (-a * x) // (a * b), -((x + b - 1) // b)


@rule_wrong("tvm-10591", source="apache/tvm pull request 10591, issue 10610")
def tvm_10591(x: Idx, y: Idx, a: Pos, b: Pos):
    """The low digit must not be negative."""
    return (a * x + y) % (a * b), x % b * a + y, when(y < a)


@rule_right("tvm-10591-repaired")
def tvm_10591_repaired(x: Idx, y: Idx, a: Pos, b: Pos):
    return (a * x + y) % (a * b), x % b * a + y, when(y >= 0, y < a)


@rule_wrong("tvm-2308", source="apache/tvm issue 2308")
def tvm_2308(x: Idx):
    """Truncated division of a negative number."""
    return truncdiv(48 * x + 241, 16), 3 * x + 15


@rule_right("tvm-2308-repaired")
def tvm_2308_repaired(x: Idx):
    return truncdiv(48 * x + 241, 16), 3 * x + 15, when(x >= -5)


@rule_wrong("tvm-2308-first", source="apache/tvm issue 2308")
def tvm_2308_first(x: Idx):
    """The same with a remainder that is dropped."""
    return truncdiv(10 * x + 5, 10), x


@rule_wrong("tvm-8616", source="apache/tvm issue 8616, pull request 8852")
def tvm_8616(x: Idx, y: Idx):
    """Lanes of a vector, of which some lie beyond the next multiple."""
    return (x + y) % 20, x % 20 + y, when(zero(x % 2), y >= 0, y < 8)


@rule_right("tvm-8616-repaired")
def tvm_8616_repaired(x: Idx, y: Idx):
    return (x + y) % 20, x % 20 + y, when(zero(x % 4), y >= 0, y < 4)


@rule_wrong("tvm-17765", source="apache/tvm pull request 17765, before its review")
def tvm_17765(x: Pos, a: Pos, b: Pos):
    """A common factor of a remainder is lost."""
    return (a * x) % (b * x), a % b


@rule_right("tvm-17765-repaired")
def tvm_17765_repaired(x: Pos, a: Pos, b: Pos):
    return (a * x) % (b * x), x * (a % b)


@rule_wrong("certora-109", source="Certora/CertoraProver pull request 109")
def certora_109(x: Idx, c: Pos):
    """Truncated division takes small negative numbers to zero."""
    return truncdiv(x, c) < 0, x < 0


@rule_right("certora-109-repaired")
def certora_109_repaired(x: Idx, c: Pos):
    return truncdiv(x, c) < 0, x <= -c


@pytest.mark.parametrize("rule", list(WRONG), ids=lambda rule: rule.name)
def test_what_was_wrong_elsewhere_is_refuted(rule: Rule) -> None:  # feature: J2
    """With values that a judge of its own confirms."""
    report = check_rule(rule)
    assert report.status == "refuted" and report.witness is not None
    point = dict(report.witness)
    assert differs_at(theorem(rule, rule.instances[0]), [point[p.name] for p in rule.parameters])


@pytest.mark.parametrize("rule", list(RIGHT), ids=lambda rule: rule.name)
def test_its_repair_is_proved(rule: Rule) -> None:  # feature: J2
    assert check_rule(rule).status == "proved"
