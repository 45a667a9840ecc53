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

    >>> from eqsat.ir.rule import Buffer, Idx
    >>> from eqsat.ir.rule import rule as declare
    >>> @declare("split index")
    ... def split_index(x: Buffer, i: Idx):
    ...     return x[i // 4 * 4 + i % 4], x[i]
    >>> why_idle(split_index)
    'x[i // 4 * 4 + i % 4] cannot be matched (products and loads stand on right sides only)'
    """
    try:
        acts(rule)
    except RuleError as error:
        return str(error).removeprefix(f"rule {rule.name}: ")
    return ""
