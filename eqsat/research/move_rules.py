"""Laws of layout moves as rules of indices to paste: what a chain of moves reads, and where it shows padding; where it
reduces, in which cell of the result each cell of the source counts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from eqsat.ir.errors import EqsatError
from eqsat.ir.rule import Instance, Kind, Parameter, Rule, variable
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, substitute
from eqsat.research.discover_moves import MoveLaw
from eqsat.research.moves import AXES, M, N, both_moved
from eqsat.research.paste import HEAD, rule_text
from eqsat.rulebook import check_rule

SECONDS = 2.0
ZERO = t.index_const(0)
SIZES = {N: variable(Parameter("n", Kind.POS), ""), M: variable(Parameter("m", Kind.POS), "")}
NAMES = {"n": Kind.POS, "m": Kind.POS}


def index_rules(law: MoveLaw, name: str) -> list[Rule]:
    """The proved rules of indices that a law comes to: one for each index and predicate that its sides write otherwise.

    >>> from eqsat.research.moves import MOVES, Chain
    >>> roll = next(m for m in MOVES if m.name == "roll")
    >>> twice, once = Chain("n", ((roll, "a"), (roll, "b"))), Chain("n", ((roll, "a + b"),))
    >>> for rule in index_rules(MoveLaw(twice, once, (), "", None), "rolls"):
    ...     print(rule)
    rolls: ((i - b) % n - a) % n = (i - a - b) % n
    """
    first, second = both_moved(law.left, law.right)
    if first is None or second is None:
        return []
    given = [*law.conditions, *law.left.fits()]
    for axis, size in zip(AXES, first.box, strict=False):
        given += [axis >= ZERO, axis < size]
    pairs = [(first.inside, second.inside, given)]
    inside = [*given, *(first.inside.args if first.inside.op == "and" else (first.inside,))]
    pairs += [(a, b, inside) for a, b in zip(first.cell, second.cell, strict=True)]
    found: list[Rule] = []
    for left, right, conditions in pairs:
        made = _proved(name if not found else f"{name}-{len(found) + 1}", left, right, conditions)
        if made is not None:
            found.append(made)
    return found


def _proved(name: str, left: Term, right: Term, given: Sequence[Term]) -> Rule | None:
    """The rule that two terms are equal, under as few of the conditions as a proof is found with; None: it says
    nothing, or is not proved."""
    left, right = substitute(left, SIZES), substitute(right, SIZES)
    variables = set(nodes_of("var", left))
    if left is right or not set(nodes_of("var", right)) <= variables:
        return None
    usable = [c for c in dict.fromkeys(substitute(c, SIZES) for c in given) if c.op != "const"]
    usable = [c for c in usable if set(nodes_of("var", c)) <= variables]
    names = sorted(str(v.payload) for v in variables)
    parameters = tuple(Parameter(x, NAMES.get(x, Kind.IDX)) for x in names)

    def rule(conditions: Sequence[Term]) -> Rule:
        return Rule(name, f"{left} = {right}", parameters, (Instance(left, right, tuple(conditions)),))

    try:
        if check_rule(rule(usable), seconds=SECONDS).status != "proved":
            return None
        for condition in list(usable):
            rest = [c for c in usable if c is not condition]
            if check_rule(rule(rest), seconds=SECONDS).status == "proved":
                usable = rest
    except EqsatError:
        return None
    return rule(usable)


def to_paste(laws: Sequence[MoveLaw]) -> str:
    """Laws as comments, each with its rules of indices as declarations; `eqsat rules check` proves what is pasted."""
    parts, taken = [HEAD], dict[str, int]()
    for law in laws:
        name = re.sub(r"[^a-z]+", "-", str(law.left).lower()).strip("-").removeprefix("x-")
        taken[name] = taken.get(name, 0) + 1
        name += f"-of-{taken[name]}" if taken[name] > 1 else ""
        texts = [rule_text(rule) for rule in index_rules(law, name)]
        parts.append("\n".join([f"# {law}", *texts]) if texts else f"# {law}: by the normal form of sums")
    return "\n\n\n".join(parts)
