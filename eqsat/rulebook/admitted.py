"""What a search uses: the laws of eqsat, fewer by name, or more by declaration; and rules of a user about scalars."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from eqsat.ir.errors import EqsatError
from eqsat.ir.law import Law
from eqsat.ir.rule import Rule
from eqsat.ir.tensors.told import KnownOperator, PadValue
from eqsat.laws.plan import check_can_act
from eqsat.laws.text import acts
from eqsat.rulebook import admit
from eqsat.rulebook.choice import distinct, rules_in_use
from eqsat.rulebook.packages import ONE, Given, expanded, origins
from eqsat.rules import scalar_rules, tensor_laws

NEEDED = ("identity", "spell", "absorb")
"""Laws that no search can do without: without them no program could be built from its graph."""


def admitted(rules: Iterable[str | Given] | None) -> tuple[tuple[Law, ...], tuple[Rule, ...]]:
    """The laws of a search, and the rules about scalars that it uses beside ours.

    Names choose among the laws of eqsat; laws and rules of one's own are added, and those that an installed package
    has under a name.

    >>> laws, rules = admitted(["compose"])
    >>> [law.name for law in laws], rules
    (['compose', 'identity', 'spell', 'absorb'], ())

    Errors: an unknown name; a law or rule that is not proved (with the witness) or can act nowhere (with the reason).
    """
    own = tensor_laws()
    scalars = {rule.name for rule in scalar_rules()}
    given = _given(rules)
    names = [x for x in given if isinstance(x, str)]
    for name in names:
        if name not in scalars and all(law.name != name for law in own):
            known = ", ".join(law.name for law in own)
            raise EqsatError(f"rule {name!r}", "eqsat has no such rule", f"one of {known}")
    laws = [name for name in names if name not in scalars]
    chosen = [law for law in own if not laws or law.name in (*laws, *NEEDED)]
    return (*chosen, *_more(given, own, chosen)), _scalars(given)


def told(rules: Iterable[str | Given] | None) -> tuple[dict[str, KnownOperator], tuple[float, ...]]:
    """The signatures that were given, by the operator's name, and the pad values to try.

    >>> told(None)
    ({}, ())

    Errors: two different signatures of one operator.
    """
    operators: dict[str, KnownOperator] = {}
    numbers: dict[float, None] = {}
    for x in _given(rules):
        if isinstance(x, KnownOperator) and operators.setdefault(x.name, x) != x:
            raise EqsatError(f"operator {x}", f"has another signature, too: {operators[x.name]}", "give one of them")
        if isinstance(x, PadValue):
            numbers |= dict.fromkeys(x.numbers)
    return operators, tuple(numbers)


def not_ours(rules: Iterable[str | Given] | None) -> list[str | Given]:
    """What was given beside names of laws and rules of eqsat: own ones, and names under which packages have some."""
    listed = [] if rules is None else [rules] if isinstance(rules, ONE) else list(rules)
    return [r for r in listed if not isinstance(r, str) or r in {origin.name for origin in origins()}]


def _given(rules: Iterable[str | Given] | None) -> list[object]:
    """What was given, with what packages have in place of their names."""
    given = [] if rules is None else [rules] if isinstance(rules, ONE) else list(rules)
    return expanded(given, (*(r.name for r in scalar_rules()), *(law.name for law in tensor_laws())))


def _more(given: Iterable[object], own: Iterable[Law], chosen: Iterable[Law]) -> list[Law]:
    """The laws that were given and are not among the chosen ones."""
    more = distinct(x for x in given if isinstance(x, Law) and x not in chosen)
    for law in more:
        if any(law.name == other.name and law != other for other in own):
            raise EqsatError(f"law {law.name}", "eqsat has a law of this name", "choose another")
        _believed(law)
    return more


def _scalars(given: Iterable[object]) -> tuple[Rule, ...]:
    """The rules about scalars that were given and are not ours."""
    ours = scalar_rules()
    rules = [x for x in given if isinstance(x, Rule)]
    return tuple(r for r in rules_in_use(rules) if r not in ours) if rules else ()


@lru_cache(maxsize=1 << 8)
def _believed(law: Law) -> None:
    """Refuse a law that is not proved, or that can act nowhere."""
    if acts(law):
        check_can_act(law)
    admit([law])
