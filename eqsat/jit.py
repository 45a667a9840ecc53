"""`jit`: a function over arrays, traced, optimised and compiled once for each kind of arguments.

An array is read where it lies: dense memory is an input as it is, any other is a view of the memory under it.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, cast, overload

import numpy as np

from eqsat.ir.dtypes import DATA, NDArray
from eqsat.ir.errors import EqsatError, TypeMismatch
from eqsat.ir.locks import fork_safe
from eqsat.ir.tensors.arrays.types import as_tensor
from eqsat.ir.tensors.tensor import Program, Tensor, View, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import output_axes
from eqsat.ir.terms.term import Term

if TYPE_CHECKING:
    from eqsat.backends.targets import Kernel
    from eqsat.graph.search import Limits
    from eqsat.result import Result

P = ParamSpec("P")
MOST_KEPT = 128
"""Compiled variants of one function that are kept; the one made longest ago goes first."""


class Form(NamedTuple):
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
    if isinstance(value, np.ndarray):
        return cast(NDArray, value)
    if isinstance(value, (bool, int, float, complex, str, np.generic)) or value is None:
        return None
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise TypeMismatch(f"jit argument of {type(value).__name__}", str(error), "pass one in host memory") from error
    try:
        return np.asarray(memoryview(value))
    except TypeError:
        return None


def form_of(array: NDArray) -> tuple[Form, NDArray]:
    """The form of an array, and the memory that a kernel takes for it: never a copy, but of what C cannot read."""
    shape, dtype, flags = array.shape, array.dtype, array.flags
    if flags.c_contiguous and flags.aligned and dtype.isnative:
        return Form(shape, dtype, None), array
    if dtype.name not in DATA:
        raise _unsupported(dtype)
    size = array.itemsize
    if not flags.aligned or not dtype.isnative or any(s % size for s in array.strides):
        native = dtype.newbyteorder("=")
        return Form(shape, native, None), np.array(array, dtype=native, order="C")
    form = Form(shape, dtype, tuple(s // size for s in array.strides))
    cells, first = form.memory
    corner = array[tuple(slice(-1, None) if s < 0 else slice(0, 1) for s in array.strides)]
    assert first >= 0
    return form, np.lib.stride_tricks.as_strided(corner, (cells,), (size,), writeable=False)


def _unsupported(dtype: np.dtype[Any]) -> TypeMismatch:
    return TypeMismatch(f"jit argument of dtype {dtype}", "is not supported", f"one of {', '.join(DATA)}")


def input_for(name: str, form: Form) -> tuple[Tensor, Tensor]:
    """The input that takes an array's memory, and the array as a tensor."""
    if form.dtype.name not in DATA:
        raise _unsupported(form.dtype)
    if form.strides is None:
        x = input(name, form.shape, form.dtype)
        return x, x
    cells, first = form.memory
    x = input(name, (cells,), form.dtype)
    axes = output_axes(form.shape)
    place = t.linear(first, [(s, i) for s, i in zip(form.strides, axes, strict=True)])
    return x, Tensor(View(x, form.shape, [place], t.TRUE, None))


Tree = tuple[str, Any]


def _flat(value: Any, leaves: list[Tensor]) -> Tree:
    """The structure of a result; its tensors are put at the end of `leaves`."""
    if isinstance(value, (tuple, list)):
        items = [_flat(v, leaves) for v in cast("Sequence[Any]", value)]
        return ("tuple" if isinstance(value, tuple) else "list", items)
    if isinstance(value, Mapping):
        return ("dict", {k: _flat(v, leaves) for k, v in cast("Mapping[Any, Any]", value).items()})
    if value is None or isinstance(value, str):
        return ("plain", value)
    leaves.append(as_tensor(value, "result of a jit function"))
    return ("leaf", len(leaves) - 1)


def _built(tree: Tree, leaves: Sequence[NDArray]) -> Any:
    kind, inside = tree
    if kind == "leaf":
        return leaves[inside]
    if kind == "plain":
        return inside
    if kind == "dict":
        return {k: _built(v, leaves) for k, v in inside.items()}
    items = [_built(v, leaves) for v in inside]
    return tuple(items) if kind == "tuple" else items


