"""Rules with one small fault each: none is proved, and what refutes them is judged by an evaluator of its own."""

from __future__ import annotations

import random

import pytest
from rule_mutants import Mutant, judged, mutants, theorem, wrong_at

from eqsat.ir.rule import Data, Idx, Pos, Pred, Rule, rule
from eqsat.ir.terms import term as t
from eqsat.rulebook import check_rules
from eqsat.rules import scalar_rules


@rule("true")
def true(x: Idx, c: Pos):
    return x // c * c + x % c, x


@rule("wrong far away")
def far(x: Idx):
    return t.binary("min", x // 10, 99), x // 10


@rule("looks further")
def looks(p: Pred, q: Pred):
    return t.logical_and(p, q), t.logical_and(q, p)


@rule("signed zero", dtypes=["float16"])
def signed_zero(x: Data):
    return x + t.const(0.0, x.dtype), x


def test_the_judge_knows_wrong_from_right() -> None:
    assert wrong_at(theorem(true, true.instances[0])) is None
    for wrong in (far, looks, signed_zero):
        assert wrong_at(theorem(wrong, wrong.instances[0])) is not None, wrong.name
    assert judged(Mutant(far, ""), "proved", None) == "WRONG PROVED"
    assert judged(Mutant(far, ""), "refuted", {"x": 3}) == "NO WITNESS"
    assert judged(Mutant(far, ""), "refuted", {"x": 1000}) == "refuted"
    assert judged(Mutant(far, ""), "tested", None) == "unknown, wrong"
    assert judged(Mutant(true, ""), "proved", None) == "equivalent"


def test_the_rules_are_right_by_the_judge() -> None:
    for r in random.Random(5).sample(scalar_rules(), 25):
        instance = next((i for i in r.instances if i.dtype in ("", "int8", "float16")), None)
        assert instance is None or wrong_at(theorem(r, instance)) is None, r


def check(count: int, seed: int) -> None:
    chosen = mutants(scalar_rules(), count, seed)
    assert len({m.rule.name for m in chosen}) == count
    verdicts = [
        judged(m, r.status, r.witness)
        for m, r in zip(chosen, check_rules([m.rule for m in chosen]).reports, strict=True)
    ]
    found = {v: [str(m.rule) for m, w in zip(chosen, verdicts, strict=True) if w == v] for v in set(verdicts)}
    assert not found.get("WRONG PROVED") and not found.get("NO WITNESS"), found
    unknown = [*found.get("unknown", []), *found.get("unknown, wrong", [])]
    assert len(unknown) * 20 < count, unknown
    assert len(found["refuted"]) > count // 2


def test_mutants_are_refuted() -> None:  # feature: J2
    check(40, seed=11)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_many_mutants_are_refuted(seed: int) -> None:  # feature: J2
    check(600, seed)


def test_a_prover_that_believes_everything_is_caught() -> None:
    wrong: list[Rule] = [m.rule for m in mutants(scalar_rules(), 30, 3)]
    caught = [judged(Mutant(r, ""), "proved", None) for r in wrong]
    assert caught.count("WRONG PROVED") > 20
