"""What the tensor e-graph knows by number only: maps with fills, operators in normal form, forms, and values.

Equal things have one number, in tables that the search and the extraction after it share (`Interned`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from eqsat.ir.flat.map import identity
from eqsat.ir.flat.sizes import Size
from eqsat.ir.flat.table import Map
from eqsat.ir.terms.term import Term
from eqsat.operators.definitions import Definition
from eqsat.operators.labels import CanonicalOp, Label, Order

T = TypeVar("T", bound=Hashable)


class Interner(Generic[T]):
    """Numbers for hashable things, in order of first appearance."""

    def __init__(self) -> None:
        self.items: list[T] = []
        self._numbers: dict[T, int] = {}

    def number(self, item: T) -> int:
        found = self._numbers.get(item)
        if found is None:
            found = self._numbers[item] = len(self.items)
            self.items.append(item)
        return found

    def __getitem__(self, number: int) -> T:
        return self.items[number]

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True)
class Reindex:
    """A View of a flat buffer: its map, the constant in its padded cells (None: it pads nothing), the dtype."""

    map: Map
    fill: Term | None
    dtype: str

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Reindex)
            and self.fill is other.fill
            and self.dtype == other.dtype
            and self.map == other.map
        )

    def __hash__(self) -> int:
        return hash(
            (self.map, self.fill, self.dtype) if self.fill is None else (self.map, self.fill.serial, self.dtype)
        )


@dataclass(frozen=True)
class Form:
    """An operator as a target can spell it: the layout of every operand and output over the normal form's.

    These layouts say all that the form computes, so they are its identity. The labels (possibly finer than the normal
    form's) and their orders are one way to write it down.
    """

    operator: int
    labels: tuple[Label, ...] = field(compare=False)
    operands: tuple[Order, ...] = field(compare=False)
    outputs: tuple[Order, ...] = field(compare=False)
    operand_maps: tuple[int, ...]
    output_maps: tuple[int, ...]


@dataclass(frozen=True)
class Leaf:
    """An input, a constant, or a value that only the input program defines."""

    name: str


@dataclass(frozen=True)
class ViewOf:
    """A non-bijective view of a value, or a cut: a layout that no operator absorbs."""

    base: int
    reindex: int


@dataclass(frozen=True)
class Hub:
    """Output number `output` of an operator in normal form over values: where all forms of the operator meet."""

    operator: int
    output: int
    operands: tuple[int, ...]


Value = Leaf | ViewOf | Hub


@dataclass(frozen=True)
class ValueType:
    """The flat size and dtype of a value."""

    size: Size
    dtype: str


@dataclass
class Interned:
    """The tables of one search: all that its e-graph has numbers of."""

    reindexes: Interner[Reindex] = field(default_factory=Interner[Reindex])
    operators: Interner[CanonicalOp] = field(default_factory=Interner[CanonicalOp])
    forms: Interner[Form] = field(default_factory=Interner[Form])
    values: Interner[Value] = field(default_factory=Interner[Value])
    types: dict[int, ValueType] = field(default_factory=dict[int, ValueType])
    constants: dict[int, Term] = field(default_factory=dict[int, Term])
    finite: set[int] = field(default_factory=set[int])
    """The values that are known numbers, of which none is NaN or infinite."""
    definitions: dict[int, Definition] = field(default_factory=dict[int, Definition])
    """What operators without a formula are defined as, where that is known."""
    symbols: list[tuple[Term, ...]] = field(default_factory=list[tuple[Term, ...]])
    """The symbols of values and of all that these are made of, by their numbers, as far as they were asked for."""
    pad_values: tuple[float, ...] = ()
    """Numbers of a user to try as padding of operands."""

    def reindex(self, m: Map, fill: Term | None, dtype: str) -> int:
        """The number of a view; a fill that no cell shows is dropped."""
        return self.reindexes.number(Reindex(m, None if m.is_total else fill, dtype))

    def identity(self, size: Size, dtype: str) -> int:
        return self.reindex(identity(size), None, dtype)

    def value(self, value: Value, typed: ValueType) -> int:
        number = self.values.number(value)
        self.types[number] = typed
        return number

    def scalar(self, number: int) -> Term | None:
        """The constant that a value holds in every cell, if it is known to."""
        return self.constants.get(number)
