"""Rules that installed packages bring: under names in the entry-point group `eqsat.rules`, each a module or a family.

    [project.entry-points."eqsat.rules"]
    swizzles = "my_package.rules"           # or "my_package.rules:FAMILY"

Nothing of them is read before it is named in `rules=`, `--rules` or `eqsat rules check`, or listed by `eqsat rules
list`; so installing a package changes no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from eqsat.ir.errors import EqsatError
from eqsat.ir.law import Law, Laws
from eqsat.ir.rule import Family, Rule

GROUP = "eqsat.rules"


@dataclass(frozen=True)
class Origin:
    """Where rules come from: the name to give in `rules=`, the package with its version, and the module."""

    name: str
    package: str
    module: str

    def __str__(self) -> str:
        return f"{self.name} (package {self.package}, {self.module})"


def origins() -> tuple[Origin, ...]:
    """What installed packages offer, by name; none of it is imported.

    >>> origins()
    ()
    """
    return tuple(_origin(point) for _, point in sorted(_points().items()))


def rules_of_package(name: str) -> tuple[Law | Rule, ...]:
    """The laws and rules under a name, imported now.

    Errors: EqsatError for a name that no package offers, a module that fails, or one that declares nothing.
    """
    point = _points().get(name)
    if point is None:
        known = ", ".join(_points()) or "no installed package has any"
        raise EqsatError(f"rules {name!r}", "no installed package has rules of this name", f"known: {known}")
    try:
        value: object = point.load()
    except Exception as error:
        problem = f"cannot be imported: {type(error).__name__}: {error}"
        raise EqsatError(f"rules {_origin(point)}", problem, "ask its author") from error
    found = tuple(dict.fromkeys(declared([value] if isinstance(value, (Law, Rule, Laws, Family)) else _all_of(value))))
    if not found:
        raise EqsatError(f"rules {_origin(point)}", "declares no law or rule", "use eq.law or eq.rule")
    return found


def expanded(given: Iterable[object], ours: Iterable[str]) -> list[object]:
    """What was given, with the rules of packages in place of their names; names of ours mean ours."""
    known, found = set(ours), list[object]()
    for item in given:
        if isinstance(item, str) and item not in known and item in _points():
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


def _points() -> dict[str, EntryPoint]:
    """The entry points by name; of two packages with one name, the first by package has it."""
    found = sorted(entry_points(group=GROUP), key=lambda p: (p.dist.name if p.dist else "", p.name), reverse=True)
    return {point.name: point for point in found}


def _origin(point: EntryPoint) -> Origin:
    package = f"{point.dist.name} {point.dist.version}" if point.dist else "unknown"
    return Origin(point.name, package, point.value)
