"""The numpy meaning of statements: a slow interpreter, one store at a time, that checks every access."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eqsat.ir.dtypes import INDEX, NDArray
from eqsat.ir.errors import EvaluationError
from eqsat.ir.statements.check import element_bytes
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alias, Alloc, For, If, Seq, Stmt, Store
from eqsat.ir.terms.evaluate import Mask, evaluate_masked, poison
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name


class _Machine:
    """The buffers and loop positions of one run."""

    def __init__(self, buffers: dict[str, NDArray]) -> None:
        self.buffers = buffers
        self.axes: dict[Term, NDArray] = {}

    def load(self, source: object, index: Sequence[NDArray]) -> tuple[NDArray, Mask]:
        array = self.buffers[str(source)]
        at = tuple(int(i) for i in index)
        if all(0 <= i < n for i, n in zip(at, array.shape, strict=True)):
            return array[at], None
        return np.zeros((), array.dtype), np.ones((), np.bool_)

    def value(self, term: Term) -> NDArray:
        value, bad = evaluate_masked([term], self.axes, self.load)[0]
        if bad is not None and bool(np.any(bad)):
            at = {leaf_name(a): int(v) for a, v in self.axes.items()}
            raise EvaluationError(f"statement with {term}", f"undefined (out of range or a zero divisor) at {at}")
        return value

    def run(self, stmt: Stmt) -> None:
        if isinstance(stmt, Seq):
            for part in stmt.parts:
                self.run(part)
        elif isinstance(stmt, For):
            for position in range(stmt.extent):
                self.axes[stmt.axis] = np.asarray(position, np.int64)
                self.run(stmt.body)
            self.axes.pop(stmt.axis, None)
        elif isinstance(stmt, If):
            branch = stmt.then if bool(self.value(stmt.condition)) else stmt.orelse
            if branch is not None:
                self.run(branch)
        elif isinstance(stmt, Store):
            self.store(stmt)
        elif isinstance(stmt, Alloc):
            dtype = _numpy_dtype(stmt.buffer.dtype)
            self.buffers[stmt.buffer.name] = np.full(stmt.buffer.shape, poison(dtype), dtype)
            self.run(stmt.body)
            del self.buffers[stmt.buffer.name]
        elif isinstance(stmt, Alias):
            self.buffers[stmt.buffer.name] = self.alias(stmt)
            self.run(stmt.body)
            del self.buffers[stmt.buffer.name]
        elif not bool(self.value(stmt.condition)):
            raise EvaluationError(f"assume {stmt.condition}", "does not hold")

    def alias(self, stmt: Alias) -> NDArray:
        """The same bytes under the alias's shape and dtype."""
        memory = self.buffers[stmt.data].reshape(-1).view(np.uint8)
        size, dtype = element_bytes(stmt.buffer), _numpy_dtype(stmt.buffer.dtype)
        part = memory[stmt.offset * size : (stmt.offset + stmt.buffer.size) * size]
        return part.view(dtype).reshape(stmt.buffer.shape)

    def store(self, stmt: Store) -> None:
        at = tuple(int(self.value(i)) for i in stmt.index)
        array = self.buffers[stmt.buffer]
        if not all(0 <= i < n for i, n in zip(at, array.shape, strict=True)):
            raise EvaluationError(f"store to {stmt.buffer}", f"index {at} is outside of {array.shape}")
        array[at] = self.value(stmt.value)


def _numpy_dtype(dtype: str) -> str:
    return "int64" if dtype == INDEX else dtype


def run_primfunc(func: PrimFunc, buffers: Mapping[str, NDArray]) -> None:
    """Run a function on arrays of its parameters' physical shapes, which it changes in place.

    >>> import numpy as np
    >>> from eqsat.ir.statements.stmt import BufferDecl
    >>> from eqsat.ir.terms.term import ax, load
    >>> i = ax(0, 3)
    >>> decls = {n: BufferDecl(n, (3,), "int8") for n in ("x", "y")}
    >>> y = np.zeros(3, "int8")
    >>> negate = For(i, Store("y", (i,), -load("x", [i], "int8")))
    >>> run_primfunc(PrimFunc("negate", ("x", "y"), decls, negate), {"x": np.arange(3, dtype="int8"), "y": y})
    >>> y
    array([ 0, -1, -2], dtype=int8)
    """
    for name, decl in func.buffer_map.items():
        array, dtype = buffers.get(name), _numpy_dtype(decl.dtype)
        if array is None or array.shape != decl.shape or array.dtype.name != dtype:
            got = "nothing" if array is None else f"{array.dtype.name}{array.shape}"
            raise EvaluationError(f"function {func.name}", f"{name} is {got}, expected {dtype}{decl.shape}")
        if not array.flags.c_contiguous:
            raise EvaluationError(f"function {func.name}", f"{name} is not dense row-major memory", "pass a copy")
    _Machine(dict(buffers)).run(func.body)
