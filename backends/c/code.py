"""Statements as C: one static function per kernel, one exported function per run of kernels, and a header."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from eqsat.backends.c.expr import Expressions, Scope, index_type
from eqsat.backends.c.half import HALF
from eqsat.backends.c.library import Library, Part, plain
from eqsat.backends.c.moves import print_moves
from eqsat.backends.c.registers import HEADER as TILES
from eqsat.backends.c.registers import Tile
from eqsat.backends.c.types import c_type, helper
from eqsat.backends.c.vector import HEADER
from eqsat.backends.c.wrap import SCALAR, SWIZZLE, Swizzle, Wrap, find_swizzle, find_wrap, is_gather, replaced
from eqsat.backends.interface import Buffer, Unit
from eqsat.backends.lowering.affine import Folder
from eqsat.backends.lowering.lowered import Lowered
from eqsat.backends.lowering.moves import Move
from eqsat.backends.lowering.registers import REGISTERS
from eqsat.backends.lowering.rows import ROW
from eqsat.backends.machine import Machine, this_machine
from eqsat.backends.schedules.choose import schedule
from eqsat.backends.schedules.schedule import Plan
from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.statements.primfunc import PrimFunc, require_rank
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, For, If, Seq, Stmt, Store, statements, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import leaves

PART = 12
"""About how many functions go to one run of the compiler, where there are more."""
STATIC = "static void "
HIDDEN = '__attribute__((visibility("hidden")))'
"""What functions are in place of static where the others may be in another source."""

SHORT = 16
"""Compilers unroll loops of so few steps."""
COPIED = 8
"""Innermost loops of so few steps become straight lines, where the rows of a tile share its vectors."""
PARALLEL_POINTS = 1 << 15
"""A loop nest of fewer stores than this is not worth waking threads for."""


def written(func: PrimFunc) -> set[str]:
    """The buffers that a function stores to, by their own name or through an alias."""
    found = {s.buffer for s in statements(func.body) if isinstance(s, Store)}
    for alias in reversed([s for s in statements(func.body) if isinstance(s, Alias)]):
        if alias.buffer.name in found:
            found.add(alias.data)
    return found


class _Signature:
    """The parameters of a PrimFunc: C types, and the names in0, in1, ..., out0."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.written = written(func)
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

    def __init__(self, func: PrimFunc, threads: int, folder: Folder, vector: int) -> None:
        self.func = func
        self.threads = threads
        self.folder = folder
        self.vector = vector
        self.plain = False
        """Whether what is printed stands beside a tile of vector registers, for compilers that have none."""
        self.signature = _Signature(func)
        terms = [x for s in statements(func.body) for x in stmt_terms(s)]
        axes: list[Term] = [s.axis for s in statements(func.body) if isinstance(s, For)]
        self.index = index_type([*terms, *axes], folder)
        self.expressions = Expressions(self.signature.names, self.index, folder)
        self.locals = 0
        self.pieces: dict[str, str] = {}

    def type_of(self, dtype: str) -> str:
        return "int64_t" if dtype == INDEX else c_type(dtype, self.index)

    def lines(self) -> list[str]:
        params = [f"{kind}{name}" for kind, name in self.signature.types(self.index)]
        body = self.statement(self.func.body, 1, 0, self.threads > 1)
        lines = [f"static void {self.func.name}({', '.join(params)})", "{", *body, "}"]
        if is_gather(self.func.body):
            self.pieces["scalar"] = SCALAR
            return ["EQSAT_SCALAR", *lines]
        return lines

    def statement(self, stmt: Stmt, depth: int, loops: int, parallel: bool) -> list[str]:
        """The lines of a statement; `loops` counts the loops around it, `parallel` asks for threads on the next one."""
        indent = "    " * depth
        if isinstance(stmt, Seq):
            return [line for part in stmt.parts for line in self.statement(part, depth, loops, parallel)]
        if isinstance(stmt, For):
            return self.loop(stmt, depth, loops, parallel)
        if isinstance(stmt, Store):
            return [indent + line for line in self.store(stmt)]
        if isinstance(stmt, Alloc) and stmt.buffer.note == REGISTERS:
            return self.tile(stmt, depth, loops)
        if isinstance(stmt, Alloc):
            decl = stmt.buffer
            name = f"{'row' if decl.note == ROW else 'acc'}{self.locals}"
            self.locals += 1
            outside = self.expressions.buffers.get(decl.name)
            self.expressions.buffers[decl.name] = name
            body = self.statement(stmt.body, depth, loops, False)
            if outside is not None:
                self.expressions.buffers[decl.name] = outside
            return [f"{indent}{self.type_of(decl.dtype)} {name}[{max(decl.size, 1)}];", *body]
        if isinstance(stmt, Alias):
            return self.alias(stmt, depth, loops, parallel)
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

    def tile(self, stmt: Alloc, depth: int, loops: int) -> list[str]:
        """A tile of vector registers, and the same as plain loops."""
        decl = stmt.buffer
        tile = Tile(decl.name, decl.dtype, self.vector, self.expressions, self.folder)
        lines = self.in_tile(stmt.body, tile, depth + 1, loops)
        self.pieces |= tile.pieces
        self.plain = True
        plain = self.statement(Alloc(replace(decl, note=""), stmt.body), depth + 1, loops, False)
        self.plain = False
        indent = "    " * depth
        return [f"{indent}{{", "#ifdef EQSAT_TILES", *lines, "#else", *plain, "#endif", f"{indent}}}"]

    def in_tile(self, stmt: Stmt, tile: Tile, depth: int, loops: int) -> list[str]:
        """The lines of the loops of a reduction over a tile of vector registers."""
        indent = "    " * depth
        if isinstance(stmt, Seq):
            return [line for part in stmt.parts for line in self.in_tile(part, tile, depth, loops)]
        assert isinstance(stmt, For)
        if stmt.kind != "serial":
            return [indent + line for line in tile.lines(stmt)]
        name = self.expressions.axes[stmt.axis] = f"i{loops}"
        inner = self.in_tile(stmt.body, tile, depth + 1, loops + 1)
        few = "ROLLED " if stmt.extent <= SHORT else ""
        if stmt.extent <= COPIED and isinstance(stmt.body, For) and stmt.body.kind != "serial" and tile.named["v"]:
            few = f"COPIES({stmt.extent}) "
        head = f"{indent}{few}for ({self.index} {name} = 0; {name} < {stmt.extent}; ++{name}) {{"
        return [head, *inner, f"{indent}}}"]

    def loop(self, stmt: For, depth: int, loops: int, parallel: bool) -> list[str]:
        indent, name = "    " * depth, f"i{loops}"
        self.expressions.axes[stmt.axis] = name
        lines: list[str] = []
        if parallel and stmt.extent > 1 and _points(stmt) >= PARALLEL_POINTS:
            lines.append(f"#pragma omp parallel for num_threads({self.threads})")
        elif (swizzle := find_swizzle(stmt, self.expressions.folder)) is not None:
            return [indent + line for line in self.swizzle(swizzle)]
        elif (wrap := find_wrap(stmt)) is not None and self.fits(stmt, wrap):
            return self.wrapped(stmt, wrap, depth, loops)
        inner = parallel and not lines and stmt.extent < self.threads
        few = ""
        if stmt.kind == "vectorized" and not self.plain:
            # As straight lines compilers would take it element by element.
            few = "ROLLED "
            self.pieces.setdefault("EQSAT_TILES", TILES)
        lines.append(f"{indent}{few}for ({self.index} {name} = 0; {name} < {stmt.extent}; ++{name}) {{")
        return [*lines, *self.statement(stmt.body, depth + 1, loops + 1, inner), f"{indent}}}"]

    def swizzle(self, row: Swizzle) -> list[str]:
        """A loop that permutes the bytes of a row by an exclusive or."""
        self.pieces |= {"vectors": HEADER, "swizzle": SWIZZLE}
        scope, buffers = Scope(), self.expressions.buffers
        index, source, turn = self.expressions.print_terms([row.index, row.source, row.turn], scope)
        there, here = f"(char *)({buffers[row.buffer]} + {index})", f"(const char *)({buffers[row.operand]} + {source})"
        turned = f"(ptrdiff_t)({turn}) * {row.unit}" if row.unit > 1 else turn
        return [*scope.lines, f"swizzle_bytes({there}, {here}, {row.nbytes}, {turned});"]

    def held(self, stmt: For, wrap: Wrap) -> Term:
        """The term that stands for where a loop starts."""
        return t.make("axis", (t.index_const(wrap.modulus),), (stmt.axis.payload[0], 10000 + self.locals))

    def fits(self, stmt: For, wrap: Wrap) -> bool:
        """Whether what is left of an index that wraps round is no wider than the index was."""
        pieces = [replaced(stmt.body, wrap.node, value) for value in wrap.values(stmt, self.held(stmt, wrap))]
        terms = [x for piece in pieces for s in statements(piece) for x in stmt_terms(s)]
        return self.index == "int64_t" or index_type(terms, self.expressions.folder) == self.index

    def wrapped(self, stmt: For, wrap: Wrap, depth: int, loops: int) -> list[str]:
        """A loop cut where an index wraps round."""
        indent, name, size, m = "    " * depth, f"i{loops}", stmt.extent, wrap.modulus
        start, cut, held = f"start{self.locals}", f"cut{self.locals}", self.held(stmt, wrap)
        self.locals += 1
        scope = Scope()
        (first,) = self.expressions.print_terms([t.binary("mod", wrap.shift, t.index_const(m))], scope)
        self.expressions.axes[held] = start
        lines = [*scope.lines, f"const {self.index} {start} = {first};"]
        steps = f"{m} - {start}" if wrap.sign > 0 else f"{start} + 1"
        short = size < m or wrap.sign < 0
        lines.append(f"const {self.index} {cut} = {f'{steps} < {size} ? {steps} : {size}' if short else steps};")
        lines = [indent + line for line in lines]
        ends = ("0", cut, str(size))
        for low, high, value in zip(ends, ends[1:], wrap.values(stmt, held), strict=False):
            lines.append(f"{indent}for ({self.index} {name} = {low}; {name} < {high}; ++{name}) {{")
            body = replaced(stmt.body, wrap.node, value)
            lines += [*self.statement(body, depth + 1, loops + 1, False), f"{indent}}}"]
        return lines

    def alias(self, stmt: Alias, depth: int, loops: int, parallel: bool) -> list[str]:
        """The same memory under another name and type."""
        indent, name, decl = "    " * depth, f"alias{self.locals}", stmt.buffer
        self.locals += 1
        inside = [x for s in statements(stmt.body) for x in stmt_terms(s)]
        names = {s.buffer for s in statements(stmt.body) if isinstance(s, Store)}
        names |= {n.payload for n in leaves("load", *inside)}
        names |= {s.data for s in statements(stmt.body) if isinstance(s, Alias)}
        const = "" if decl.name in self.signature.written or stmt.data in self.signature.written else "const "
        base = self.expressions.buffers[stmt.data]
        outside = self.expressions.buffers.get(decl.name)
        self.expressions.buffers[decl.name] = name
        body = self.statement(stmt.body, depth, loops, parallel)
        if outside is not None:
            self.expressions.buffers[decl.name] = outside
        if decl.name not in names:
            return body
        kind = f"{const}{self.type_of(decl.dtype)} *"
        there = f" + {stmt.offset}" if stmt.offset else ""
        return [f"{indent}{kind}{name} = ({kind})({const}void *){base}{there};", *body]

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
    folder = Folder(lowered.tables)
    groups: list[list[PrimFunc]] = [[]]
    for step in lowered.steps:
        if isinstance(step, PrimFunc):
            groups[-1].append(step)
        elif groups[-1]:
            groups.append([])
    groups = [g for g in groups if g]
    helpers: dict[str, None] = {}
    functions: list[list[str]] = []
    pieces: dict[str, str] = {}
    printed: dict[str, str] = {}
    called: dict[str, str] = {}
    for func in (f for g in groups for f in g):
        require_rank(func, (1,), "c")
        first = lowered.equal.get(func.name)
        if first is not None and given.get(func.name) == given.get(first) is None:
            called[func.name] = called[first]
            continue
        moves = lowered.moves.get(func.name)
        planned = given.get(func.name) or (None if moves is None else schedule(moves, machine, threads))
        if planned:
            signature = _Signature(func)
            params = signature.types("int64_t")
            lines, needed, scalar = print_moves(func.name, params, signature.names, planned, machine)
            pieces |= needed
            helpers.update(scalar)
        else:
            printer = _FunctionPrinter(func, threads, folder, machine.vector)
            signature, lines = printer.signature, printer.lines()
            helpers.update(printer.expressions.helpers)
            pieces |= printer.pieces
        text = re.sub(rf"\b{func.name}\b", "", "\n".join(lines))
        if text not in printed:
            printed[text] = func.name
            functions.append([*signature.note, *lines, ""])
        called[func.name] = printed[text]
    prelude = "\n\n".join([*(helper(h) for h in helpers), *pieces.values()])
    text = "\n".join(line for lines in functions for line in lines)
    mentioned = "_half" in text + prelude or "half_" in text + prelude
    half = HALF + "\n" if mentioned or any(b.dtype == "float16" for b in lowered.buffers.values()) else ""
    start = f"#include <math.h>\n#include <stdint.h>\n{half}\n" + (prelude + "\n\n" if prelude else "")
    library = Library(lowered.program.name, lowered)
    given = [b.name for b in library.given()]
    for n, group in enumerate(groups):
        buffers = _arguments(lowered, group)
        whole = len(groups) == len(lowered.calls) == 1
        name = f"{library.base}_{'with_constants' if whole else n}"
        if whole and [b.name for b in buffers] == given:
            name = library.base
        used = {b for func in group for b in func.params}
        local = tuple(b for b in lowered.buffers.values() if b.role == "workspace" and b.name in used)
        stored = frozenset(name for func in group for name in written(func))
        calls = tuple((called[func.name], func.params) for func in group)
        library.add(Part(name, buffers, stored, local, calls))
    exported = library.text()
    source = start + text + ("\n" if text else "") + exported
    return Unit(source, library.header(), tuple(library.entries), library.whole, _parts(start, functions, exported))


