"""Statements as C: one static function per kernel, one exported function per run of kernels, and a header."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eqsat.backends.affine import Folder
from eqsat.backends.c_expr import Expressions, Scope, index_type
from eqsat.backends.c_moves import print_moves
from eqsat.backends.c_types import HALF, c_type, helper
from eqsat.backends.choose import schedule
from eqsat.backends.lower import Buffer, Lowered
from eqsat.backends.machine import Machine, this_machine
from eqsat.backends.moves import Move
from eqsat.backends.schedule import Plan
from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.stmt import Alloc, Assume, For, If, PrimFunc, Seq, Stmt, Store, statements, stmt_terms
from eqsat.ir.term import Term

PARALLEL_POINTS = 1 << 15
"""A loop nest of fewer stores than this is not worth waking threads for."""


@dataclass(frozen=True)
class Unit:
    """A translation unit: its text, its header, and the exported functions with the buffers each takes in order."""

    source: str
    header: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Entry:
    """An exported function: its name and the buffers it takes, the workspace last."""

    name: str
    buffers: tuple[str, ...]


def plain(text: str, limit: int = 120) -> str:
    """A name or label from a model, safe inside of a C comment."""
    clean = re.sub(r"[^A-Za-z0-9_ ,.:()\[\]-]", "?", text)
    return clean if len(clean) <= limit else clean[: limit - 3] + "..."


def identifier(text: str) -> str:
    """A C identifier made from a name: lower case, letters, digits and underscores."""
    return re.sub(r"[^a-z0-9_]", "_", text.lower())[:40] or "program"


class _Signature:
    """The parameters of a PrimFunc: C types, and the names in0, in1, ..., out0."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.written = {s.buffer for s in statements(func.body) if isinstance(s, Store)}
        self.names: dict[str, str] = {}
        for name in func.params:
            kind = "out" if name in self.written else "in"
            self.names[name] = f"{kind}{sum(n.startswith(kind) for n in self.names.values())}"
        self.note = [f"/* {plain(func.note)} */"] if func.note else []

    def types(self, index: str) -> list[tuple[str, str]]:
        """The type and the name of every parameter."""
        result: list[tuple[str, str]] = []
        for name in self.func.params:
            dtype, const = self.func.buffer_map[name].dtype, "" if name in self.written else "const "
            kind = "int64_t" if dtype == INDEX else c_type(dtype, index)
            result.append((f"{const}{kind} *restrict ", self.names[name]))
        return result


