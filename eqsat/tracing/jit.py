"""`jit`: a function over arrays, traced, optimised and compiled once for each kind of arguments."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, overload

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError, TypeMismatch
from eqsat.ir.keywords import keywords
from eqsat.ir.locks import fork_safe
from eqsat.ir.tensors.tensor import Program, Tensor
from eqsat.tracing.arguments import Tree, abstract, built, concrete, flat

if TYPE_CHECKING:
    from eqsat.backends.targets import Kernel
    from eqsat.graph.search import Limits
    from eqsat.result import Result

P = ParamSpec("P")
MOST_KEPT = 128
"""Compiled variants of one function that are kept; the one made longest ago goes first."""


@dataclass(frozen=True)
class Options:
    """How variants are made."""

    target: str = "c"
    threads: int | None = None
    tune: bool = False
    limits: Limits | None = None
    contract: bool = False


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
        return leaves[0] if self.tree == ("leaf", 0) else built(self.tree, leaves)


class Jitted(Generic[P]):
    """A function that `jit` made: called as the function is, on arrays."""

    __name__: str

    def __init__(self, function: Callable[P, Any], options: Options) -> None:
        self._function = function
        self._options = options
        self._variants: OrderedDict[Any, Variant] = OrderedDict()
        self._making: dict[Any, threading.Lock] = {}
        self._lock = fork_safe(threading.RLock())
        self.__name__ = "function"
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

    def __reduce__(self) -> str:
        """A decorated function is pickled by its name, as functions are, so that it reaches other processes."""
        return str(getattr(self, "__qualname__", self.__name__))

    def __copy__(self) -> Jitted[P]:
        return self

    def __deepcopy__(self, memo: Any) -> Jitted[P]:
        return self

    def _key(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, list[NDArray], Any]:
        """What tells variants apart, the memory of all arrays in order, and the arguments with specs for arrays."""
        memory: list[NDArray] = []
        left = tuple([abstract(a, memory) for a in args])
        layout = (left, tuple([(k, abstract(v, memory)) for k, v in kwargs.items()]) if kwargs else ())
        try:
            hash(layout)
        except TypeError as error:
            what = f"jit of {self.__name__}"
            raise TypeMismatch(
                what, f"an argument is no array, and {error}", "numbers, strings, tuples, arrays"
            ) from error
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
        args = [concrete(a, inputs) for a in layout[0]]
        kwargs = {k: concrete(v, inputs) for k, v in layout[1]}
        leaves: list[Tensor] = []
        try:
            made = self._function(*args, **kwargs)  # pyright: ignore[reportCallIssue]
        except TypeError as error:
            if isinstance(error, EqsatError) or not any(
                isinstance(a, (list, tuple)) for a in (*args, *kwargs.values())
            ):
                raise
            fix = "np.asarray(...) makes an array of a list"
            raise TypeMismatch(f"jit of {self.__name__}", f"{error}; lists stay what they are", fix) from error
        tree = flat(made, leaves)
        if not leaves:
            raise TypeMismatch(f"jit of {self.__name__}", "the function returned no tensor", "return what it computes")
        options = self._options
        outputs = {f"out{n}": x for n, x in enumerate(leaves)}
        program = Program(inputs, outputs, name=_c_name(self.__name__))
        result = optimize(program, options.target, limits=options.limits)
        threads, tune, contract = options.threads, options.tune, options.contract
        kernel = compile(result.program, options.target, threads=threads, tune=tune, contract=contract)
        return Variant(program, result, kernel, tree, tuple(x.name for x in inputs), getattr(kernel, "direct", None))


def _c_name(name: str) -> str:
    return name if name.isidentifier() else "function"


@overload
def jit(
    function: Callable[P, Any],
    /,
    *,
    target: str = "c",
    threads: int | None = None,
    tune: bool = False,
    contract: bool = False,
    limits: Limits | None = None,
) -> Jitted[P]: ...
@overload
def jit(
    *,
    target: str = "c",
    threads: int | None = None,
    tune: bool = False,
    contract: bool = False,
    limits: Limits | None = None,
) -> Callable[[Callable[P, Any]], Jitted[P]]: ...


@keywords
def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    target: str = "c",
    threads: int | None = None,
    tune: bool = False,
    contract: bool = False,
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

    Arguments are numpy arrays, whatever has DLPack in host memory (torch) or the buffer protocol (bytes, array,
    mmap), and tuples (named ones too), lists and dicts of such; they are read where they lie, without a copy,
    unless they are misaligned or in another byte order. Other arguments must be hashable: they are a part of the
    program, and each value makes one more. The function sees tensors; conditions on shapes and on plain arguments
    work, on values they raise. Results are numpy arrays, in the structure that the function returns.

    target, threads, tune, contract: as for `eq.compile`. limits: of the search, as for `eq.optimize`. Any number of
    threads may call it at once; one of them compiles, the others wait. Raises what the function raises, TypeMismatch
    for arguments that are no arrays and cannot be hashed, and the errors of `eq.compile`.
    """
    options = Options(target, threads, tune, limits, contract)
    if function is None:
        return functools.partial(Jitted, options=options)
    if not callable(function):
        raise EqsatError(f"jit of {function!r}", "is not a function", "@eq.jit above a def, or eq.jit(f)")
    return Jitted(function, options)
