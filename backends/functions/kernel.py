"""Compiled functions: called with all parameters, which they change in place."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from eqsat.backends.c.cc import load_kernel
from eqsat.backends.c.function import written
from eqsat.backends.functions.c_source import ANSWERS, CSource, c_source
from eqsat.backends.functions.call import Arguments, bound_arguments, report_failed, size_value
from eqsat.backends.functions.prepare import Prepared, prepare
from eqsat.backends.interface import ALIGNMENT
from eqsat.ir.cached import cached_property
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError
from eqsat.ir.shown import card, folded
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.ssa import with_own_names
from eqsat.ir.terms import term as t
from eqsat.ir.terms.text import symbol_names


class FunctionKernel:
    """A PrimFunc compiled to C; made by `eq.compile`.

    A call takes an array for every parameter, and numbers for the sizes that no shape tells; arrays that the function
    stores to are changed in place, and nothing is returned. Bytes of arrays are never copied: shape, type, strides
    and offset must be as declared. The array of a parameter with axis separators may also be that of its physical axes,
    dense row-major: a buffer of (3, 5, 7, 8) with a separator before axis 2 is an array of that shape or of (15, 56).
    """

    def _repr_html_(self) -> str:
        return card(f"kernel {self.func.name}", "", None, folded("header", self.header) + folded("source", self.source))

    def __init__(self, func: PrimFunc, threads: int, contract: bool = False) -> None:
        self.func = func
        self.threads = threads
        self.contract = contract
        self.prepared: Prepared = prepare(func)
        self.written = {n for n in written(with_own_names(func)) if n in func.params}
        self.made: CSource = c_source(self.prepared, threads, contract)
        _ = self._function

    def __reduce__(self) -> tuple[Any, ...]:
        """Compiled again where it is unpickled, as a rule from the cache."""
        return _again, (self.func.to_json(), self.threads, self.contract)

    @property
    def source(self) -> str:
        """The C text."""
        return self.made.text

    @property
    def header(self) -> str:
        """The C header of the exported function."""
        return self.made.header

    @property
    def workspace_bytes(self) -> int:
        """The size of the workspace argument, for the greatest sizes that the kernel takes."""
        return size_value(self.made.workspace, {s: t.symbol_facts(s).upper or 0 for s in self.prepared.names})

    @cached_property
    def _function(self) -> Callable[..., int]:
        library = load_kernel(self.made.text, self.threads, self.contract)
        function = getattr(library, self.made.name)
        pointers = [ctypes.c_void_p] * len(self.prepared.checked.func.params)
        function.argtypes = [*pointers, *[ctypes.c_int64] * len(self.prepared.names), ctypes.c_void_p]
        function.restype = ctypes.c_int
        return function

    def __call__(self, /, *args: Any, **arrays: Any) -> None:
        """Run on arrays by name, `k(x=array, y=array)` or `k({"x": array})`; sizes by the names of their symbols."""
        self.bind(*args, **arrays)()

    def bind(self, /, *args: Any, **arrays: Any) -> Callable[[], None]:
        """The call on these arrays as a function of no arguments: checked now, run as often as it is called."""
        checked = bound_arguments(self.prepared, self.written, args, arrays)
        status = np.zeros(1, np.int32)
        places = {n: _address(m) for n, m in checked.memory.items()}
        if self.prepared.checked.status:
            places[self.prepared.checked.status] = _address(status)
        scratch = self._scratch(checked)
        base = _address(scratch) + -_address(scratch) % ALIGNMENT
        pointers = [places[n] for n in self.prepared.checked.func.params]
        values = [*pointers, *(checked.sizes[s] for s in self.prepared.names), base]

        def call(_held: object = (checked, scratch)) -> None:
            status[0] = 0
            answer = self._function(*values)
            if answer != 0:
                raise EvaluationError(f"call of {self.func.name}", f"was refused: {ANSWERS[answer - 1]}")
            report_failed(self.prepared, status)

        return call

    def _scratch(self, checked: Arguments) -> NDArray:
        return np.empty(size_value(self.made.workspace, checked.sizes) + ALIGNMENT, np.uint8)


def _again(text: str, threads: int, contract: bool) -> FunctionKernel:
    return FunctionKernel(PrimFunc.from_json(text), threads, contract)


def _address(array: NDArray) -> int:
    return array.__array_interface__["data"][0]


class NumpyFunction:
    """A PrimFunc run by its numpy meaning; made by `eq.compile(func, target="numpy")`."""

    header = ""
    workspace_bytes = 0

    def __init__(self, func: PrimFunc) -> None:
        self.func = func

    @property
    def source(self) -> str:
        """The text of the function."""
        return str(self.func)

    def __call__(self, /, *args: Any, **arrays: Any) -> None:
        """Run on arrays by name."""
        self.bind(*args, **arrays)()

    def bind(self, /, *args: Any, **arrays: Any) -> Callable[[], None]:
        """The call on these arrays as a function of no arguments."""
        given: Mapping[str, Any] = args[0] if args else arrays
        sizes = {n: v for n, v in given.items() if n in symbol_names(self.func.symbols).values()}
        memory = {n: v for n, v in given.items() if n not in sizes}

        def call() -> None:
            run_primfunc(self.func, memory, sizes)

        return call