class _FunctionPrinter:
    """One PrimFunc as a static C function, its loops as they are."""

    def __init__(self, func: PrimFunc, threads: int, folder: Folder) -> None:
        self.func = func
        self.threads = threads
        self.signature = _Signature(func)
        terms = [x for s in statements(func.body) for x in stmt_terms(s)]
        axes: list[Term] = [s.axis for s in statements(func.body) if isinstance(s, For)]
        self.index = index_type([*terms, *axes], folder)
        self.expressions = Expressions(self.signature.names, self.index, folder)
        self.locals = 0

    def type_of(self, dtype: str) -> str:
        return "int64_t" if dtype == INDEX else c_type(dtype, self.index)

    def lines(self) -> list[str]:
        params = [f"{kind}{name}" for kind, name in self.signature.types(self.index)]
        body = self.statement(self.func.body, 1, 0, self.threads > 1)
        return [f"static void {self.func.name}({', '.join(params)})", "{", *body, "}"]

    def statement(self, stmt: Stmt, depth: int, loops: int, parallel: bool) -> list[str]:
        """The lines of a statement; `loops` counts the loops around it, `parallel` asks for threads on the next one."""
        indent = "    " * depth
        if isinstance(stmt, Seq):
            return [line for part in stmt.parts for line in self.statement(part, depth, loops, parallel)]
        if isinstance(stmt, For):
            return self.loop(stmt, depth, loops, parallel)
        if isinstance(stmt, Store):
            return [indent + line for line in self.store(stmt)]
        if isinstance(stmt, Alloc):
            name, decl = f"acc{self.locals}", stmt.buffer
            self.locals += 1
            outside = self.expressions.buffers.get(decl.name)
            self.expressions.buffers[decl.name] = name
            body = self.statement(stmt.body, depth, loops, False)
            if outside is not None:
                self.expressions.buffers[decl.name] = outside
            return [f"{indent}{self.type_of(decl.dtype)} {name}[{max(decl.size, 1)}];", *body]
        if isinstance(stmt, If):
            scope = Scope()
            (condition,) = self.expressions.print_terms([stmt.condition], scope)
            lines = [*(indent + line for line in scope.lines), f"{indent}if ({condition}) {{"]
            lines += [*self.statement(stmt.then, depth + 1, loops, False), f"{indent}}}"]
            if stmt.orelse is not None:
                lines[-1] += " else {"
                lines += [*self.statement(stmt.orelse, depth + 1, loops, False), f"{indent}}}"]
            return lines
        assert isinstance(stmt, Assume)
        return []

    def loop(self, stmt: For, depth: int, loops: int, parallel: bool) -> list[str]:
        indent, name = "    " * depth, f"i{loops}"
        self.expressions.axes[stmt.axis] = name
        lines: list[str] = []
        if parallel and stmt.extent > 1 and _points(stmt) >= PARALLEL_POINTS:
            lines.append(f"#pragma omp parallel for num_threads({self.threads})")
        inner = parallel and not lines and stmt.extent < self.threads
        lines.append(f"{indent}for ({self.index} {name} = 0; {name} < {stmt.extent}; ++{name}) {{")
        return [*lines, *self.statement(stmt.body, depth + 1, loops + 1, inner), f"{indent}}}"]

    def store(self, stmt: Store) -> list[str]:
        scope = Scope()
        *index, value = self.expressions.print_terms([*stmt.index, stmt.value], scope)
        if stmt.value.dtype == BOOL:
            value = f"(uint8_t)({value})"
        value = self.expressions.narrowed(stmt.value.dtype, value)
        return [*scope.lines, f"{self.expressions.buffers[stmt.buffer]}[{index[0]}] = {value};"]


def _points(stmt: Stmt) -> int:
    """About how often the innermost statements run."""
    if isinstance(stmt, For):
        return stmt.extent * _points(stmt.body)
    if isinstance(stmt, Seq):
        return sum(_points(p) for p in stmt.parts)
    return _points(stmt.body) if isinstance(stmt, Alloc) else 1


Schedules = Mapping[str, Sequence[tuple[Move, Plan]]]
"""Moves with their schedules, by the name of the function that they make up."""


def print_unit(
    lowered: Lowered, threads: int = 1, machine: Machine | None = None, schedules: Schedules | None = None
) -> Unit:
    """The C of a lowered program, for this machine if no other is named; `schedules` overrides the default choice."""
    machine = machine or this_machine()
    given = schedules or {}
    folder = Folder({n: a for n, a in lowered.constants.items() if lowered.buffers[n].dtype == INDEX})
    groups: list[list[PrimFunc]] = [[]]
    for step in lowered.steps:
        if isinstance(step, PrimFunc):
            groups[-1].append(step)
        elif groups[-1]:
            groups.append([])
    groups = [g for g in groups if g]
    helpers: dict[str, None] = {}
    functions: list[str] = []
    pieces: dict[str, str] = {}
    printed: dict[str, str] = {}
    called: dict[str, str] = {}
    for func in (f for g in groups for f in g):
        moves = lowered.moves.get(func.name)
        planned = given.get(func.name) or (None if moves is None else schedule(moves, machine, threads))
        if planned:
            signature = _Signature(func)
            params = signature.types("int64_t")
            lines, needed, scalar = print_moves(func.name, params, signature.names, planned, machine)
            pieces |= needed
            helpers.update(scalar)
        else:
            printer = _FunctionPrinter(func, threads, folder)
            signature, lines = printer.signature, printer.lines()
            helpers.update(printer.expressions.helpers)
        text = re.sub(rf"\b{func.name}\b", "", "\n".join(lines))
        if text not in printed:
            printed[text] = func.name
            functions += [*signature.note, *lines, ""]
        called[func.name] = printed[text]
    base = f"eqsat_{identifier(lowered.program.name)}"
    entries: list[Entry] = []
    prototypes: list[str] = []
    for n, group in enumerate(groups):
        name = base if len(groups) == 1 else f"{base}_{n}"
        buffers = _arguments(lowered, group)
        prototype, body = _entry(name, buffers, group, lowered, called)
        entries.append(Entry(name, tuple(b.name for b in buffers)))
        prototypes.append(prototype)
        functions += [f"{prototype}", *body, ""]
    prelude = "\n\n".join([*(helper(h) for h in helpers), *pieces.values()])
    text = "\n".join(functions)
    half = HALF + "\n" if "_half" in text + prelude or "half_" in text + prelude else ""
    source = f"#include <math.h>\n#include <stdint.h>\n{half}\n" + (prelude + "\n\n" if prelude else "") + text
    return Unit(source, _header(base, lowered, entries, prototypes), tuple(entries))


