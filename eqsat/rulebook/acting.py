"""Where a rule acts: in the rewriter (the first stage of `simplify`), in the index e-graph (the second), or nowhere."""

from __future__ import annotations

from eqsat.ir.rule import Rule, RuleError
from eqsat.rewriting.match import Pattern

REWRITING = frozenset(("normal", "compact", "tight", "finish", "expansive"))  # the tags of the rewriter's passes


def acts(rule: Rule) -> tuple[str, ...]:
    """Who applies a rule: "rewriter", "graph"; a RuleError says why nobody can.

    The e-graph tries all rules, from right to left too where they are tagged `both`; the rewriter those of its passes.

    >>> from eqsat.rules.index_arith import div_div
    >>> from eqsat.rules.minmax_where import min_div
    >>> acts(div_div), acts(min_div)
    (('rewriter', 'graph'), ('graph',))
    """
    for instance in rule.instances:
        Pattern(rule, instance)
    return ("rewriter", "graph") if rule.tags & REWRITING else ("graph",)


def why_idle(rule: Rule) -> str:
    """Why a rule can act nowhere; empty where it can.

    >>> from eqsat.ir.rule import Idx, Pos, when
    >>> from eqsat.ir.rule import rule as declare
    >>> from eqsat.ir.terms import term as t
    >>> @declare("apart")
    ... def apart(x: Idx, y: Idx, c: Pos):
    ...     return (x + y) // c, x // c + y // c, when(t.compare("eq", x % c, 0))
    >>> why_idle(apart)
    'sum x + y below an operation (must read K*x + y, x + numbers, or anchored + y)'
    """
    try:
        acts(rule)
    except RuleError as error:
        return str(error).removeprefix(f"rule {rule.name}: ")
    return ""
