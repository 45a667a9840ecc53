"""Buffers: how a tensor lies in memory. Row-major flattening with strides, an offset and separators of physical axes;
aliases that must fit; and the types of accesses, vector ones included.

A vector index (a ramp) stands in the last dimension only, and only over scalar elements: the element type of an access
is the buffer's, its lanes are those of the index times those of the buffer.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from eqsat.ir.dtypes import INDEX, as_dtype, itemsize, split_vector
from eqsat.ir.errors import BoundsError, EqsatError, LayoutError, ShapeError, TypeMismatch
from eqsat.ir.keywords import keyword_methods
from eqsat.ir.layouts.buffer_index import as_ramp, fused
from eqsat.ir.ranges.bounds import bounds, fits_int32, overflowing
from eqsat.ir.ranges.map_bounds import at_least
from eqsat.ir.shown import card
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, as_dim, as_shape, format_shape
from eqsat.ir.terms.term import Term

if TYPE_CHECKING:
    from eqsat.ir.layouts.padding import LayoutStep, Padding

_numbers = itertools.count(1)


def split_lanes(dtype: Any) -> tuple[str, int]:
    """The scalar type and the lanes of a type name.

    >>> split_lanes("float32x4"), split_lanes("int8")
    (('float32', 4), ('int8', 1))
    """
    name, lanes = split_vector(dtype) if isinstance(dtype, str) else (dtype, 1)
    scalar = as_dtype(name)
    if scalar == INDEX:
        raise TypeMismatch(f"buffer of {dtype}", "index is not a data type", "use int64")
    return scalar, lanes


def join_lanes(scalar: str, lanes: int) -> str:
    """The type name of a vector; one lane is the scalar.

    >>> join_lanes("float32", 4), join_lanes("int8", 1)
    ('float32x4', 'int8')
    """
    return scalar if lanes == 1 else f"{scalar}x{lanes}"


def _integers(name: str, what: str, values: Any) -> tuple[Term, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ShapeError(f"buffer {name}", f"{what} {values!r} are not a sequence of integers")
    return tuple(t.as_index(v) for v in cast("Iterable[Any]", values))


@keyword_methods
class Buffer:
    """A named region of memory with a shape, an element type, and how an index becomes an address.

    >>> x = Buffer("x", (64, 128), "float32")
    >>> x.flat_shape, x.flat_index((10, 15))
    ((8192,), (1295,))
    >>> Buffer("t", (3, 5, 7, 8), "float32", axis_separators=(2,)).flat_shape
    (15, 56)
    >>> x[10, t.ramp(0, 1, 4)].dtype
    'float32x4'

    strides and elem_offset count elements of `dtype`. `axis_separators` are the positions of the first axis of each
    further physical axis. `data` is the buffer whose memory this one reads under another shape, type or offset; the
    offset counts from the start of that memory. `padding` marks the cells that a layout transform added.
    Raises ShapeError or LayoutError where these do not fit together, BoundsError where an alias leaves its memory.
    """

    __slots__ = (
        "__weakref__", "axis_separators", "data", "dtype", "elem_offset", "lanes", "layouts", "memory", "name",
        "padding", "scalar", "serial", "shape", "strides",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        shape: Any,
        dtype: Any,
        strides: Sequence[Any] | None = None,
        elem_offset: Any = 0,
        axis_separators: Sequence[int] = (),
        data: Buffer | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ShapeError("buffer", f"name {name!r} is not a non-empty string")
        if data is not None and not isinstance(data, Buffer):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeMismatch(f"buffer {name}", f"data {data!r} is not a buffer")
        self.name = name
        self.shape: Shape = as_shape(shape)
        self.scalar, self.lanes = split_lanes(dtype)
        self.dtype = join_lanes(self.scalar, self.lanes)
        self.strides: tuple[Term, ...] | None = None if strides is None else _integers(name, "strides", strides)
        self.elem_offset: Term = t.as_index(elem_offset)
        places = [t.int_value(n) for n in _integers(name, "axis separators", axis_separators)]
        self.axis_separators = tuple(-1 if n is None else n for n in places)
        self.data = data
        self.padding: Padding | None = None
        self.layouts: tuple[LayoutStep, ...] = ()  # the transforms that led here, the first one first
        self.memory: Shape | None = None  # what it may touch, where that is less than its indices reach
        self.serial = next(_numbers)
        self._check()

    def __copy__(self) -> Buffer:
        return self

    def __deepcopy__(self, memo: Any) -> Buffer:
        return self

    def __reduce__(self) -> Any:
        if self.padding is not None:
            raise EqsatError(f"pickling of {self!r}", "it is a transformed buffer", "transform the buffer again")
        parts = (self.name, self.shape, self.dtype, self.strides, self.elem_offset, self.axis_separators, self.data)
        return Buffer, parts

    def _check(self) -> None:
        rank = len(self.shape)
        if self.strides is not None and len(self.strides) != rank:
            raise ShapeError(f"buffer {self.name}", f"{len(self.strides)} strides for rank {rank}", "one per axis")
        for before, place in zip((0, *self.axis_separators), self.axis_separators, strict=False):
            if not before < place < rank:
                raise LayoutError(
                    f"buffer {self.name}",
                    f"axis separators {self.axis_separators} for rank {rank}",
                    "positions must increase, from 1 to rank - 1",
                )
        if self.axis_separators and self.elem_offset is not t.index_const(0):
            raise LayoutError(
                f"buffer {self.name}",
                f"elem_offset {self.elem_offset} with {len(self.axis_separators) + 1} physical axes",
                "an offset needs flat memory",
            )
        for low, _ in self._spans():
            if not at_least(low):
                raise BoundsError(
                    f"buffer {self.name}", f"its first address {low} may lie before its memory", "raise elem_offset"
                )
        if self.data is not None:
            self._check_alias(self.data.root)

    def _check_alias(self, root: Buffer) -> None:
        if root.axis_separators or self.axis_separators:
            need, have = self.flat_shape, root.flat_shape
            fits = len(need) == len(have) and all(
                at_least(t.as_index(h) - t.as_index(n)) for n, h in zip(need, have, strict=True)
            )
            if self.dtype != root.dtype or not fits:
                raise BoundsError(
                    f"buffer {self.name} in {root.name}",
                    f"{self.dtype}{format_shape(need)} does not lie in {root.dtype}{format_shape(have)}",
                    "memory of several physical axes is shared by buffers of the same type and as many physical axes",
                )
            return
        need, have = self.byte_size, root.byte_size
        if not at_least(have - need):
            problem = f"it needs {need} bytes, {root.name} has {have}"
            raise BoundsError(f"buffer {self.name} in {root.name}", problem, "a smaller shape or offset")

    # -- addresses ----------------------------------------------------------------------------------------------------

    @property
    def root(self) -> Buffer:
        """The buffer that owns the memory: itself, or that of `data`.

        >>> x = Buffer("x", (2, 8), "float32")
        >>> Buffer("v", (16,), "float32", data=x).root is x
        True
        """
        return self if self.data is None else self.data.root

    @property
    def source_key(self) -> str:
        """A name for the buffer that no other one of this process has."""
        return f"buffer {self.serial}"

    @property
    def rank(self) -> int:
        """The number of logical axes."""
        return len(self.shape)

    def _groups(self) -> list[range]:
        ends = (*self.axis_separators, self.rank)
        return [range(a, b) for a, b in zip((0, *self.axis_separators), ends, strict=True)]

    def _steps(self, group: range) -> list[Term]:
        """The stride of every axis within its physical axis."""
        if self.strides is not None:
            return [self.strides[n] for n in group]
        steps: list[Term] = []
        step = t.index_const(1)
        for n in reversed(group):
            steps.insert(0, step)
            step = t.distributed(step, t.as_index(self.shape[n]))
        return steps

    def _spans(self) -> list[tuple[Term, Term]]:
        """The first and one past the last address of every physical axis; equal where there is no element."""
        result: list[tuple[Term, Term]] = []
        for group in self._groups():
            low = high = self.elem_offset
            empty = False
            for n, step in zip(group, self._steps(group), strict=True):
                extent = self.shape[n]
                empty = empty or (isinstance(extent, int) and extent == 0)
                reach = t.distributed(step, t.as_index(extent) - 1)
                low, high = (low, high + reach) if at_least(step) else (low + reach, high)
            result.append((self.elem_offset, self.elem_offset) if empty else (low, high + 1))
        return result

    @property
    def flat_shape(self) -> Shape:
        """The shape of the memory from its first element on, in elements: one extent per physical axis.

        With strides or an offset it ends at the last element that an index reaches.

        >>> Buffer("x", (2, 8), "float32").flat_shape, Buffer("y", (2, 8), "float32", strides=(16, 1)).flat_shape
        ((16,), (24,))
        """
        if self.memory is not None:
            return self.memory
        return tuple(as_dim(high) for _, high in self._spans())

    def flat_index(self, index: Any) -> tuple[Any, ...]:
        """The physical index of an index: numbers for numbers, else terms; a ramp stays a ramp.

        >>> Buffer("a", (4, 4), "float32", strides=(8, 1), elem_offset=2).flat_index((3, 3))
        (29,)
        """
        return self.address(self._indices(index))

    def address(self, terms: Sequence[Term]) -> tuple[Any, ...]:
        """The physical index of an index that nobody checks: one that is out of range has an address, too.

        >>> Buffer("a", (4, 4), "float32").address((t.index_const(9), t.index_const(0)))
        (36,)
        """
        result: list[Any] = []
        for group in self._groups():
            total = self.elem_offset
            vector: Term | None = None
            scalars: list[tuple[Term, Term]] = []
            for n, step in zip(group, self._steps(group), strict=True):
                if terms[n].op == "ramp":
                    base, stride = terms[n].args
                    vector = t.ramp(base, stride * step, terms[n].payload)
                    scalars.append((step, base))
                else:
                    scalars.append((step, terms[n]))
            for step, node in fused(scalars):
                total = total + node * step
            number = t.int_value(total)
            if vector is not None:
                result.append(t.ramp(total, vector.args[1], vector.payload))
            else:
                result.append(total if number is None else number)
        return tuple(result)

    def index_dtype(self, index: Any = None) -> str:
        """The integer type in which an address, and every part of its computation, is exact: int32 or int64.

        >>> Buffer("a", (65536, 65536), "int8").index_dtype(), Buffer("a", (64, 128), "int8").index_dtype()
        ('int64', 'int32')

        index: an access; without one, any element. Raises BoundsError, naming the part, where int64 is too narrow.
        """
        at = index
        if at is None:
            at = tuple(t.var(f"i{n}", extent) for n, extent in enumerate(self.shape))
        flat = [t.as_index(p) for p in self.flat_index(at)]
        if all(fits_int32(p) for p in flat):
            return "int32"
        for p in flat:
            part = overflowing(p, bits=64)
            if part is not None:
                fix = "give symbols an upper bound, or split the buffer"
                raise BoundsError(f"address {p} in buffer {self.name}", f"{part} may leave int64", fix)
        return "int64"

    def byte_offset(self, index: Any) -> Any:
        """The address of an element in bytes from the start of flat memory: its index times the size of an element.

        >>> Buffer("v", (16,), "float32x4").byte_offset(3)
        48
        """
        flat = self.flat_index(index)
        if len(flat) != 1:
            raise ShapeError(f"address in buffer {self.name}", f"it has {len(flat)} physical axes", "use flat_index")
        return flat[0] * self.element_bytes

    @property
    def element_bytes(self) -> int:
        """Bytes of one element, all lanes counted."""
        return itemsize(self.scalar) * self.lanes

    @property
    def byte_size(self) -> Term:
        """Bytes from the start of the memory to the end of the last element.

        >>> Buffer("x", (2, 8), "float32").byte_size
        64
        """
        return t.product([t.index_const(self.element_bytes), *(t.as_index(d) for d in self.flat_shape)])

    # -- flattening ---------------------------------------------------------------------------------------------------

    @property
    def is_flat(self) -> bool:
        """Whether every axis is a physical axis of its own, without strides or offset.

        >>> Buffer("x", (16,), "int8").is_flat, Buffer("y", (2, 8), "int8").is_flat
        (True, False)
        """
        plain = self.strides is None and self.elem_offset is t.index_const(0)
        return plain and self.rank == len(self.axis_separators) + 1

    def flatten(self) -> Buffer:
        """The same memory with one axis per physical axis; a flat buffer is returned as it is.

        >>> b = Buffer("t", (3, 5, 7, 8), "float32", axis_separators=(2,)).flatten()
        >>> b.shape, b.axis_separators, b.flatten() is b
        ((15, 56), (1,), True)
        """
        if self.is_flat:
            return self
        shape = self.flat_shape
        return Buffer(f"{self.name}_flat", shape, self.dtype, axis_separators=range(1, len(shape)), data=self)

    def transform_layout(self, index_map: Any, pad_value: Any = None) -> Buffer:
        """The buffer that replaces this one in the physical layout of an index map; see `buffer_layout`.

        `pad_value` is what the cells hold that the map adds. Raises LayoutError where the map does not fit the shape.

        >>> Buffer("x", (2, 6), "float32").transform_layout("n, c -> n, c//4, c%4", pad_value=0).shape
        (2, 2, 4)
        """
        from eqsat.ir.layouts.buffer_layout import transform_buffer

        return transform_buffer(self, index_map, pad_value)

    def view_layout(self, index_map: Any) -> Buffer:
        """This buffer's own memory seen through a layout that keeps its order; see `buffer_layout`.

        Raises LayoutError where elements would have to move.

        >>> Buffer("x", (2, 8), "float32").view_layout("n, c -> n, c//4, c%4").shape
        (2, 2, 4)
        """
        from eqsat.ir.layouts.buffer_layout import view_buffer

        return view_buffer(self, index_map)

    # -- accesses -----------------------------------------------------------------------------------------------------

    def _indices(self, index: Any) -> list[Term]:
        items: list[Any] = list(cast("Sequence[Any]", index)) if isinstance(index, (tuple, list)) else [index]
        if len(items) != self.rank:
            at = ", ".join(map(str, items))
            raise ShapeError(
                f"access of {self.name}[{at}]", f"{len(items)} indices for rank {self.rank}", "one per axis"
            )
        terms = [as_ramp(t.as_index(i)) for i in items]
        for n, node in enumerate(terms):
            self._check_bounds(n, node, terms)
            if node.lanes == 1:
                continue
            if n != self.rank - 1:
                raise TypeMismatch(
                    f"access of {self.name}", f"index {n} is a vector", "a vector index stands in the last dimension"
                )
            if self.lanes > 1:
                raise TypeMismatch(
                    f"access of {self.name}",
                    f"a vector index over elements of {self.dtype}",
                    "index with a number, or declare a scalar alias",
                )
        if self.padding is not None:
            self._check_padding(self.padding, terms)
        return terms

    def _check_padding(self, padding: Padding, terms: Sequence[Term]) -> None:
        """Refuse an access, one lane of which is always padding without a value."""
        cells = [tuple(terms)]
        if terms and terms[-1].op == "ramp":
            base, stride = terms[-1].args
            cells = [(*terms[:-1], base + stride * k) for k in range(terms[-1].payload)]
        for cell in cells:
            if bounds(padding.at(cell, forbidden=True)) == (1, 1):
                at = f"{self.name}[{', '.join(map(str, cell))}]"
                fix = "give the layout a pad_value, or guard the access"
                raise BoundsError(f"access of {at}", "the cell is padding that has no value", fix)

    def _check_bounds(self, n: int, node: Term, terms: Sequence[Term]) -> None:
        """Refuse an index that is outside for every value of its variables; others depend on the guards around."""
        extent = t.as_index(self.shape[n])
        if extent is t.index_const(0) and node.op != "const":
            return
        ends = [node]
        if node.op == "ramp":
            base, stride = node.args
            ends = [base, base + stride * (node.payload - 1)]
        for end in ends:
            beyond, below = bounds(end - extent)[0], bounds(end)[1]
            if (beyond is not None and beyond >= 0) or (below is not None and below < 0):
                problem = f"index {n} is {node}, outside of 0..{extent - 1}"
                raise BoundsError(f"access of {self.name}[{', '.join(map(str, terms))}]", problem, "stay in the shape")

    def access_dtype(self, index: Any) -> str:
        """The type of an access: the lanes of the index times those of the buffer.

        >>> Buffer("x", (64,), "float32").access_dtype((t.ramp(0, 1, 4),))
        'float32x4'
        """
        lanes = max((i.lanes for i in self._indices(index)), default=1)
        return join_lanes(self.scalar, lanes * self.lanes)

    def __getitem__(self, index: Any) -> Term:
        """The load of an element, or of a vector of elements."""
        terms = self._indices(index)
        lanes = max((i.lanes for i in terms), default=1) * self.lanes
        return t.make("load", terms, self, join_lanes(self.scalar, lanes), lanes)

    def check_store(self, index: Any, value: Any) -> None:
        """Refuse a value whose type or lanes are not those of the access, with TypeMismatch.

        >>> Buffer("x", (64,), "float32").check_store((0,), t.const(1.5, "float32"))
        """
        wanted = self.access_dtype(index)
        if not isinstance(value, Term):
            raise TypeMismatch(
                f"store to {self.name}", f"the value {value!r} is no term", f"eq.const(value, {self.scalar!r})"
            )
        known = value.lanes == 1 or split_vector(value.dtype)[1] > 1
        found = value.dtype if known else join_lanes(value.dtype, value.lanes)
        if found != wanted:
            raise TypeMismatch(f"store to {self.name}", f"the value {value} is {found}, the access is {wanted}")

    def __len__(self) -> int:
        raise ShapeError(f"len of {self.name}", "a buffer is not a sequence", "use .shape")

    def __repr__(self) -> str:
        return f"<buffer {self.name} {self.dtype}{format_shape(self.shape)}>"

    def _repr_html_(self) -> str:
        facts = {"strides": self.strides, "offset": self.elem_offset, "axis separators": self.axis_separators}
        known = {name: value for name, value in facts.items() if str(value) not in ("None", "()", "0")}
        flat = {"flat shape": format_shape(self.flat_shape)} if self.strides is None else {}
        return card(repr(self)[1:-1], "", {**known, **flat})
