"""A prepared function in OpenCL C: one kernel, its outermost loop over work-items where that is marked parallel."""

from __future__ import annotations

from dataclasses import replace

from eqsat.backends.functions.c_printer import StatementPrinter
from eqsat.backends.functions.prepare import Prepared
from eqsat.backends.opencl.expr import ClExpressions, helper_texts, spell
from eqsat.backends.opencl.profile import Profile
from eqsat.ir.statements.stmt import Alias, Alloc, For, Seq, Stmt, statements, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder


class ClStatementPrinter(StatementPrinter):
    """Prints a prepared function as an OpenCL kernel."""

    target = "opencl"

    def __init__(self, prepared: Prepared, profile: Profile) -> None:
        super().__init__(prepared, 1)
        local = [s.buffer.scalar for s in statements(prepared.body) if isinstance(s, (Alloc, Alias))]
        held = [*(d.scalar for d in self.func.buffer_map.values()), *local]
        held += [n.dtype for s in statements(prepared.body) for n in postorder(*stmt_terms(s))]
        profile.require(f"function {self.func.name}", held)
        names = self.signature.names
        self.expressions = ClExpressions(names, prepared.index, prepared.simplifier, {}, profile.exact_division)
        self.expressions.axes.update(prepared.names)
        self.spread = _spread(prepared.body)
        self.space = {name: "__global " for name in (*prepared.checked.func.params, *self.parts)}

    @property
    def items(self) -> Term:
        """The number of work-items, over the bounded sizes."""
        return t.index_const(1) if self.spread is None else self.prepared.extents[self.spread.axis]

    def source(self) -> str:
        """The text of the kernel and what it calls."""
        body = self.body()
        params = [f"__global {kind}{name}" for kind, name in self.signature.types(self.index)]
        params += [f"const {self.index} {name}" for name in self.prepared.names.values()]
        params += [f"__global {self.type_of(p.decl.dtype)} *restrict {p.name}" for p in self.parts.values()]
        lines = [f"__kernel void run({', '.join(params)})", "{", *body, "}", ""]
        text = spell("\n".join(lines))
        prelude = helper_texts(self.expressions.helpers, text)
        pragmas = ["#pragma OPENCL FP_CONTRACT OFF"]
        if any("double" in part for part in (text, *prelude)):
            pragmas.append("#pragma OPENCL EXTENSION cl_khr_fp64 : enable")
        return "\n\n".join(["\n".join(pragmas), *prelude, text])

    def loop(self, stmt: For, depth: int, loops: int, parallel: bool) -> list[str]:
        if stmt is not self.spread:
            return super().loop(replace(stmt, kind="serial"), depth, loops, parallel)
        indent, name = "    " * depth, f"i{loops}"
        self.expressions.axes[stmt.axis] = name
        self.in_parallel = True
        lines, extent = self.size(self.prepared.extents[stmt.axis], indent)
        lines.append(f"{indent}const {self.index} {name} = ({self.index})get_global_id(0);")
        lines.append(f"{indent}if ({name} < {extent}) {{")
        lines += [*self.statement(stmt.body, depth + 1, loops + 1), f"{indent}}}"]
        self.in_parallel = False
        return lines

    def alias(self, stmt: Alias, depth: int, loops: int, parallel: bool) -> list[str]:
        self.space[stmt.buffer.name] = space = self.space.get(stmt.data, "")
        base = self.expressions.buffers[stmt.data]
        lines = super().alias(stmt, depth, loops, parallel)
        if space and lines and f"void *){base}" in lines[0]:
            indent = "    " * depth
            head = lines[0].removeprefix(indent).replace("(const void *)", "(const __global void *)")
            kind, _, rest = head.partition(" = (")
            lines[0] = f"{indent}__global {kind} = (__global {rest.replace('(void *)', '(__global void *)')}"
        return lines


def _spread(body: Stmt) -> For | None:
    """The loop that is shared out: the whole body, but for aliases around it, and marked parallel."""
    while isinstance(body, Alias) or (isinstance(body, Seq) and len(body.parts) == 1):
        body = body.body if isinstance(body, Alias) else body.parts[0]
    return body if isinstance(body, For) and body.kind == "parallel" else None
