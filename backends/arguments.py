"""The arguments of a kernel call: all that can be wrong with arrays is found before any memory is touched.

A call takes its inputs by name, and writes to new arrays or to those given as `out`. Errors: EvaluationError, which
names the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from eqsat.backends.interface import HostCall, Interface
from eqsat.backends.machine import LINE
from eqsat.ir.dtypes import NDArray, name_of
from eqsat.ir.errors import EvaluationError
from eqsat.ir.keywords import inputs_problem
from eqsat.ir.tensors.run import given_array
from eqsat.ir.tensors.tensor import OperatorImpl

LARGE = 64 << 10
"""Bytes of a result from which on it begins at a cache line."""


def named_arguments(names: Sequence[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, NDArray]:
    """The input arrays by name, from the arguments of `k(x=array)` or `k({"x": array})`; all of `names`, no others.

    >>> sorted(named_arguments(["x"], (), {"x": [1, 2]}))
    ['x']
    """
    if len(args) > 1 or (args and kwargs) or (args and not isinstance(args[0], Mapping)):
        raise EvaluationError("kernel call", "takes arrays by name, or one dict of them", f"inputs: {', '.join(names)}")
    given = cast("Mapping[str, Any]", args[0]) if args else kwargs
    problem = inputs_problem(names, given)
    if problem:
        fix = "an input named 'out' is passed in a dict" if "out" in names and "out" not in given else ""
        raise EvaluationError("kernel call", problem, fix)
    return {n: given_array(n, given[n]) for n in names}


def readable(name: str, array: NDArray, shape: tuple[int, ...], dtype: str) -> NDArray:
    """An input as dense row-major memory in the byte order of the machine: itself where it is that, else a copy."""
    if name_of(array.dtype) != dtype or array.shape != shape:
        got = f"{array.dtype.name}{array.shape}"
        raise EvaluationError(f"input {name!r}", f"got {got}, expected {dtype}{shape}")
    if array.dtype.isnative and is_dense(array):
        return array
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C")


def is_dense(array: NDArray) -> bool:
    """Whether a kernel may use an array where it lies: row-major, and at a multiple of its elements' size.

    >>> numbers = np.zeros(5, "float32")
    >>> is_dense(numbers[1:]), numbers[1:].view("complex64").flags.aligned, is_dense(numbers[1:].view("complex64"))
    (True, True, False)
    """
    return array.flags.c_contiguous and array.ctypes.data % array.itemsize == 0


def check_output(name: str, out: Any, shape: tuple[int, ...], dtype: str, others: Mapping[str, NDArray]) -> NDArray:
    """Refuse an `out` array that does not fit, cannot be written, or shares memory with itself or another argument."""
    what = f"out {name!r}"
    if not isinstance(out, np.ndarray):
        raise EvaluationError(what, f"is {type(out).__name__}, not a numpy array")
    array = cast(NDArray, out)
    if name_of(array.dtype) != dtype or array.shape != shape or not array.dtype.isnative:
        raise EvaluationError(what, f"is {array.dtype}{array.shape}, expected {dtype}{shape}")
    if not array.flags.writeable:
        raise EvaluationError(what, "is read-only")
    if overlaps_itself(array):
        raise EvaluationError(what, "has elements that share memory", "pass an array with a cell for each element")
    for other, memory in others.items():
        if share_memory(array, memory):
            raise EvaluationError(what, f"shares memory with {other!r}", "pass a separate array")
    return array


EFFORT: Any = 10_000
"""Steps of the search for an element of two strided arrays at one place; beyond them they count as sharing it."""


def share_memory(a: NDArray, b: NDArray) -> bool:
    """Whether two arrays have an element at the same place, as far as can be told; planes of one array have none."""
    if not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, max_work=EFFORT)
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(array: NDArray) -> bool:
    """Whether elements of an array may share memory: each stride must step over all that shorter ones reach.

    >>> a = np.zeros((3, 4), "int16")
    >>> overlaps_itself(a.T[::-1, ::2]), overlaps_itself(np.broadcast_to(a[0], (3, 4)))
    (False, True)
    """
    reached = array.itemsize
    for stride, extent in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if stride < reached:
            return array.size > 0
        reached += stride * (extent - 1)
    return False


def dense_outputs(
    call: Callable[[Mapping[str, NDArray]], Callable[[], None]], outputs: Mapping[str, NDArray]
) -> Callable[[], None]:
    """The call that `call` makes of dense arrays, for any arrays: those that are strided are filled from dense ones."""
    dense: dict[str, NDArray] = {}
    for name, array in outputs.items():
        dense[name] = array if is_dense(array) else np.empty(array.shape, array.dtype)
    run, strided = call(dense), [n for n in outputs if dense[n] is not outputs[n]]
    if not strided:
        return run

    def through() -> None:
        run()
        for name in strided:
            np.copyto(outputs[name], dense[name])

    return through


def new_array(shape: tuple[int, ...], dtype: str) -> NDArray:
    """An array for a result; large ones begin at a cache line, so that rows of whole lines are lines.

    >>> new_array((64, 1024), "float32").ctypes.data % 64
    0
    """
    kind = np.dtype(dtype)
    nbytes = prod(shape) * kind.itemsize
    if nbytes < LARGE:
        return np.empty(shape, kind)
    raw = np.empty(nbytes + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start : start + nbytes].view(kind).reshape(shape)


def output_arrays(
    out: Any, specs: Mapping[str, tuple[tuple[int, ...], str]], inputs: Mapping[str, NDArray]
) -> dict[str, NDArray]:
    """The arrays to write, by name: new ones of the shapes and dtypes in `specs`, or those given, checked."""
    if out is None:
        return {name: new_array(shape, dtype) for name, (shape, dtype) in specs.items()}
    given = dict(cast("Mapping[str, Any]", out)) if isinstance(out, Mapping) else dict.fromkeys(specs, out)
    if set(given) != set(specs) or (not isinstance(out, Mapping) and len(specs) > 1):
        raise EvaluationError("kernel call", f"out must give {sorted(specs)}", "pass a dict of arrays")
    result: dict[str, NDArray] = {}
    for name, (shape, dtype) in specs.items():
        others = {**{f"input {n}": a for n, a in inputs.items()}, **{f"out {n}": a for n, a in result.items()}}
        result[name] = check_output(name, given[name], shape, dtype, others)
    return result


def bound_output(out: Any) -> Any:
    """The `out` of a bound call, which has no other way to give its results."""
    if out is None:
        raise EvaluationError("bind", "has no out=", "pass the array to fill, or a dict of arrays")
    return out


def host_results(step: HostCall, lowered: Interface, operands: Sequence[NDArray]) -> list[tuple[str, NDArray]]:
    """(buffer, array) for each result of an operator's Python implementation; shapes and dtypes are as declared."""
    what = f"operator {step.operator.op}"
    assert step.operator.impl is not None
    impl = step.operator.impl
    answer: Any = impl.native(*operands) if isinstance(impl, OperatorImpl) else impl(*operands)
    results = list(cast("Sequence[Any]", answer)) if isinstance(answer, (list, tuple)) else [answer]
    if len(results) != len(step.operator.outputs):
        raise EvaluationError(what, f"answered {len(results)} arrays, declared {len(step.operator.outputs)}")
    found: list[tuple[str, NDArray]] = []
    for number, name in step.results:
        buffer = lowered.buffers[name]
        array: NDArray = np.asarray(results[number])
        if array.shape != buffer.shape or name_of(array.dtype) != buffer.dtype:
            got = f"{array.dtype.name}{array.shape}"
            raise EvaluationError(what, f"output {number} is {got}, declared {buffer.dtype}{buffer.shape}")
        found.append((name, array))
    return found