def _parts(start: str, functions: Sequence[Sequence[str]], exported: str) -> tuple[str, ...]:
    """The source as several that can be compiled at the same time: shares of the functions, and what is exported."""
    count = min(-(-len(functions) // PART), os.cpu_count() or 1)
    if count < 2:
        return ()
    shares: list[list[str]] = [[] for _ in range(count)]
    heads: list[str] = []
    for lines in sorted(functions, key=len, reverse=True):
        head = next(line for line in lines if line.startswith(STATIC))
        there = head.replace("static", HIDDEN, 1)
        heads.append(there + ";")
        text = "\n".join(there if line is head else line for line in lines)
        min(shares, key=lambda share: sum(map(len, share))).append(text)
    texts = ["\n".join(share) for share in shares]
    texts[-1] = "\n".join([*heads, "", texts[-1]]) + "\n" + exported
    return tuple(start + text for text in texts)


def _arguments(lowered: Lowered, group: Sequence[PrimFunc]) -> tuple[Buffer, ...]:
    """The buffers that a caller passes: inputs, outputs, and what the group needs besides."""
    used = {name for func in group for name in func.params}
    ends = dict.fromkeys((*lowered.inputs.values(), *lowered.outputs.values()))
    ordered = (*ends, *(b for b in lowered.buffers if b not in ends))
    return tuple(b for b in (lowered.buffers[n] for n in ordered) if b.name in used and b.role != "workspace")
