"""The rules of the tensor e-graph are instances of declared laws, and every declared law is proved or an axiom."""

from __future__ import annotations

import re

from eqsat.graph.tensor_graph import RULE_LAWS, SCHEMA, rules_for
from eqsat.rulebook import check_rules
from eqsat.rules import axioms, layout_laws


def test_every_rule_that_merges_classes_has_declared_laws() -> None:
    text = SCHEMA + "".join(rules_for(n) for n in range(4))
    unions = [rule for rule in text.split("(rule ") if "(union " in rule]
    merging = {name for rule in unions for name in re.findall(r':name "([^"/]+)', rule)}
    assert merging == set(RULE_LAWS), merging ^ set(RULE_LAWS)


def test_the_laws_that_rules_rely_on_are_declared() -> None:
    declared = {law.name for law in (*layout_laws.LAWS, *axioms.AXIOMS)}
    used = {name for laws in RULE_LAWS.values() for name in laws}
    assert used <= declared, used - declared


def test_every_law_is_proved() -> None:
    assert {r.name: r.status for r in check_rules(layout_laws.LAWS).reports if r.status != "proved"} == {}