@dataclass(frozen=True, eq=False)
class Variant:
    """A function for one kind of arguments: its program, what the optimiser made of it, the kernel."""

    program: Program
    result: Result
    kernel: Kernel
    tree: Tree
    names: tuple[str, ...]
    direct: Callable[[Sequence[NDArray]], list[NDArray]] | None

    def run(self, memory: Sequence[NDArray]) -> Any:
        """The results for the memory of the arguments."""
        if self.direct is not None:
            leaves = self.direct(memory)
        else:
            made = self.kernel(dict(zip(self.names, memory, strict=True)))
            outputs = self.program.outputs
            leaves = [made] if len(outputs) == 1 else [made[k] for k in outputs]
        return leaves[0] if self.tree == ("leaf", 0) else _built(self.tree, leaves)


class Jitted(Generic[P]):
    """A function that `jit` made: called as the function is, on arrays."""

    def __init__(self, function: Callable[P, Any], options: Options) -> None:
        self._function = function
        self._options = options
        self._signature = inspect.signature(function)
        self._variants: OrderedDict[Any, Variant] = OrderedDict()
        self._making: dict[Any, threading.Lock] = {}
        self._lock = fork_safe(threading.RLock())
        functools.update_wrapper(self, function)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        key, memory, layout = self._key(args, kwargs)
        variant = self._variants.get(key)
        if variant is None:
            variant = self._made(key, layout)
        return variant.run(memory)

    def lower(self, /, *args: P.args, **kwargs: P.kwargs) -> Variant:
        """The compiled variant for these arguments: `.program`, `.result` (what the optimiser did) and `.kernel`.

        >>> import eqsat as eq, numpy as np
        >>> print(eq.jit(lambda x: x.T.T + 1).lower(np.zeros((2, 3), "float32")).result.cost_after)
        0
        """
        key, _, layout = self._key(args, kwargs)
        return self._variants.get(key) or self._made(key, layout)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method: the object is an argument that is no array, so it must be hashable."""
        return self if instance is None else functools.partial(self, instance)

    def _key(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, list[NDArray], Any]:
        """What tells variants apart, the memory of all arrays in order, and the arguments with forms for arrays."""
        memory: list[NDArray] = []
        left = tuple([_abstract(a, memory) for a in args])
        layout = (left, tuple([(k, _abstract(v, memory)) for k, v in kwargs.items()]) if kwargs else ())
        try:
            hash(layout)
        except TypeError as error:
            what = f"jit of {self.__name__}"
            raise TypeMismatch(what, f"an argument is no array, and {error}", "numbers, strings, tuples, arrays") from error
        return layout, memory, layout

    def _made(self, key: Any, layout: Any) -> Variant:
        """The variant, made once, however many threads ask for it."""
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            variant = self._variants.get(key)
            if variant is None:
                variant = self._compiled(layout)
                with self._lock:
                    self._variants[key] = variant
                    while len(self._variants) > MOST_KEPT:
                        self._variants.popitem(last=False)
        with self._lock:
            self._making.pop(key, None)
        return variant

    def _compiled(self, layout: Any) -> Variant:
        from eqsat.backends.compile import compile
        from eqsat.engine import optimize

        inputs: list[Tensor] = []
        args = [_concrete(a, inputs) for a in layout[0]]
        kwargs = {k: _concrete(v, inputs) for k, v in layout[1]}
        leaves: list[Tensor] = []
        tree = _flat(self._function(*args, **kwargs), leaves)  # pyright: ignore[reportCallIssue]
        if not leaves:
            raise TypeMismatch(f"jit of {self.__name__}", "the function returned no tensor", "return what it computes")
        options = self._options
        outputs = {f"out{n}": x for n, x in enumerate(leaves)}
        program = Program(inputs, outputs, name=_c_name(self.__name__))
        result = optimize(program, options.target, limits=options.limits)
        kernel = compile(result.program, options.target, threads=options.threads, tune=options.tune)
        return Variant(program, result, kernel, tree, tuple(x.name for x in inputs), getattr(kernel, "direct", None))

    @property
    def __name__(self) -> str:
        return getattr(self._function, "__name__", "function")

    @__name__.setter
    def __name__(self, name: str) -> None:
        pass


def _c_name(name: str) -> str:
    return name if name.isidentifier() else "function"


@dataclass(frozen=True)
class _Scalar:
    """An argument that is no array: a part of the program. 1, 1.0 and True are not one argument."""

    kind: type
    value: Any


def _abstract(value: Any, memory: list[NDArray]) -> Any:
    """An argument as a key: the form of an array, tuples and dicts of such, or the value itself."""
    if type(value) is np.ndarray:
        form, own = form_of(value)
        memory.append(own)
        return form
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        items = cast("Sequence[Any]", value)
        return (type(value), tuple(_abstract(v, memory) for v in items))
    if type(value) is dict:
        pairs = cast("Mapping[Any, Any]", value).items()
        return (dict, tuple((k, _abstract(v, memory)) for k, v in pairs))
    if isinstance(value, (Tensor, Term)):
        raise TypeMismatch(f"jit argument {value!r}", "is a tensor, not an array", "call the function that jit was given")
    array = array_of(value)
    if array is None:
        return _Scalar(type(value), value)
    form, own = form_of(array)
    memory.append(own)
    return form


def _concrete(key: Any, inputs: list[Tensor]) -> Any:
    """An argument of the trace: tensors for forms, each with an input of its own."""
    if isinstance(key, Form):
        x, seen = input_for(f"in{len(inputs)}", key)
        inputs.append(x)
        return seen
    if isinstance(key, _Scalar):
        return key.value
    kind, inside = key
    if kind is dict:
        return {k: _concrete(v, inputs) for k, v in inside}
    items = [_concrete(v, inputs) for v in inside]
    return tuple(items) if kind is tuple else items


@dataclass(frozen=True)
class Options:
    """How variants are made."""

    target: str = "c"
    threads: int | None = None
    tune: bool = False
    limits: Limits | None = None


@overload
def jit(function: Callable[P, Any], /) -> Jitted[P]: ...
@overload
def jit(
    *, target: str = "c", threads: int | None = None, tune: bool = False, limits: Limits | None = None
) -> Callable[[Callable[P, Any]], Jitted[P]]: ...
def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    target: str = "c",
    threads: int | None = None,
    tune: bool = False,
    limits: Limits | None = None,
) -> Any:
    """A function over arrays, written with numpy's names, as a kernel: traced, optimised and compiled when it is first
    called with arrays of a kind (shape, data type, strides where not dense), then only run.

    >>> import eqsat as eq, numpy as np
    >>> @eq.jit
    ... def normalise(image, mean, scale=255):
    ...     return ((image / scale - mean) * 2).transpose(2, 0, 1)
    >>> image = np.full((4, 4, 3), 51, "uint8")
    >>> normalise(image, np.array([0.1, 0.2, 0.3]))[:, 0, 0].round(6)
    array([ 0.2,  0. , -0.2])

    Arguments are numpy arrays, whatever has DLPack in host memory (torch) or the buffer protocol (bytes, array, mmap),
    and tuples, lists and dicts of such; they are read where they lie, without a copy, unless they are misaligned or in
    another byte order. Other arguments must be hashable: they are a part of the program, and each value makes one more.
    The function sees tensors; conditions on shapes and on plain arguments work, on values they raise. Results are numpy
    arrays, in the structure that the function returns.

    target, threads, tune: as for `eq.compile`. limits: of the search, as for `eq.optimize`. Any number of threads may
    call it at once; one of them compiles, the others wait. Raises what the function raises, TypeMismatch for arguments
    that are no arrays and cannot be hashed, and the errors of `eq.compile`.
    """
    options = Options(target, threads, tune, limits)
    if function is None:
        return lambda f: Jitted(f, options)  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType]
    if not callable(function):
        raise EqsatError(f"jit of {function!r}", "is not a function", "@eq.jit above a def, or eq.jit(f)")
    return Jitted(function, options)
