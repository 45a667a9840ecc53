"""A prepared function in C: loops as they are written, local buffers on the stack or in the workspace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eqsat.backends.c.expr import Scope
from eqsat.backends.c.function import FunctionPrinter
from eqsat.backends.c.parallel import Variable, share
from eqsat.backends.functions.prepare import Prepared
from eqsat.backends.interface import ALIGNMENT
from eqsat.ir.errors import BackendError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, For, Stmt, statements
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term

MOST_STACK = 4096
"""Bytes of a local buffer that lies on the stack; larger ones, and those of unknown size, lie in the workspace."""

FEW = 8
"""Elements of a local buffer that is cleared."""


@dataclass(frozen=True, eq=False)
class Part(Record):
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


def alignments(body: Stmt, decls: Mapping[str, BufferDecl], what: str) -> dict[str, int]:
    """The bytes that the start of each buffer's memory must be a multiple of: its own elements, and those of aliases.

    Raises BackendError for an alias that begins between two multiples of its own elements.
    """
    found = {name: d.element_bytes // d.lanes for name, d in decls.items()}
    place = {name: (name, 0) for name in decls}  # the owner of each buffer, and the byte in it
    for stmt in statements(body):
        if isinstance(stmt, Alloc):
            found[stmt.buffer.name] = stmt.buffer.element_bytes
            place[stmt.buffer.name] = (stmt.buffer.name, 0)
        elif isinstance(stmt, Alias):
            size = stmt.buffer.element_bytes
            root, start = place[stmt.data]
            start += stmt.offset * size
            if start % size:
                raise BackendError(
                    what, f"alias {stmt.buffer} begins at byte {start} of {root}", f"not a multiple of {size}"
                )
            place[stmt.buffer.name] = root, start
            found[root] = max(found[root], size)
    return found


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
        self.name = "run"
        self.scope = [Variable(kind, label) for kind, label in self.signature.types(self.index)]
        self.scope += [Variable(f"{self.index} ", label) for label in prepared.names.values()]
        what = f"function {self.func.name} on target {self.target}"
        self.aligned = alignments(prepared.body, prepared.checked.func.buffer_map, what)

    def body(self) -> list[str]:
        """The lines of the body."""
        return self.statement(self.prepared.body, 1, 0)

    def size(self, term: Term, indent: str) -> tuple[list[str], str]:
        """The text of a size, and the declarations that stand before it."""
        scope = Scope()
        (text,) = self.expressions.print_terms([term], scope)
        return [indent + line for line in scope.lines], text

    def local(self, stmt: Alloc, depth: int, loops: int, parallel: bool) -> list[str]:
        decl = stmt.buffer
        part = self.parts.get(decl.name)
        if part is not None and self.in_parallel:
            problem = f"local buffer {decl} of a parallel loop is larger than {MOST_STACK} bytes"
            what = f"function {self.func.name} on target {self.target}"
            raise BackendError(what, problem, "allocate it outside, or make it small")
        name = f"local{self.locals}" if part is None else part.name
        self.locals += 1
        self.expressions.buffers[decl.name] = name
        self.scope.append(Variable(f"{self.type_of(decl.dtype)} *", name))
        lines = self.statement(stmt.body, depth, loops)
        self.scope.pop()
        if part is not None:
            return lines
        indent = "    " * depth
        zero = " = {0}" if decl.size <= FEW else ""  # compilers warn where a loop that fills it may not run
        wide = self.aligned[decl.name]
        aligned = f" __attribute__((aligned({wide})))" if wide > decl.element_bytes else ""
        head = f"{indent}{self.type_of(decl.dtype)} {name}[{max(decl.size, 1)}]{aligned}{zero};"
        return [head, f"{indent}(void){name};", *lines]

    def loop(self, stmt: For, depth: int, loops: int, parallel: bool) -> list[str]:
        indent, name = "    " * depth, f"i{loops}"
        self.expressions.axes[stmt.axis] = name
        threads = stmt.kind == "parallel" and self.threads > 1 and not self.in_parallel
        if threads:
            depth, indent = 1, "    "
        lines, extent = self.size(self.prepared.extents[stmt.axis], indent)
        first, last = share(f"(ptrdiff_t)({extent})") if threads else ("0", extent)
        lines.append(f"{indent}for ({self.index} {name} = ({self.index})({first}); {name} < {last}; ++{name}) {{")
        outside, self.in_parallel = self.in_parallel, self.in_parallel or threads
        self.scope.append(Variable(f"{self.index} ", name))
        lines += self.statement(stmt.body, depth + 1, loops + 1)
        self.scope.pop()
        self.in_parallel = outside
        lines.append(f"{indent}}}")
        return self.shared(lines) if threads else lines
