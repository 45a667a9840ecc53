"""Memory at run time: what buffers and their aliases see of it, and, where it is tracked, which bytes hold a value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import Any, cast

import numpy as np

from eqsat.ir.dtypes import INDEX, NDArray, as_dtype
from eqsat.ir.errors import EvaluationError
from eqsat.ir.statements.apart import is_apart, shared_cells
from eqsat.ir.statements.sizes import Sizes, number, numbers
from eqsat.ir.statements.stmt import BufferDecl
from eqsat.ir.terms.evaluate import evaluate_masked, poison
from eqsat.ir.terms.shape import output_axes
from eqsat.ir.terms.term import Term

MOST_ELEMENTS = 1 << 58
"""Of 16 bytes each, more than numpy can count."""

KNOWN, FREED, UNKNOWN, GIVEN = 0, 1, 2, 3
"""What is known of a byte: its value; nothing, since a hole was stored; nothing, since it was computed from what has no
value or was never written; nothing, since it is padding of a parameter that says so."""

Place = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Allocation:
    """A declared buffer at run time: numbers for its shape, and its cells in memory, one axis per physical axis.

    `cells` has a last axis for the lanes of vectors. `state` has the shape of the cells and an axis for the bytes of
    one lane; it is empty where nothing is tracked.
    """

    decl: BufferDecl
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    raw: NDArray
    raw_state: NDArray
    raw_forbidden: NDArray
    cells: NDArray
    state: NDArray
    forbidden: NDArray

    def place(self, index: Sequence[int]) -> Place | None:
        """Where an index lies among the cells; None where it is out of range."""
        at = self.offset
        for i, n, step in zip(index, self.shape, self.strides, strict=True):
            if not 0 <= i < n:
                return None
            at += i * step
        if not self.decl.axis_separators:
            return (at,)
        ends = (0, *self.decl.axis_separators, len(self.shape))
        steps = [i * s for i, s in zip(index, self.strides, strict=True)]
        return tuple(self.offset + sum(steps[a:b]) for a, b in pairwise(ends))

    def indices(self) -> Iterator[tuple[int, ...]]:
        """Every index, in row-major order."""
        return product(*map(range, self.shape))

    @property
    def tracked(self) -> bool:
        """Whether the state of the cells is known."""
        return self.raw_state.size == self.raw.size


def numpy_dtype(dtype: str) -> str:
    """The numpy type of a scalar type; indices are int64."""
    return "int64" if dtype == INDEX else as_dtype(dtype)


def region(
    decl: BufferDecl, sizes: Sizes, raw: NDArray, state: NDArray, forbidden: NDArray, skip: int = 0
) -> Allocation:
    """What a declaration sees of bytes, from its element `skip` on."""
    shape = numbers(decl.shape, sizes)
    physical = numbers(decl.memory_shape, sizes)
    width = decl.element_bytes
    low, high = skip * width, (skip + prod(physical)) * width
    if low < 0 or high > raw.size:
        problem = f"needs bytes {low} to {high}, the memory has {raw.size}"
        raise EvaluationError(f"buffer {decl}", problem, "declare a smaller shape or offset")
    lanes = (decl.lanes,) if decl.lanes > 1 else ()
    grid = (*physical, *lanes, width // decl.lanes)
    raw = raw[low:high]
    state = state[low:high]
    forbidden = forbidden[low:high]
    dtype = numpy_dtype(decl.scalar)
    cells = raw.view(dtype).reshape(*physical, *lanes)
    ends = state.size == raw.size
    marks = [x.reshape(grid) if ends else x for x in (state, forbidden)]
    return Allocation(
        decl, shape, _strides(decl, shape, sizes), number(decl.elem_offset, sizes), raw, state, forbidden, cells, *marks
    )


def _strides(decl: BufferDecl, shape: Sequence[int], sizes: Sizes) -> tuple[int, ...]:
    if decl.strides is not None:
        return numbers(decl.strides, sizes)
    steps: list[int] = []
    step = 1
    for n in reversed(range(len(shape))):
        steps.insert(0, step)
        step = 1 if n in decl.axis_separators else step * shape[n]
    return tuple(steps)


def elements(decl: BufferDecl, sizes: Sizes) -> int:
    """The elements, lanes included, of the memory of a buffer from its start on; EvaluationError for too many."""
    found = prod(numbers(decl.memory_shape, sizes)) * decl.lanes
    if found > MOST_ELEMENTS:
        raise EvaluationError(f"buffer {decl.name}", f"{found} elements are more than any memory has")
    return found


def fresh(decl: BufferDecl, sizes: Sizes, track: bool) -> Allocation:
    """New memory, which holds nothing of use."""
    dtype = numpy_dtype(decl.scalar)
    raw = np.full(elements(decl, sizes), poison(dtype), dtype).view(np.uint8)
    size = raw.size if track else 0
    return region(decl, sizes, raw, np.full(size, UNKNOWN, np.uint8), np.zeros(size, np.uint8))


def argument(decl: BufferDecl, sizes: Sizes, array: NDArray | None, what: str, track: bool) -> Allocation:
    """The memory of a parameter: the array's own, after its type, shape, strides and offset were checked."""
    raw = _bytes_of(decl, sizes, array, what)
    size = raw.size if track else 0
    return region(decl, sizes, raw, np.full(size, KNOWN, np.uint8), np.zeros(size, np.uint8))


