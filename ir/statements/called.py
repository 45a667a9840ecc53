"""A function over buffers as an operator of tensor programs: parameters that it only reads are operands, those that it
writes are results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError
from eqsat.ir.statements.bind import bind_function
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.sizes import numbers
from eqsat.ir.tensors.tensor import Compute, Input, Opaque, OperatorImpl, Program, Tensor, View
from eqsat.ir.terms.shape import Shape

Runner = Callable[..., Any]


@dataclass(frozen=True)
class Called(OperatorImpl):
    """What a call computes: `given` are the parameters of the operands, in their order, `results` those written;
    `compiled` makes a function that can be called, `formula` the program of one formula, where that is what it is."""

    func: PrimFunc
    given: tuple[str, ...]
    results: tuple[str, ...]
    compiled: Callable[[PrimFunc], Runner] = field(compare=False)
    formula: Callable[[PrimFunc], Program | None] = field(compare=False)

    def __call__(self, *arrays: NDArray) -> list[NDArray]:
        """The results, by the interpreter."""
        return self.run(partial(run_primfunc, self.func), arrays)

    def native(self, *arrays: NDArray) -> list[NDArray]:
        """The results, by the compiled function."""
        return self.run(self.compiled(self.func), arrays)

    def run(self, run: Runner, arrays: Sequence[NDArray]) -> list[NDArray]:
        """The results of what runs the function on arrays that it changes."""
        buffers = {name: np.array(a, order="C") for name, a in zip(self.given, arrays, strict=True)}
        sizes = bind_function(self.func, {name: a.shape for name, a in buffers.items()})
        for name in self.results:
            if name not in buffers:
                decl = self.func.buffer_map[name]
                buffers[name] = np.zeros(numbers(decl.shape, sizes), decl.dtype)
        run(buffers)
        return [buffers[name] for name in self.results]

    def as_formula(self, operands: Sequence[Tensor]) -> View | Compute | None:
        """The function of known sizes as a formula of what it reads; as a view, where it moves elements and no more."""
        found = None if self.func.symbols or len(self.results) > 1 else self.formula(self.func)
        if found is None:
            return None
        (result,) = found.outputs.values()
        if isinstance(result.node, View):
            return self._moved(result.node, operands)
        assert isinstance(result.node, Compute)
        read = [
            Tensor(self._moved(x.node, operands)) if isinstance(x.node, View) else self._operand(x, operands)
            for x in result.node.operands
        ]
        return Compute(read, result.shape, result.node.body)

    def _operand(self, x: Tensor, operands: Sequence[Tensor]) -> Tensor:
        """The operand that is given for an input."""
        assert isinstance(x.node, Input)
        return operands[self.given.index(x.node.name)]

    def _moved(self, view: View, operands: Sequence[Tensor]) -> View:
        """A view of an input as one of the operand that is given for it."""
        return View(self._operand(view.source, operands), view.outputs[0][0], view.gather, view.valid, view.fill)

    def with_attrs(
        self, node: Opaque, operands: Sequence[Tensor], outputs: Sequence[tuple[Shape, str]], attrs: Mapping[str, Any]
    ) -> Opaque:
        """A function has no attributes, and its own extents."""
        raise EqsatError(f"call of {self.func.name}", "has the buffers that the function declares")
