"""Deciding by the declared rules: where the normal form of the goal, under the facts, is True.

This is how questions with unknown sizes are decided that no solver reaches: the mixed-radix laws were proved once, with
lemmas, for all integers. The check of the rules themselves leaves this member out.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import Any

from eqsat.ir.rule import Rule
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.proving.points import UNKNOWN, Answer
from eqsat.proving.question import Question
from eqsat.rewriting.rewrite import Rewriter, RuleStep, Session
from eqsat.rules import normal_rules


def normaliser(more: tuple[Rule, ...] = ()) -> Rewriter:
    """The compiled rules tagged `normal`, with those of a user."""
    return _with_those_of_a_user(more) if more else _ours()


@cache
def _ours() -> Rewriter:
    return Rewriter(normal_rules())


@lru_cache(maxsize=64)
def _with_those_of_a_user(more: tuple[Rule, ...]) -> Rewriter:
    return Rewriter([*normal_rules(), *(rule for rule in more if "normal" in rule.tags)])


def ranges_of(question: Question) -> dict[Term, Any]:
    """The half-open range of every variable that has one, open ends being infinite."""
    return {
        v.leaf: (-math.inf if v.start is None else v.start, math.inf if v.stop is None else v.stop)
        for v in question.variables
        if v.start is not None or v.stop is not None
    }


def normal_goal(question: Question, log: list[RuleStep] | None = None) -> Term:
    """The normal form of the goal where the facts hold."""
    session = Session(normaliser(), ranges_of(question), t.logical_and(*question.facts))
    return session.normal(question.goal, log)


def rules_claim(question: Question) -> Answer:
    """Prove a claim by rewriting it to True; the note names the rules.

    >>> from eqsat.ir.terms.text import parse_expr
    >>> from eqsat.proving.question import claim
    >>> rules_claim(claim(parse_expr("x % (4*a) // 4 == x // 4 % a"), {}, parse_expr("a > 0")).question).verdict
    'proved'
    """
    log: list[RuleStep] = []
    if normal_goal(question, log) is not t.TRUE:
        return UNKNOWN
    return Answer("proved", "rules", note=", ".join(dict.fromkeys(step.rule for step in log)))
