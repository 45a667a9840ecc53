"""The one door from the language to its provers: the Decider protocol, what it is asked and answers, the registry.

`ir` objects ask questions here (is this predicate always true on this box, is this map injective, what is its inverse).
The default answers by enumeration (`enumerator`); `import eqsat` registers its prover and its solver instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

from eqsat.ir.shown import card
from eqsat.ir.terms.term import Term

if TYPE_CHECKING:
    from eqsat.ir.map_on_box import MapInverse, MapOnBox

Verdict = Literal["proved", "refuted", "unknown"]
Box = Mapping[Term, tuple[int, int]]


@dataclass(frozen=True)
class Proof:
    """The answer to a question: proved, refuted with a witness, or unknown; how and how long it took.

    The witness names values that re-evaluate to the refutation: {"i": 7}; for a collision {"first": .., "second": ..}.
    """

    verdict: Verdict
    witness: Mapping[str, Any] | None = None
    method: str = ""
    seconds: float = 0.0
    note: str = ""
    assumptions: tuple[str, ...] = field(default=())

    def _repr_html_(self) -> str:
        facts = {"witness": self.witness, "by": self.method, "note": self.note, "assuming": "; ".join(self.assumptions)}
        return card(self.verdict, "", {name: value for name, value in facts.items() if value})

    def __bool__(self) -> bool:
        """True only when proved."""
        return self.verdict == "proved"


class Decider(Protocol):
    """What the language asks of a prover. Boxes give each axis or variable term its half-open range of integers."""

    def prove(self, claim: Term, box: Box, assuming: Term | None = None, /) -> Proof:
        """Is the bool term defined and true everywhere on the box where the assumption holds?"""
        ...

    def injective(self, outputs: Sequence[Term], box: Box, /) -> Proof:
        """Do different points of the box give different output tuples?"""
        ...

    def simplify(self, terms: Sequence[Term], box: Box, /) -> list[Term]:
        """Terms with the same values on the box and no more operations, as quick rules find them.

        Axes that the box leaves out range over their extents; it may give other index terms a range too.
        """
        ...

    def shortest(self, terms: Sequence[Term], box: Box, /) -> list[Term]:
        """The same with as few operations as can be found."""
        ...

    def map_injective(self, m: MapOnBox, /) -> Proof:
        """Do different points of a map's box have different cells?"""
        ...

    def map_bijective(self, m: MapOnBox, /) -> Proof:
        """Does every cell of the declared shape belong to exactly one point?"""
        ...

    def map_inverse(self, m: MapOnBox, /) -> MapInverse:
        """The inverse, checked; LayoutError where points share a cell, the given one is wrong, or none is found."""
        ...


_registry: list[Callable[[], Decider]] = []


def register_decider(make: Callable[[], Decider]) -> None:
    """Make this the prover that `ir` objects ask (the one registry of the language); built when first asked."""
    _registry[:] = [make]
    decider.cache_clear()


@lru_cache(maxsize=1)
def decider() -> Decider:
    """The registered prover."""
    return _registry[0]()