def check_apart(decl: BufferDecl, sizes: Sizes, what: str) -> None:
    """Refuse strides of a parameter that is written which lead to one element twice."""
    decl = decl.in_one_axis
    if decl.strides is None or is_apart(decl):
        return
    cells = shared_cells(_strides(decl, (), sizes), numbers(decl.shape, sizes))
    if cells is not None:
        both = " and ".join(f"{decl.name}[{', '.join(map(str, cell))}]" for cell in cells)
        raise EvaluationError(what, f"{decl.name} is written, and {both} are one element", "pass other strides")


def _bytes_of(decl: BufferDecl, sizes: Sizes, array: NDArray | None, what: str) -> NDArray:
    """The bytes that a parameter may touch, from the start of its memory on."""
    dtype, name = numpy_dtype(decl.scalar), decl.name
    shape, physical = array_shapes(decl, sizes)
    if array is None or array.shape not in (shape, physical) or array.dtype.name != dtype:
        got = "nothing" if array is None else f"{array.dtype.name}{array.shape}"
        axes = f", or {dtype}{physical} with its physical axes" if physical != shape else ""
        raise EvaluationError(what, f"{name} is {got}, expected {dtype}{shape}{axes}")
    if decl.is_dense or (array.shape == physical != shape):
        if not array.flags.c_contiguous:
            raise EvaluationError(what, f"{name} is not dense row-major memory", "pass a copy")
        return array.reshape(-1).view(np.uint8)
    root = owner(array)
    if not root.flags.c_contiguous:
        raise EvaluationError(what, f"{name} is a view of memory that is not dense", "make a view of a dense array")
    steps = _strides(decl.in_one_axis, numbers(decl.shape, sizes), sizes)
    unit = decl.element_bytes
    got = [s // unit for s in array.strides[: len(steps)]]
    wrong = [n for n, (a, b) in enumerate(zip(got, steps, strict=True)) if a != b and array.shape[n] > 1]
    if (wrong or any(s % unit for s in array.strides[: len(steps)])) and array.size:
        raise EvaluationError(what, f"{name} has strides {tuple(got)} in elements, expected {steps}")
    start = array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    offset = number(decl.elem_offset, sizes)
    if array.size and start != offset * unit:
        problem = f"{name} begins {start} bytes behind the start of its memory, expected {offset} elements of {unit}"
        raise EvaluationError(what, problem, "make the view begin there")
    need = prod(numbers(decl.memory_shape, sizes)) * unit
    return root.reshape(-1).view(np.uint8)[:need] if array.size else np.zeros(need, np.uint8)


def array_shapes(decl: BufferDecl, sizes: Sizes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape that the array of a parameter has, and the one that it may have where there are axis separators: that
    of its physical axes. The last axis is that of lanes.

    >>> array_shapes(BufferDecl("b", (3, 5, 7), "int8x4", axis_separators=(2,)), {})
    ((3, 5, 7, 4), (15, 7, 4))
    """
    lanes = (decl.lanes,) if decl.lanes > 1 else ()
    shape = (*numbers(decl.shape, sizes), *lanes)
    return shape, (*numbers(decl.memory_shape, sizes), *lanes) if decl.axis_separators else shape


def declared_view(decl: BufferDecl, sizes: Sizes, array: NDArray) -> NDArray:
    """The elements of a parameter's array by the axes that are declared: the array, or a view of its physical axes."""
    shape, physical = array_shapes(decl, sizes)
    if array.shape == shape or array.shape != physical or not array.flags.c_contiguous:
        return array
    return laid(decl, sizes, array.reshape(-1))


def laid(decl: BufferDecl, sizes: Sizes, memory: NDArray) -> NDArray:
    """The elements of a parameter in its memory, which is given from its start on: a view with strides and offset.

    >>> laid(BufferDecl("x", (2, 2), "int8", strides=(1, 2), elem_offset=1), {}, np.arange(5))
    array([[1, 3],
           [2, 4]])
    """
    shape = array_shapes(decl, sizes)[0]
    if decl.is_dense or not all(shape):
        return memory[: prod(shape)].reshape(shape)
    width = memory.dtype.itemsize
    steps = [s * width * decl.lanes for s in _strides(decl.in_one_axis, numbers(decl.shape, sizes), sizes)]
    start = number(decl.elem_offset, sizes) * width * decl.lanes
    return np.ndarray(shape, memory.dtype, memory, start, [*steps, *([width] if decl.lanes > 1 else [])])


def owner(array: NDArray) -> NDArray:
    """The array whose memory a view shows.

    >>> memory = np.zeros(8, "int8")
    >>> owner(memory[1:][::2]) is memory, owner(np.lib.stride_tricks.as_strided(memory, (2, 2), (4, 1))) is memory
    (True, True)
    """
    root: Any = array
    while root.base is not None:
        base = root.base
        if not isinstance(base, np.ndarray):
            base = getattr(base, "base", None)  # of what as_strided puts between
        if not isinstance(base, np.ndarray):
            break
        root = cast(Any, base)
    return root


def mark_padding(found: Allocation, sizes: Sizes) -> Allocation:
    """The region, its padding marked: forbidden where it has no value, unknown where that is a hole."""
    steps = found.decl.padding_steps
    if not steps or not found.tracked:
        return found
    axes = output_axes(found.decl.shape)
    known: dict[Term, NDArray] = {s: np.asarray(n) for s, n in sizes.items()}
    for index in found.indices():
        at = found.place(index)
        assert at is not None
        env = known | {a: np.asarray(i) for a, i in zip(axes, index, strict=True)}
        for step in steps:
            if not bool(evaluate_masked([step.where], env)[0][0]):
                continue
            if step.value is None:
                found.forbidden[at] = 1
            elif step.value.op == "hole":
                found.state[at] = GIVEN
            break
    return found
