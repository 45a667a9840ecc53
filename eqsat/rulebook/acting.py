"""Where a rule acts: in the rewriter (the first stage of `simplify`), in the index e-graph (the second), or nowhere.
Where a law does: in the tensor e-graph, while a program is loaded, in the forms of targets; and an axiom in the proofs
of laws."""

from __future__ import annotations

from eqsat.ir.law import Law
from eqsat.ir.rule import Rule, RuleError
from eqsat.laws.text import acts as acts_in_graph
from eqsat.laws.text import spells
from eqsat.rewriting.match import pattern_of
from eqsat.rules import tensor_laws

REWRITING = frozenset(("normal", "compact", "tight", "finish", "expansive"))  # the tags of the rewriter's passes


def acts(rule: Rule) -> tuple[str, ...]:
    """Who applies a rule: "rewriter", "graph"; a RuleError says why nobody can.

    The e-graph tries all rules, from right to left too where they are tagged `both`; the rewriter those of its passes.

    >>> from eqsat.rules.index_arith import div_div
    >>> from eqsat.rules.minmax_where import min_div
    >>> acts(div_div), acts(min_div)
    (('rewriter', 'graph'), ('graph',))
    """
    for number in range(len(rule.instances)):
        pattern_of(rule, number)
    return ("rewriter", "graph") if rule.tags & REWRITING else ("graph",)


LOADING = frozenset(("compose", "select-part", "select-of-views", "absorb"))  # what `eqsat.graph.encode` applies


def law_acts(law: Law) -> tuple[str, ...]:
    """Where a law acts: "graph" (the rules of the tensor e-graph), "loading", "forms" (what targets can spell); an
    axiom in "proofs" of laws.

    >>> from eqsat.rules import layout_laws
    >>> law_acts(layout_laws.compose_views), law_acts(layout_laws.spell)
    (('graph', 'loading'), ('forms',))
    """
    if law.axiom:
        return ("proofs",)
    found = ("forms",) if spells(law) else ("graph",) if acts_in_graph(law) else ()
    return (*found, "loading") if law.name in LOADING and law in tensor_laws() else found


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
