"""A prepared function in C: loops as they are written, local buffers on the stack or in the workspace."""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.backends.c.expr import Scope
from eqsat.backends.c.function import FunctionPrinter
from eqsat.backends.functions.prepare import Prepared
from eqsat.backends.interface import ALIGNMENT
from eqsat.ir.errors import BackendError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alloc, BufferDecl, For, Stmt, statements
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

MOST_STACK = 4096
"""Bytes of a local buffer that lies on the stack; larger ones, and those of unknown size, lie in the workspace."""

FEW = 8
"""Elements of a local buffer that is cleared."""


@dataclass(frozen=True)
class Part:
    """A local buffer in the workspace: its declaration, its name in C, where it begins (over the bounded sizes)."""

    decl: BufferDecl
    name: str
    offset: Term


def workspace_parts(prepared: Prepared) -> tuple[dict[str, Part], Term]:
    """The local buffers that lie in the workspace, one behind the other, and the bytes of all."""
    parts: dict[str, Part] = {}
    total = t.index_const(0)
    for stmt in statements(prepared.body):
        if isinstance(stmt, Alloc):
            nbytes = prepared.nbytes(stmt.buffer)
            number = t.int_value(nbytes)
            if number is None or number > MOST_STACK:
                parts[stmt.buffer.name] = Part(stmt.buffer, f"work{len(parts)}", total)
                total = total + (nbytes + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT
    return parts, total


def plain_params(prepared: Prepared) -> PrimFunc:
    """The prepared statements over flat scalar parameters: what a kernel takes."""
    func = prepared.checked.func
    decls: dict[str, BufferDecl] = {}
    for name in func.params:
        decl = func.buffer_map[name]
        cells = t.product([t.index_const(decl.lanes), *map(t.as_index, decl.memory_shape)])
        decls[name] = BufferDecl(name, (cells,), decl.scalar)
    return PrimFunc(func.name, func.params, decls, prepared.body, func.note)


class StatementPrinter(FunctionPrinter):
    """Prints a prepared function. Only loops that are marked parallel are: nothing is known of the others."""

    target = "c"

    def __init__(self, prepared: Prepared, threads: int) -> None:
        super().__init__(plain_params(prepared), threads, prepared.simplifier, 0)
        self.prepared = prepared
        self.index = self.expressions.index = prepared.index
        self.expressions.axes.update(prepared.names)
        self.parts, self.workspace = workspace_parts(prepared)
        self.in_parallel = False

    def body(self) -> list[str]:
        """The lines of the body."""
        return self.statement(self.prepared.body, 1, 0, False)

    def size(self, term: Term) -> str:
        """The text of a size, which needs no declarations."""
        scope = Scope()
        (text,) = self.expressions.print_terms([term], scope)
        assert not scope.lines
        return text

    def statement(self, stmt: Stmt, depth: int, loops: int, parallel: bool) -> list[str]:
        if isinstance(stmt, Alloc):
            return self.local(stmt.buffer, stmt.body, depth, loops)
        return super().statement(stmt, depth, loops, False)

    def local(self, decl: BufferDecl, body: Stmt, depth: int, loops: int) -> list[str]:
        part = self.parts.get(decl.name)
        if part is not None and self.in_parallel:
            problem = f"local buffer {decl} of a parallel loop is larger than {MOST_STACK} bytes"
            what = f"function {self.func.name} on target {self.target}"
            raise BackendError(what, problem, "allocate it outside, or make it small")
        name = f"local{self.locals}" if part is None else part.name
        self.locals += 1
        self.expressions.buffers[decl.name] = name
        lines = self.statement(body, depth, loops, False)
        if part is not None:
            return lines
        indent = "    " * depth
        zero = " = {0}" if decl.size <= FEW else ""  # compilers warn where a loop that fills it may not run
        head = f"{indent}{self.type_of(decl.dtype)} {name}[{max(decl.size, 1)}]{zero};"
        return [head, f"{indent}(void){name};", *lines]

    def loop(self, stmt: For, depth: int, loops: int, parallel: bool) -> list[str]:
        indent, name = "    " * depth, f"i{loops}"
        self.expressions.axes[stmt.axis] = name
        threads = stmt.kind == "parallel" and self.threads > 1 and not self.in_parallel
        head = [f"#pragma omp parallel for num_threads({self.threads})"] if threads else []
        extent = self.size(self.prepared.extents[stmt.axis])
        head.append(f"{indent}for ({self.index} {name} = 0; {name} < {extent}; ++{name}) {{")
        outside, self.in_parallel = self.in_parallel, self.in_parallel or threads
        lines = self.statement(stmt.body, depth + 1, loops + 1, False)
        self.in_parallel = outside
        return [*head, *lines, f"{indent}}}"]
