"""A tensor program as one function over buffers: its interface as declared, flat aliases inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from eqsat.backends.interface import HostCall
from eqsat.backends.lowering.lower import lower
from eqsat.backends.lowering.lowered import Lowered
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import BackendError
from eqsat.ir.statements.called import Called
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_children, with_terms
from eqsat.ir.statements.ssa import renamed as renamed_buffer
from eqsat.ir.statements.ssa import to_ssa
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, For, Stmt, Store, children, seq
from eqsat.ir.tensors.tensor import Program, Tensor, as_program
from eqsat.ir.tensors.views import unflatten
from eqsat.ir.terms import term as t
from eqsat.ir.terms.text import fresh_name
from eqsat.ir.terms.walk import renumber_loads


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
            if isinstance(step, PrimFunc):
                parts.append(self.renamed(step.body, self.flat))
            elif isinstance(step.operator.impl, Called) and not step.operator.impl.func.symbols:
                parts.append(self.called(step, step.operator.impl))
            else:
                raise BackendError(self.what, f"operator {step.operator.op} runs in Python", "define it by a formula")
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

    def called(self, step: HostCall, call: Called) -> Stmt:
        """The body of a function that the program calls: its parameters are aliases of the program's buffers."""
        func = to_ssa(call.func)
        names: dict[str, str] = {}
        for name in func.params:
            names[name] = fresh_name(name, self.taken)
            self.taken.add(names[name])
        operands = dict(zip(call.given, step.operands, strict=True))
        results = {call.results[k]: name for k, name in step.results}
        body, before = self.renamed(func.body, names), list[Stmt]()
        for name in func.params:
            decl = renamed_buffer(func.buffer_map[name], names[name])
            target = results.get(name) if name in call.results else operands[name]
            if target is None:  # a result that nobody asked for
                body = Alloc(decl, seq([self.copy(operands[name], decl), body]) if name in operands else body)
                continue
            if name in results and name in operands:
                before.append(self.copy(operands[name], self.decl(target, self.flat.get(target, target), flat=True)))
            body = Alias(decl, self.flat.get(target, target), body)
        return seq([*before, body])

    def copy(self, source: str, into: BufferDecl) -> Stmt:
        """A buffer copied into another one, element by element."""
        i = t.ax(0, self.decl(source, source, flat=True).size)
        load = t.load(self.flat.get(source, source), [i], into.dtype)
        return For(i, Store(into.name, tuple(unflatten(i, into.shape)), load))

    def renamed(self, stmt: Stmt, names: Mapping[str, str]) -> Stmt:
        """Statements over buffers of other names."""
        moved = with_terms(stmt, lambda term: renumber_loads(term, names))
        if isinstance(moved, Store):
            return Store(names.get(moved.buffer, moved.buffer), moved.index, moved.value)
        if isinstance(moved, Alias):
            moved = replace(moved, data=names.get(moved.data, moved.data))
        return with_children(moved, [self.renamed(part, names) for part in children(moved)])