def _arguments(lowered: Lowered, group: Sequence[PrimFunc]) -> list[Buffer]:
    """The buffers that a caller passes, in the program's order."""
    used = {name for func in group for name in func.params}
    return [b for b in lowered.buffers.values() if b.name in used and b.role != "workspace"]


def _entry(
    name: str, buffers: Sequence[Buffer], group: Sequence[PrimFunc], lowered: Lowered, called: Mapping[str, str]
) -> tuple[str, list[str]]:
    """The exported function of a group; equal kernels have one function, which `called` names."""
    kinds = {"input": "const ", "constant": "const ", "output": ""}
    written = {s.buffer for func in group for s in statements(func.body) if isinstance(s, Store)}
    params = [
        f"{kinds[b.role] if b.name not in written else ''}{_c_type(b)} *{b.name}" for b in buffers
    ]  # fmt: skip
    prototype = f"int {name}({', '.join([*params, 'void *workspace'])})"
    local = [b for b in lowered.buffers.values() if b.role == "workspace"]
    used = {n for func in group for n in func.params}
    lines = ["{"]
    pointers = [b.name for b in buffers]
    if any(b.name in used for b in local):
        pointers.append("workspace")
    else:
        lines.append("    (void)workspace;")
    if pointers:
        lines.append(f"    if ({' || '.join(f'!{p}' for p in pointers)}) return 1;")
    for b in local:
        if b.name in used:
            lines.append(f"    {_c_type(b)} *{b.name} = ({_c_type(b)} *)((char *)workspace + {b.offset});")
    lines += [f"    {called[func.name]}({', '.join(func.params)});" for func in group]
    return prototype, [*lines, "    return 0;", "}"]


def _c_type(buffer: Buffer) -> str:
    return c_type(buffer.dtype, "int64_t")


def _header(base: str, lowered: Lowered, entries: Sequence[Entry], prototypes: Sequence[str]) -> str:
    guard = f"{base.upper()}_H"
    names = {b: n for n, b in [*lowered.inputs.items(), *lowered.outputs.items()]}
    lines = [f"#ifndef {guard}", f"#define {guard}", "", "#include <stdint.h>", ""]
    lines += ["/* Buffers are dense and row-major; none may overlap one that is written."]
    for b in lowered.buffers.values():
        if b.role != "workspace" and any(b.name in e.buffers for e in entries):
            label = names.get(b.name, b.label)
            lines.append(f"   {b.name}: {b.role} {plain(label)}, {b.dtype}[{', '.join(map(str, b.shape))}]")
    lines.append(
        f"   workspace: {lowered.workspace_bytes} bytes, aligned to 64; answers 0, or 1 for a null pointer. */"
    )
    if any(b.dtype == "float16" for b in lowered.buffers.values()):
        lines += [
            "#ifdef __FLT16_MANT_DIG__",
            "typedef _Float16 eqsat_half;",
            "#else",
            "typedef uint16_t eqsat_half;",
            "#endif",
        ]
    lines += [f"{p};" for p in prototypes]
    return "\n".join([*lines, "", f"#endif /* {guard} */", ""])
