"""A tensor program as one function over buffers: its interface as declared, flat aliases inside."""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.backends.lowering.lower import lower
from eqsat.backends.lowering.lowered import Lowered
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import BackendError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_children, with_terms
from eqsat.ir.statements.ssa import fresh_name, rename_loads
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, Stmt, Store, children, seq
from eqsat.ir.tensors.tensor import Program, Tensor, as_program


@dataclass(frozen=True)
class ProgramFunction:
    """A program as a function, and the constants that it takes as parameters behind its inputs and outputs."""

    func: PrimFunc
    constants: dict[str, NDArray]


def program_function(program: Program | Tensor) -> ProgramFunction:
    """The function of a program without symbols: inputs and outputs with the shapes that they have there.

    >>> import eqsat as eq
    >>> x = eq.input("x", (2, 3), "float32")
    >>> print(program_function(eq.Program([x], {"y": x.permute_dims((1, 0)).relu()})).func)
    func program(x: float32[2, 3], y: float32[3, 2])
      alias x_flat: float32[6] = x
      alias y_flat: float32[6] = y
      for i0 in 3:
        for i1 in 2:
          y_flat[2*i0 + i1] = maximum(x_flat[3*i1 + i0], float32(0.0))

    Raises BackendError for operators in Python, for an output with the name of an input, and for names that are no
    identifiers.
    """
    low = lower(as_program(program))
    what = f"function of program {low.program.name}"
    ends = {**{b: name for name, b in low.inputs.items()}, **{b: name for name, b in low.outputs.items()}}
    twice = next((name for name in low.outputs if name in low.inputs), None)
    if twice is not None:
        raise BackendError(what, f"{twice!r} is an input and an output", "give the output another name")
    bad = next((n for n in ends.values() if not n.isidentifier()), None)
    if bad is not None:
        raise BackendError(what, f"{bad!r} is no identifier", "rename the input or output")
    return _Inlined(low, ends, what).function()


class _Inlined:
    def __init__(self, low: Lowered, ends: dict[str, str], what: str) -> None:
        self.low, self.ends, self.what = low, ends, what
        self.taken = {*low.buffers, *ends.values()}
        self.flat: dict[str, str] = {}
        for buffer, name in ends.items():
            self.flat[buffer] = fresh_name(f"{name}_flat", self.taken)
            self.taken.add(self.flat[buffer])

    def function(self) -> ProgramFunction:
        low = self.low
        parts: list[Stmt] = []
        for step in low.steps:
            if not isinstance(step, PrimFunc):
                raise BackendError(self.what, f"operator {step.operator.op} runs in Python", "define it by a formula")
            parts.append(self.renamed(step.body))
        body = seq(parts)
        for buffer in reversed(list(low.buffers.values())):
            if buffer.role == "workspace":
                body = Alloc(self.decl(buffer.name, buffer.name, flat=True), body)
        for buffer, name in reversed(self.ends.items()):
            body = Alias(self.decl(buffer, self.flat[buffer], flat=True), name, body)
        params = {name: self.decl(buffer, name) for buffer, name in self.ends.items()}
        params |= {n: self.decl(n, n, flat=True) for n in low.constants}
        name = low.program.name if low.program.name.isidentifier() else "program"
        return ProgramFunction(PrimFunc(name, tuple(params), params, body), dict(low.constants))

    def decl(self, buffer: str, name: str, flat: bool = False) -> BufferDecl:
        known = self.low.buffers[buffer]
        size = 1
        for n in known.shape:
            size *= n
        return BufferDecl(name, (size,) if flat else known.shape, known.dtype)

    def renamed(self, stmt: Stmt) -> Stmt:
        """A kernel's statements over the flat aliases."""
        moved = with_terms(stmt, lambda term: rename_loads(term, self.flat))
        if isinstance(moved, Store):
            return Store(self.flat.get(moved.buffer, moved.buffer), moved.index, moved.value)
        return with_children(moved, [self.renamed(part) for part in children(moved)])
