"""Every declared rule is proved, can act, is right on numbers, needs its conditions, and is found by the matcher."""

import random

import numpy as np
import pytest

from eqsat.ir.dtypes import BOOL, INDEX, NDArray
from eqsat.ir.law import Expr, Law
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.rule import Instance, Kind, Rule, variable
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder, substitute
from eqsat.rewriting.match import Pattern
from eqsat.rulebook import check_rule
from eqsat.rulebook.fuzz import counterexample
from eqsat.rulebook.laws import prove_law
from eqsat.rules import all_rules, axioms, normal_rules, scalar_rules, tensor_laws

RULES = scalar_rules()


@pytest.mark.parametrize("rule", all_rules(), ids=lambda r: r.name)
def test_rule_is_proved(rule: Rule | Law) -> None:  # feature: J1 J2
    report = check_rule(rule)
    axiom = isinstance(rule, Law) and rule.axiom
    assert report.status == ("axiom" if axiom else "proved"), str(report)
    assert "can act nowhere" not in report.note, str(report)


def test_names_and_documents() -> None:
    names = [r.name for r in all_rules()]
    assert len(set(names)) == len(names)
    assert all(r.doc for r in all_rules())
    assert len(axioms.AXIOMS) <= axioms.MOST and all(a.axiom for a in axioms.AXIOMS)
    assert not any(law.axiom for law in tensor_laws() if law.family != "axioms")
    assert len(normal_rules()) > 60


def without(instance: Instance, k: int) -> Instance:
    kept = instance.conditions[:k] + instance.conditions[k + 1 :]
    return Instance(instance.left, instance.right, kept, (), instance.choices, instance.dtype)


CONDITIONS = [(r, k) for r in RULES for k in range(len(r.instances[0].conditions))]


@pytest.mark.parametrize(("rule", "k"), CONDITIONS, ids=lambda x: x.name if isinstance(x, Rule) else str(x))
def test_every_condition_is_needed(rule: Rule, k: int) -> None:
    witness, _ = counterexample(rule, without(rule.instances[0], k))
    assert witness is not None


HYPOTHESES = [(law, k) for law in tensor_laws() for k in range(len(law.hypotheses))]


@pytest.mark.parametrize(("law", "k"), HYPOTHESES, ids=lambda x: x.name if isinstance(x, Law) else str(x))
def test_every_hypothesis_is_needed(law: Law, k: int) -> None:
    weaker = Law(law.name, law.doc, law.left, law.right, law.hypotheses[:k] + law.hypotheses[k + 1 :])
    assert prove_law(weaker).verdict == "refuted"


def test_wrong_laws_are_refuted() -> None:
    """Exchanging the parts of a composition, or the branches of a selection, is noticed."""
    by_name = {law.name: law for law in tensor_laws()}

    def exchanged(e: Expr, op: str) -> Expr:
        args = tuple(exchanged(a, op) if isinstance(a, Expr) else a for a in e.args)
        if e.op != op:
            return Expr(e.op, args)
        last = args[-1]
        return Expr(op, (*args[:-1], last[::-1]) if isinstance(last, tuple) else (*args[:-2], last, args[-2]))

    for name, op in (("compose", "compose"), ("select-of-views", "chosen")):
        law = by_name[name]
        wrong = Law(name, "", law.left, exchanged(law.right, op), law.hypotheses)
        assert prove_law(law).verdict == "proved" and prove_law(wrong).verdict == "refuted"


# -- the matcher finds what the rule declares -------------------------------------------------------------------------


def instance_of(
    rule: Rule, theorem: Instance, seed: int, again: bool = False
) -> tuple[Term, dict[Term, tuple[int, int]]] | None:
    """The left side over fresh variables and small constants for which the conditions are known, in a sum of others.

    again: variables may stand for several parameters, for conditions that say that parameters are equal.
    """
    source = random.Random(f"{rule.name}{seed}")
    table: dict[Term, Term] = {}
    ranges: dict[Term, tuple[int, int]] = {}
    for p in rule.parameters:
        v = variable(p, theorem.dtype)
        if p.kind in (Kind.POS, Kind.NUM):
            table[v] = t.index_const(source.choice([2, 3, 4, 8]))
        elif v.dtype == INDEX:
            fresh = t.var(f"v_{source.choice(rule.parameters).name if again else p.name}")
            low = source.choice([-9, -2, -1, 0, 0, 0, 1, 5])
            ranges[fresh] = (low, low + source.choice([1, 2, 3, 9]))
            table[v] = -fresh if p.kind is Kind.NEG else fresh
    known = Bounds(ranges)
    for condition in theorem.conditions:
        if known.of(substitute(condition, table)) != (1, 1):
            return None
    left = substitute(theorem.left, table)
    constants = {variable(p, theorem.dtype) for p in rule.parameters if p.kind in (Kind.POS, Kind.NUM)}
    if len(left.args) < sum(a not in constants for a in theorem.left.args):  # two summands have become one
        return None
    if left.op == "sum":  # where the rule names the constant of the sum, there is no other one
        left = 3 * left + 5 * t.var("other") + (0 if constants & set(theorem.left.args) else 7)
    return left, ranges


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_matcher_finds_its_rule(rule: Rule) -> None:
    """On instances of the left side the compiled pattern matches, and what it builds has the same values."""
    found_any = False
    for theorem in rule.instances:
        if rule.name.endswith("one-side") or theorem.choices:
            found_any = True  # these are the spelling of comparisons, and rules that choose their own constant
            continue
        if any(c.op not in t.COMPARE for c in theorem.conditions):
            found_any = True  # what a predicate implies is known on a box only: see the tests of simplify
            continue
        pattern = Pattern(rule, theorem)
        for seed in range(2000):
            made = instance_of(rule, theorem, seed, 300 <= seed < 600)
            if made is None or made[0].op == "const" or made[0].op not in pattern.filter.roots:
                continue
            left, ranges = made
            found = pattern.first(left, Bounds(ranges).of)
            assert found is not None, left
            check_equal(left, found.build(theorem.right), ranges)
            found_any = True
            break
    assert found_any


def check_equal(a: Term, b: Term, ranges: dict[Term, tuple[int, int]]) -> None:
    random_numbers = np.random.default_rng(3)
    env: dict[Term, NDArray] = {}
    for node in postorder(a, b):
        if node.op == "var":
            if node.dtype == INDEX:
                env[node] = random_numbers.integers(*ranges.get(node, (-50, 50)), 500)
            elif node.dtype == BOOL:
                env[node] = random_numbers.integers(0, 2, 500).astype(bool)
            else:
                env[node] = random_numbers.integers(0, 100, 500).astype(node.dtype)
    (x, _), (y, _) = evaluate_masked([a, b], env)
    assert np.array_equal(x, np.broadcast_to(y, x.shape), equal_nan=x.dtype.kind == "f"), (str(a), str(b))
