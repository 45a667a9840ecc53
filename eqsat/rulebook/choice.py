"""The rules that a user asks for: their own, once they are proved, beside ours, or some of ours by name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from types import ModuleType
from typing import TypeVar

from eqsat.ir.errors import EqsatError
from eqsat.ir.law import Law
from eqsat.ir.rule import Rule
from eqsat.rulebook import admit
from eqsat.rulebook.packages import asked_for, expanded
from eqsat.rules import scalar_rules

Named = TypeVar("Named", bound=Rule | Law)


def rules_in_use(rules: Iterable[Rule | str] | ModuleType) -> tuple[Rule, ...]:
    """All rules to apply, where a user gives some: rules of their own are added, names choose from those of eqsat,
    or add what an installed package has under them.

    An EqsatError names a rule that is not proved, with what refutes it, that can act nowhere, or that is unknown, and
    what is neither a rule nor a name.

    >>> [r.name for r in rules_in_use(["div-div", "mod-mod"])]
    ['div-div', 'mod-mod']
    """
    ours = scalar_rules()
    given = expanded(asked_for(rules, (Rule, str)), (r.name for r in ours))
    names = {r for r in given if isinstance(r, str)}
    unknown = sorted(names - {r.name for r in ours})
    if unknown:
        raise EqsatError(f"rule {unknown[0]}", "there is no rule of this name", "see `eqsat rules list`")
    own = distinct(r for r in given if isinstance(r, Rule) and not any(r is x for x in ours))
    for rule in own:
        if any(r.name == rule.name for r in ours):
            raise EqsatError(f"rule {rule.name}", "eqsat has a rule of this name", "give it another one")
        _admitted(rule)
    kept = [r for r in ours if r.name in names or any(r is x for x in given)] if names else ours
    return (*kept, *own)


def distinct(given: Iterable[Named]) -> list[Named]:
    """Rules, or laws, each once; two of one name, which nobody could tell apart in an explanation, are refused."""
    found: dict[str, Named] = {}
    for one in given:
        if found.setdefault(one.name, one) != one:
            raise EqsatError(f"{one}", f"another one has this name: {found[one.name]}", "rename one of them")
    return list(found.values())


@lru_cache(maxsize=256)
def _admitted(rule: Rule) -> Rule:
    """The rule, proved once in this process."""
    return admit([rule])[0]
