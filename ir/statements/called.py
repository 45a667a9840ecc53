"""A function over buffers as an operator of tensor programs: parameters that it only reads are operands, those that it
writes are results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError, EvaluationError
from eqsat.ir.statements.bind import at_sizes, bind_function
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.sizes import numbers
from eqsat.ir.tensors.tensor import Compute, Input, Opaque, OperatorImpl, Program, Tensor, View, node_order
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
        """The function at known sizes as a formula of what it reads, and of what it combines; as a view, where it moves
        elements and no more."""
        func = self._sized(operands)
        found = None if func is None or len(self.results) > 1 else self.formula(func)
        if found is None:
            return None
        (result,) = found.outputs.values()
        done: dict[int, Tensor] = {}
        for node in node_order([result]):
            read = [done[x.node.serial] for x in node.operands]
            if isinstance(node, Input):
                done[node.serial] = operands[self.given.index(node.name)]
            elif isinstance(node, View):
                done[node.serial] = Tensor(View(read[0], node.outputs[0][0], node.gather, node.valid, node.fill))
            else:
                assert isinstance(node, Compute)
                done[node.serial] = Tensor(Compute(read, node.shape, node.body, node.reduce, node.combiner))
        made = done[result.node.serial].node
        return made if isinstance(made, View | Compute) else None

    def _sized(self, operands: Sequence[Tensor]) -> PrimFunc | None:
        """The function at the sizes of some operands; None where these are not known."""
        if not self.func.symbols:
            return self.func
        shapes = {
            name: [d for d in x.shape if isinstance(d, int)] for name, x in zip(self.given, operands, strict=True)
        }
        if any(len(shapes[name]) < x.rank for name, x in zip(self.given, operands, strict=True)):
            return None
        try:
            made = at_sizes(self.func, bind_function(self.func, shapes))
        except EvaluationError:
            return None  # no operand tells a size
        return None if made.symbols else made

    def with_attrs(
        self, node: Opaque, operands: Sequence[Tensor], outputs: Sequence[tuple[Shape, str]], attrs: Mapping[str, Any]
    ) -> Opaque:
        """A function has no attributes, and its own extents."""
        raise EqsatError(f"call of {self.func.name}", "has the buffers that the function declares")
