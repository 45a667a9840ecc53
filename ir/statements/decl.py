"""Declared buffers of statements: shape and type, how an index becomes an address, the layouts that were applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

from eqsat.ir.dtypes import INDEX, as_dtype, itemsize, split_vector
from eqsat.ir.errors import ShapeError, TypeMismatch
from eqsat.ir.given import listed, text, whole
from eqsat.ir.statements.structure import Structural
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, Shape, as_dim, format_shape, output_axes
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import map_loads, substitute, symbols

if TYPE_CHECKING:
    from eqsat.ir.layouts.buffer import Buffer
    from eqsat.ir.layouts.index_map import IndexMap
    from eqsat.ir.layouts.padding import PadStep


@dataclass(frozen=True, eq=False)
class Transform(Structural):
    """One step of a buffer's layout: the map that was applied to its logical shape, and the padding that it made.

    `predicate` says which cells this step added, `pad_value` what they hold; both are terms over `output_axes(shape)`
    of the buffer *as it is now*, so that later steps rewrite them. A pad value may load the buffer itself; a hole says
    that nothing is known, None that the cells must not be accessed.
    """

    index_map: IndexMap
    logical_shape: Shape
    predicate: Term = t.FALSE
    pad_value: Term | None = None


@dataclass(frozen=True, eq=False)
class BufferDecl(Structural):
    """A typed block of memory: one index per axis of `shape`, elements of `dtype`, perhaps vectors ("float32x4").

    `strides` and `elem_offset` count elements; without strides the memory is row-major. `axis_separators` are the
    positions of the first axis of each further physical axis, as in eq.Buffer. `note` tells readers what it holds.
    The array of a parameter has the declared shape; one with separators may also be given as its physical axes lie in
    memory: dense row-major, of `memory_shape`.

    >>> b = BufferDecl("b", (4, 4), "float32", strides=(8, 1), elem_offset=2)
    >>> b.size, b.memory_shape
    (16, (30,))
    """

    name: str
    shape: Shape
    dtype: str
    note: str = ""
    strides: Shape | None = None
    elem_offset: Dim = 0
    axis_separators: tuple[int, ...] = ()
    transforms: tuple[Transform, ...] = ()

    def __post_init__(self) -> None:
        # A lowered program has thousands of these; few are anything but numbers.
        if type(self.name) is not str or type(self.dtype) is not str:
            object.__setattr__(self, "name", text(self.name, "name of a buffer"))
            object.__setattr__(self, "dtype", _dtype(self.dtype))
        if any(type(n) is not int for n in self.shape):
            object.__setattr__(self, "shape", tuple(_dim(n) for n in self.shape))
        if self.strides is not None:
            strides = listed(self.strides, f"strides of buffer {self.name}", "one for each axis", ShapeError)
            object.__setattr__(self, "strides", tuple(_number(n) for n in strides))
        if type(self.elem_offset) is not int:
            object.__setattr__(self, "elem_offset", _number(self.elem_offset))
        if type(self.axis_separators) is not tuple or any(type(n) is not int for n in self.axis_separators):
            what = f"axis separators of buffer {self.name}"
            places = tuple(whole(n, what) for n in listed(self.axis_separators, what, "positions of axes", ShapeError))
            object.__setattr__(self, "axis_separators", places)

    @property
    def size(self) -> int:
        """The number of elements; ShapeError where the shape has symbols."""
        if any(isinstance(n, Term) for n in self.shape):
            raise ShapeError(f"size of {self}", "an extent is not a number", "give the symbols a value")
        return prod(n for n in self.shape if isinstance(n, int))

    @property
    def is_dense(self) -> bool:
        """Whether the elements lie in row-major order from the start of the memory."""
        return self.strides is None and self.elem_offset == 0 if isinstance(self.elem_offset, int) else False

    @property
    def scalar(self) -> str:
        """The type of one lane.

        >>> BufferDecl("v", (4,), "float32x4").scalar, BufferDecl("v", (4,), "float32x4").lanes
        ('float32', 4)
        """
        return split_vector(self.dtype)[0]

    @property
    def lanes(self) -> int:
        """The number of lanes of an element, 1 for scalars."""
        return split_vector(self.dtype)[1]

    @property
    def element_bytes(self) -> int:
        """Bytes of one element, all lanes counted."""
        return 8 if self.dtype == INDEX else itemsize(self.scalar) * self.lanes

    @property
    def memory_shape(self) -> Shape:
        """The extents of the memory, one for each physical axis, in elements from its start to the last one reached."""
        if self.is_dense:
            ends = (0, *self.axis_separators, len(self.shape))
            return tuple(
                as_dim(t.product([t.as_index(d) for d in self.shape[a:b]]) if b > a else 1) for a, b in pairwise(ends)
            )
        return self.as_buffer().flat_shape

    def extents(self, rank: int) -> Shape:
        """The extents that an array of `rank` axes shows, without the one for lanes: those of the physical axes where
        it has as many, else those that are declared.

        >>> b = BufferDecl("b", (3, 5, 7, 8), "int8", axis_separators=(2,))
        >>> b.extents(2), b.extents(4)
        ((15, 56), (3, 5, 7, 8))
        """
        axes = rank - (self.lanes > 1)
        separated = self.axis_separators and len(self.axis_separators) + 1 == axes != len(self.shape)
        return self.memory_shape if separated else self.shape

    @property
    def in_one_axis(self) -> BufferDecl:
        """The same memory as one physical axis, in which rows of the separated ones lie one after the other.

        >>> b = BufferDecl("b", (3, 4), "int8", strides=(2, 1), axis_separators=(1,))
        >>> b.memory_shape, b.in_one_axis.strides, b.in_one_axis.memory_shape
        ((5, 4), (8, 1), (20,))
        """
        if not self.axis_separators:
            return self
        steps: list[Dim] = []
        if self.strides is not None:
            ends, physical = (0, *self.axis_separators, len(self.shape)), self.memory_shape
            for n, (a, b) in enumerate(pairwise(ends)):
                row = t.product([t.as_index(d) for d in physical[n + 1 :]])
                steps += [_number(t.distributed(row, t.as_index(s))) for s in self.strides[a:b]]
        return replace(self, axis_separators=(), strides=None if self.strides is None else tuple(steps))

    def as_buffer(self) -> Buffer:
        """The eq.Buffer of this declaration: its padding loads that buffer.

        >>> BufferDecl("b", (2, 8), "int8", axis_separators=(1,)).as_buffer().flat_shape
        (2, 8)
        """
        from eqsat.ir.layouts.buffer import Buffer
        from eqsat.ir.layouts.padding import LayoutStep, Padding, PadStep

        dtype = "int64" if self.dtype == INDEX else self.dtype
        made = Buffer(self.name, self.shape, dtype, self.strides, self.elem_offset, self.axis_separators)

        def own(load: Term) -> Term:
            return t.make("load", load.args, made, load.dtype, load.lanes) if load.payload == self.name else load

        steps = [PadStep(s.where, None if s.value is None else map_loads(s.value, own)) for s in self.padding_steps]
        if steps:
            made.padding = Padding(output_axes(self.shape), tuple(steps))
        made.layouts = tuple(
            LayoutStep(s.index_map, s.logical_shape, s.predicate is not t.FALSE) for s in self.transforms
        )
        return made

    @property
    def padding_steps(self) -> tuple[PadStep, ...]:
        """Where the buffer is padding and what that holds, one step for each transform that pads, the first one first;
        terms over `output_axes(shape)`."""
        from eqsat.ir.layouts.padding import PadStep

        return tuple(PadStep(s.predicate, s.pad_value) for s in self.transforms if s.predicate is not t.FALSE)

    @staticmethod
    def from_buffer(buffer: Buffer, note: str = "") -> BufferDecl:
        """The declaration of an eq.Buffer, its layout transforms with it.

        >>> import eqsat as eq
        >>> b = eq.Buffer("b", (14,), "float32").transform_layout("i -> i//4, i%4", pad_value=0)
        >>> print(BufferDecl.from_buffer(b), BufferDecl.from_buffer(b).transforms[0].predicate)
        b: float32[4, 4] 14 <= 4*i0 + i1
        """
        axes = output_axes(buffer.shape)

        def named(term: Term) -> Term:
            return map_loads(term, own)

        def own(load: Term) -> Term:
            if load.payload is not buffer:
                return load
            return t.make("load", load.args, buffer.name, buffer.scalar, load.lanes)

        padded = list(() if buffer.padding is None else buffer.padding.steps)
        table = {} if buffer.padding is None else dict(zip(buffer.padding.indices, axes, strict=True))
        transforms: list[Transform] = []
        for index_map, shape, pads in buffer.layouts:
            step = padded.pop(0) if pads else None
            where = t.FALSE if step is None else substitute(step.where, table)
            value = None if step is None or step.value is None else named(substitute(step.value, table))
            transforms.append(Transform(index_map, shape, where, value))
        strides = None if buffer.strides is None else tuple(_number(s) for s in buffer.strides)
        return BufferDecl(
            buffer.name, buffer.shape, buffer.dtype, note, strides, _number(buffer.elem_offset),
            buffer.axis_separators, tuple(transforms),
        )  # fmt: skip

    def symbols(self) -> list[Term]:
        """The symbols of shape, strides and offset."""
        dims = (*self.shape, *(self.strides or ()), self.elem_offset)
        return symbols(*(d for d in dims if isinstance(d, Term)))

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{format_shape(self.shape)[1:-1].rstrip(',')}]"


def _dtype(value: Any) -> str:
    """The name of a data type; one of vectors, "float32x4", as it is."""
    try:
        return value if isinstance(value, str) else as_dtype(value)
    except TypeError as error:  # a list, or another thing without a hash
        raise TypeMismatch(f"dtype {value!r}", "not a data type", "such as 'float32'") from error


def _dim(value: Any) -> Dim:
    """An extent; negative numbers are refused where the function is checked, which names it."""
    return value if type(value) is int else as_dim(value)


def _number(value: Any) -> Dim:
    """A stride or an offset: an int where it is a number, else a term over symbols."""
    term = t.as_index(value)
    number = t.int_value(term)
    return as_dim(term) if number is None else number


def with_lanes(term: Term, declared: Mapping[str, BufferDecl]) -> Term:
    """A term whose loads of buffers of vectors, which a text does not tell from others, have as many lanes.

    >>> print(with_lanes(t.load("v", [0], "int8") < 1, {"v": BufferDecl("v", (4,), "int8x2")}).lanes)
    2
    """

    def whole(load: Term) -> Term:
        decl = declared.get(load.payload) if isinstance(load.payload, str) else None
        wide = decl is not None and decl.lanes > 1
        return t.make("load", load.args, load.payload, load.dtype, decl.lanes) if decl and wide else load

    return map_loads(term, whole)
