"""Rules used from right to left: those tagged `both`, as rules of their own that only the e-graph applies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from eqsat.ir.rule import Instance, Kind, Parameter, Rule, RuleError, variable
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, substitute

SUFFIX = " (from right to left)"


@cache
def reversed_rule(rule: Rule) -> Rule:
    """The rule from right to left.

    A parameter that has to be a subtracted sum is the opposite of any term here: the law holds for all integers, and
    which of its sides is the simpler one no longer matters. Numbers beside a single summand go to the other side.

    >>> from eqsat.rules.index_arith import mod_of_opposite
    >>> print(reversed_rule(mod_of_opposite))
    mod-of-opposite (from right to left): -(x % c) = (c - x - 1) % c - c + 1
    """
    parameters = tuple(Parameter(p.name, Kind.IDX if p.kind is Kind.NEG else p.kind) for p in rule.parameters)
    opposite = {variable(p, ""): -variable(p, "") for p in rule.parameters if p.kind is Kind.NEG}
    instances = tuple(_reversed(rule, instance, opposite) for instance in rule.instances)
    return replace(rule, name=rule.name + SUFFIX, parameters=parameters, instances=instances, tags=frozenset())


def both_ways(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Rules, and those of them that are used from right to left, turned round."""
    chosen = tuple(rules)
    return (*chosen, *(reversed_rule(rule) for rule in chosen if "both" in rule.tags))


def _reversed(rule: Rule, instance: Instance, opposite: dict[Term, Term]) -> Instance:
    left, right = substitute(instance.right, opposite), substitute(instance.left, opposite)
    missing = set(nodes_of("var", right, *instance.conditions)) - set(nodes_of("var", left))
    if missing or instance.choices:
        raise RuleError(f"rule {rule.name}", "its right side does not say what its parameters are", "drop the tag both")
    if left.op == "sum":
        fixed = {variable(p, "") for p in rule.parameters if p.kind in (Kind.POS, Kind.NUM)}
        constant, items = t.linear_parts(left)
        moved = t.linear(constant, [(k, x) for k, x in items if x in fixed])
        left, right = left - moved, right - moved
    conditions = tuple(substitute(c, opposite) for c in instance.conditions)
    return replace(instance, left=left, right=right, conditions=conditions)
