"""A function over buffers as an operator of tensor programs: parameters that it only reads are operands, those that it
writes are results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError, EvaluationError, ShapeError
from eqsat.ir.statements.bind import at_sizes, bind_function, solve
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.sizes import numbers
from eqsat.ir.tensors.bind import program_symbols
from eqsat.ir.tensors.tensor import Compute, Input, Opaque, OperatorImpl, Program, Tensor, View, node_order
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, as_dim, format_shape, same_dim, with_sizes
from eqsat.ir.terms.term import Term

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
        """The function at the sizes of operands as a formula of what it reads, and of what it combines; as a view,
        where it moves elements and no more."""
        if len(self.results) > 1:
            return None
        func = self.sized(operands)
        found = self.formula(self.func if func is None else func)
        if found is None:
            return None
        if func is None:
            told = sizes_of(self.func, dict(zip(self.given, (x.shape for x in operands), strict=True)))
            found = found.bind({s: as_dim(told[s]) for s in program_symbols(found) if s in told})
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

    def sized(self, operands: Sequence[Tensor]) -> PrimFunc | None:
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


def sizes_of(func: PrimFunc, shapes: Mapping[str, Shape]) -> dict[Term, Term]:
    """The sizes of a function by the shapes of arguments, which may have symbols of their own.

    >>> f = PrimFunc.parse("func f(x: int8[2*N, M])\\n  symbol N\\n  symbol M\\n  pass")
    >>> sizes_of(f, {"x": (6, t.sym("K"))})
    {N: 3, M: K}

    Errors: ShapeError for shapes that the function does not have, and for sizes that they do not tell.
    """
    what, found = f"call of {func.name}", dict[Term, Term]()
    for name, shape in shapes.items():
        for declared, d in zip(func.buffer_map[name].shape, shape, strict=True):
            if isinstance(declared, int):
                continue
            told = solve(declared, d) if isinstance(d, int) else (declared, d) if declared.op == "sym" else None
            if told is None:
                continue
            value = t.as_index(told[1])
            if found.setdefault(told[0], value) is not value:
                raise ShapeError(what, f"{told[0]} is {found[told[0]]} and {value}")
    for symbol in func.symbols:
        if symbol not in found:
            raise ShapeError(what, f"no argument tells {symbol}")
    for name, shape in shapes.items():
        for declared, d in zip(func.buffer_map[name].shape, shape, strict=True):
            if not same_dim(with_sizes(declared, found), d):
                raise ShapeError(what, f"{name} has shape {format_shape(shape)}, which does not fit {found}")
    return found
