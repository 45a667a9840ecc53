"""An index map on a shape, as the language asks a solver about it, and the inverse that a solver answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from eqsat.ir.cached import cached_property
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name
from eqsat.ir.terms.walk import symbols


@dataclass(frozen=True, eq=False)
class MapOnBox:
    """An index map on a shape, as it is asked about: variables, extents, and the declared extents of its outputs.

    `physical` are variables for the outputs; `given`: the inputs over them, where a user says what the inverse is.
    """

    title: Callable[[], str]
    inputs: tuple[Term, ...]
    extents: tuple[int | Term, ...]
    outputs: tuple[Term, ...]
    physical: tuple[Term, ...]
    declared: tuple[int | Term, ...]
    given: tuple[Term, ...] | None = None

    @cached_property
    def what(self) -> str:
        """The map and its box, for messages."""
        return self.title()

    @property
    def plain(self) -> dict[Term, Term]:
        """The variables for outputs that carry an extent, with the same ones without."""
        return {p: t.var(leaf_name(p)) for p in self.physical if p.args}

    @cached_property
    def numbers(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The extents and the declared extents, or None where a size is symbolic."""
        extents = tuple([e for e in self.extents if isinstance(e, int)])
        declared = tuple([e for e in self.declared if isinstance(e, int)])
        if (len(extents), len(declared)) != (len(self.extents), len(self.declared)) or symbols(*self.outputs):
            return None
        return extents, declared

    @property
    def box(self) -> dict[Term, tuple[int, int]]:
        """The half-open ranges of the inputs that are numbers."""
        return {v: (0, e) for v, e in zip(self.inputs, self.extents, strict=True) if isinstance(e, int)}

    @property
    def cells(self) -> dict[Term, tuple[int, int]]:
        """The half-open ranges of the variables for the outputs that are numbers."""
        return {p: (0, e) for p, e in zip(self.physical, self.declared, strict=True) if isinstance(e, int)}


class MapInverse(Protocol):
    """The inverse of a map: its inputs as terms over the physical variables, and where no input reaches."""

    @property
    def values(self) -> tuple[Term, ...]:
        """The inputs, in order; they mean something outside of the padding only."""
        ...

    @property
    def padding(self) -> Term:
        """A predicate that holds exactly at the cells that no input reaches."""
        ...

    @property
    def first_padding(self) -> tuple[int, ...] | None:
        """The first such cell; None without padding, where sizes are symbolic, or where it is not known."""
        ...
