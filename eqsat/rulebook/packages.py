"""Rules that installed packages bring, in the group `eqsat.rules` of entry points: each a module, a family or a list.

Nothing of them is read before it is named in `rules=`, `--rules` or `eqsat rules check`, or listed by `eqsat rules
list`; so installing a package changes no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eqsat.ir.errors import EqsatError
from eqsat.ir.law import Law, Laws
from eqsat.ir.packages import Origin, is_offered, load, offers
from eqsat.ir.rule import Family, Rule

GROUP = "eqsat.rules"


def origins() -> tuple[Origin, ...]:
    """What installed packages offer, by name; none of it is imported.

    >>> origins()
    ()
    """
    return offers(GROUP)


def rules_of_package(name: str) -> tuple[Law | Rule, ...]:
    """The laws and rules under a name, imported now.

    Errors: EqsatError for a name that no package offers, a module that fails, or one that declares nothing.
    """
    origin, value = load(GROUP, name)
    found = tuple(dict.fromkeys(declared([value] if isinstance(value, (Law, Rule, Laws, Family)) else _all_of(value))))
    if not found:
        raise EqsatError(f"rules {origin}", "declares no law or rule", "use eq.law or eq.rule")
    return found


def expanded(given: Iterable[object], ours: Iterable[str]) -> list[object]:
    """What was given, with the rules of packages in place of their names; names of ours mean ours."""
    known, found = set(ours), list[object]()
    for item in given:
        if isinstance(item, str) and item not in known and is_offered(GROUP, item):
            found.extend(rules_of_package(item))
        else:
            found.append(item)
    return found


def declared(values: Iterable[object]) -> Iterator[Law | Rule]:
    """Laws and rules by themselves, and those of families."""
    for value in list(values):
        if isinstance(value, (Law, Rule)):
            yield value
        elif isinstance(value, (Laws, Family)):
            yield from value


def _all_of(value: object) -> Iterable[object]:
    """What a module holds, or a list."""
    if isinstance(value, (list, tuple)):
        return list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return list(getattr(value, "__dict__", {}).values())
