"""What installed packages offer, under names in groups of entry points; nothing of it is imported before it is named.

    [project.entry-points."eqsat.rules"]
    swizzles = "my_package.rules"           # or "my_package.rules:FAMILY"

The groups: `eqsat.rules` (laws and rules), `eqsat.operators` (signatures of operators that eqsat does not define),
`eqsat.pad_values` (numbers to try as padding), and `eqsat.targets` (one Target each). Installing a package changes no
answer: a name must be given for it to act.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eqsat.ir.errors import EqsatError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@dataclass(frozen=True)
class Origin:
    """Where something comes from: the name to give, the package with its version, and the module."""

    name: str
    package: str
    module: str

    def __str__(self) -> str:
        return f"{self.name} (package {self.package}, {self.module})"


def offers(group: str) -> tuple[Origin, ...]:
    """What installed packages offer in a group, by name; none of it is imported.

    >>> offers("eqsat.rules")
    ()
    """
    return tuple(_origin(point) for _, point in sorted(_points(group).items()))


def is_offered(group: str, name: str) -> bool:
    """Whether a package offers something under a name."""
    return name in _points(group)


def load(group: str, name: str) -> tuple[Origin, object]:
    """Where the thing under a name comes from, and the thing, imported now.

    Errors: EqsatError for a name that no package offers, and for a module that fails.
    """
    points, kind = _points(group), group.removeprefix("eqsat.")
    if name not in points:
        known = ", ".join(points) or "no installed package has any"
        raise EqsatError(f"{kind} {name!r}", f"no installed package has {kind} of this name", f"known: {known}")
    origin = _origin(points[name])
    try:
        return origin, points[name].load()
    except Exception as error:
        problem = f"cannot be imported: {type(error).__name__}: {error}"
        raise EqsatError(f"{kind} {origin}", problem, "ask its author") from error


def _points(group: str) -> dict[str, EntryPoint]:
    """The entry points by name; of two packages with one name, the first by package has it."""
    from importlib.metadata import entry_points  # takes as long to import as all that runs a cached program

    found = sorted(entry_points(group=group), key=lambda p: (p.dist.name if p.dist else "", p.name), reverse=True)
    return {point.name: point for point in found}


def _origin(point: EntryPoint) -> Origin:
    package = f"{point.dist.name} {point.dist.version}" if point.dist else "unknown"
    return Origin(point.name, package, point.value)
