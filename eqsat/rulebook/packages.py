"""What installed packages bring in groups of entry points: rules and laws, signatures of operators, pad values; each a
module, a family, a list or one of these.

Nothing of them is read before it is named in `rules=`, `--rules` or `eqsat rules check`, or listed by `eqsat rules
list`; so installing a package changes no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any, cast

from eqsat.ir.errors import EqsatError
from eqsat.ir.given import told
from eqsat.ir.law import Law, Laws
from eqsat.ir.packages import Origin, is_offered, load, offers
from eqsat.ir.rule import Family, Rule
from eqsat.ir.tensors.told import KnownOperator, PadValue

GROUP, OPERATORS, PAD_VALUES = "eqsat.rules", "eqsat.operators", "eqsat.pad_values"
GROUPS = (GROUP, OPERATORS, PAD_VALUES)
Given = Law | Rule | KnownOperator | PadValue
"""What `rules=` takes, beside names."""
ONE = (str, Law, Rule, KnownOperator, PadValue)
"""What is given alone in `rules=`, instead of several."""
NAMES = "rules=['compose'] names those to use"
NOTHING, FIX = "declares no law, rule, operator or pad value", "use eq.law, eq.rule, eq.operator or eq.pad_value"


def origins() -> tuple[Origin, ...]:
    """What installed packages offer, by name; none of it is imported.

    >>> origins()
    ()
    """
    return tuple(origin for group in GROUPS for origin in offers(group))


def rules_of_package(name: str) -> tuple[Given, ...]:
    """What is declared under a name in all groups, imported now.

    Errors: EqsatError for a name that no package offers, a module that fails, or one that declares nothing.
    """
    found: dict[Given, None] = {}
    for group in [g for g in GROUPS if is_offered(g, name)] or [GROUP]:
        origin, value = load(group, name)
        alone = isinstance(value, (Law, Rule, Laws, Family, KnownOperator, PadValue))
        more = dict.fromkeys(declared([value] if alone else _all_of(value)))
        if not more:
            raise EqsatError(f"rules {origin}", NOTHING, FIX)
        found |= more
    return tuple(found)


def asked_for(rules: object, kinds: tuple[type, ...] = ONE) -> list[Any]:
    """What `rules=` was given, one alone or several, each of one of the kinds; an EqsatError names what is not. A
    module, alone or among others, stands for what it declares of these kinds.

    >>> asked_for("compose"), asked_for(["compose", "absorb"])
    (['compose'], ['compose', 'absorb'])
    >>> asked_for([None])
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.EqsatError: rules: None is no rule, law or name (rules=['compose'] names those to use)
    """
    if isinstance(rules, (*ONE, ModuleType)):
        asked: list[object] = [rules]
    elif isinstance(rules, Iterable):
        asked = list(cast("Iterable[object]", rules))
    else:
        raise EqsatError(f"rules={told(rules)}", "is no rule, law or name", NAMES)
    found: list[Any] = []
    for item in asked:
        if isinstance(item, ModuleType):
            found += _of_module(item, kinds)
            continue
        if not isinstance(item, ONE):
            raise EqsatError(f"rules: {told(item)} is no rule, law or name", fix=NAMES)
        if not isinstance(item, kinds):
            what = f"{item!r}" if isinstance(item, str) else f"{type(item).__name__.lower()} {item}"
            wanted = " or a ".join({str: "name"}.get(k, k.__name__.lower()) for k in kinds)
            raise EqsatError(f"rules: {what}", f"is not a {wanted}, which is asked for here")
        found.append(item)
    return found


def _of_module(module: ModuleType, kinds: tuple[type, ...]) -> list[Given]:
    """What a module declares of these kinds, each once."""
    found = [x for x in dict.fromkeys(declared(vars(module).values())) if isinstance(x, kinds)]
    if not found:
        raise EqsatError(f"rules: module {module.__name__}", NOTHING, FIX)
    return found


def expanded(given: Iterable[object], ours: Iterable[str]) -> list[object]:
    """What was given, with the rules of packages in place of their names; names of ours mean ours."""
    known, found = set(ours), list[object]()
    for item in given:
        if isinstance(item, str) and item not in known and any(is_offered(group, item) for group in GROUPS):
            found.extend(rules_of_package(item))
        else:
            found.append(item)
    return found


def declared(values: Iterable[object]) -> Iterator[Given]:
    """Laws, rules, signatures and pad values by themselves, and the rules of families."""
    for value in list(values):
        if isinstance(value, (Law, Rule, KnownOperator, PadValue)):
            yield value
        elif isinstance(value, (Laws, Family)):
            yield from value


def _all_of(value: object) -> Iterable[object]:
    """What a module holds, or a list."""
    if isinstance(value, (list, tuple)):
        return list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return list(getattr(value, "__dict__", {}).values())
