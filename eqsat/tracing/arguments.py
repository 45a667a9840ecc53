"""The arguments and results of a traced function: arrays in their own memory, in tuples, lists and dicts.

Dense memory is an input as it is; any other array is a view of the memory under it, so that nothing is copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from eqsat.ir.dtypes import ELEMENTS, NDArray
from eqsat.ir.errors import TypeMismatch
from eqsat.ir.tensors.arrays.types import as_tensor
from eqsat.ir.tensors.tensor import Tensor, View, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import output_axes
from eqsat.ir.terms.term import Term


class ArraySpec(NamedTuple):
    """What a compiled variant depends on of an array: its shape, its type, and its strides where it is not dense."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None

    @property
    def memory(self) -> tuple[int, int]:
        """The number of elements of memory between the first and the last one, and the place of the first index."""
        assert self.strides is not None
        steps = [s * (d - 1) for s, d in zip(self.strides, self.shape, strict=True)]
        low = sum(s for s in steps if s < 0)
        return sum(abs(s) for s in steps) + 1, -low


def array_of(value: Any) -> NDArray | None:
    """The array that an argument is, in its own memory; None for what is no array."""
    if isinstance(value, (np.ma.MaskedArray, np.matrix)):
        kind, fix = type(cast(Any, value)).__name__, "x.filled(value), or np.asarray(x)"
        raise TypeMismatch(f"jit argument of {kind}", "what is special about it would be lost", fix)
    if isinstance(value, np.ndarray):
        return cast(NDArray, value)
    if isinstance(value, (bool, int, float, complex, str, np.generic)) or value is None:
        return None
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise TypeMismatch(
                f"jit argument of {type(value).__name__}", str(error), "pass one in host memory"
            ) from error
    try:
        return np.asarray(memoryview(value))
    except TypeError:
        return None


def spec_of(array: NDArray) -> tuple[ArraySpec, NDArray]:
    """The spec of an array, and the memory that a kernel takes for it: never a copy, but of what C cannot read."""
    shape, dtype, flags = array.shape, array.dtype, array.flags
    if flags.c_contiguous and flags.aligned and dtype.isnative:
        return ArraySpec(shape, dtype, None), array
    if dtype.name not in ELEMENTS:
        raise _unsupported(dtype)
    size = array.itemsize
    if not flags.aligned or not dtype.isnative or any(s % size for s in array.strides):
        native = dtype.newbyteorder("=")
        return ArraySpec(shape, native, None), np.array(array, dtype=native, order="C")
    spec = ArraySpec(shape, dtype, tuple(s // size for s in array.strides))
    cells, first = spec.memory
    corner = array[tuple(slice(-1, None) if s < 0 else slice(0, 1) for s in array.strides)]
    assert first >= 0
    return spec, np.lib.stride_tricks.as_strided(corner, (cells,), (size,), writeable=False)


def _unsupported(dtype: np.dtype[Any]) -> TypeMismatch:
    return TypeMismatch(f"jit argument of dtype {dtype}", "is not supported", f"one of {', '.join(ELEMENTS)}")


def input_for(name: str, spec: ArraySpec) -> tuple[Tensor, Tensor]:
    """The input that takes an array's memory, and the array as a tensor."""
    if spec.dtype.name not in ELEMENTS:
        raise _unsupported(spec.dtype)
    if spec.strides is None:
        x = input(name, spec.shape, spec.dtype)
        return x, x
    cells, first = spec.memory
    x = input(name, (cells,), spec.dtype)
    axes = output_axes(spec.shape)
    place = t.linear(first, [(s, i) for s, i in zip(spec.strides, axes, strict=True)])
    return x, Tensor(View(x, spec.shape, [place], t.TRUE, None))


@dataclass(frozen=True)
class _Scalar:
    """An argument that is no array: a part of the program. 1, 1.0 and True are not one argument, nor 0.0 and -0.0."""

    kind: type
    value: Any
    told: Any


def _told(value: Any) -> Any:
    """What else tells a value from one that it is equal to: the sign of a zero, the types of what a set holds."""
    if isinstance(value, (float, complex, np.inexact)):
        return repr(cast(Any, value))
    if isinstance(value, frozenset):
        return frozenset([(type(v).__name__, _told(v), v) for v in cast("frozenset[Any]", value)])
    return None


def abstract(value: Any, memory: list[NDArray]) -> Any:
    """An argument as a key: the spec of an array, tuples and dicts of such, or the value itself."""
    if type(value) is np.ndarray:
        spec, own = spec_of(value)
        memory.append(own)
        return spec
    kind: Any = cast(Any, type(value))
    if kind is tuple or kind is list or _is_named(kind):
        return (kind, tuple(abstract(v, memory) for v in cast("Sequence[Any]", value)))
    if kind is dict:
        pairs = cast("Mapping[Any, Any]", value).items()
        return (kind, tuple((k, abstract(v, memory)) for k, v in pairs))
    if kind is slice:
        return (kind, tuple(abstract(v, memory) for v in (value.start, value.stop, value.step)))
    if isinstance(value, (Tensor, Term)):
        raise TypeMismatch(
            f"jit argument {value!r}", "is a tensor, not an array", "call the function that jit was given"
        )
    array = array_of(value)
    if array is None:
        return _Scalar(kind, value, _told(value))
    spec, own = spec_of(array)
    memory.append(own)
    return spec


def concrete(key: Any, inputs: list[Tensor]) -> Any:
    """An argument of the trace: tensors for specs, each with an input of its own."""
    if isinstance(key, ArraySpec):
        x, seen = input_for(f"in{len(inputs)}", key)
        inputs.append(x)
        return seen
    if isinstance(key, _Scalar):
        return key.value
    kind, inside = key
    if kind is dict:
        return {k: concrete(v, inputs) for k, v in inside}
    items = [concrete(v, inputs) for v in inside]
    return kind(*items) if kind is slice or _is_named(kind) else kind(items)


def _is_named(kind: Any) -> bool:
    """Whether a type is one of those of `collections.namedtuple` and `typing.NamedTuple`."""
    return issubclass(kind, tuple) and {"_fields", "_make"} <= {*dir(cast(Any, kind))}


Tree = tuple[Any, Any]


def flat(value: Any, leaves: list[Tensor]) -> Tree:
    """The structure of a result; its tensors are put at the end of `leaves`."""
    if isinstance(value, (tuple, list)):
        items = [flat(v, leaves) for v in cast("Sequence[Any]", value)]
        kind = cast(Any, type(cast("object", value)))
        return (kind if _is_named(kind) else tuple if isinstance(value, tuple) else list, items)
    if isinstance(value, Mapping):
        return ("dict", {k: flat(v, leaves) for k, v in cast("Mapping[Any, Any]", value).items()})
    if value is None or isinstance(value, str):
        return ("plain", value)
    leaves.append(as_tensor(value, "result of a jit function"))
    return ("leaf", len(leaves) - 1)


def built(tree: Tree, leaves: Sequence[NDArray]) -> Any:
    """The structure with arrays in the places of its tensors."""
    kind = tree[0]
    inside: Any = tree[1]
    if kind == "leaf":
        return leaves[int(inside)]
    if kind == "plain":
        return inside
    if kind == "dict":
        return {k: built(v, leaves) for k, v in cast("Mapping[Any, Any]", inside).items()}
    items: list[Any] = [built(v, leaves) for v in inside]
    return kind(*items) if _is_named(kind) else kind(items)
