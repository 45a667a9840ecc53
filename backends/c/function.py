"""One PrimFunc as a static C function: its statements as they are, each loop a loop."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from eqsat.backends.c.expr import Expressions, Scope, index_type
from eqsat.backends.c.inner_loops import (
    GUARDS,
    SCALAR,
    SHORT,
    SWIZZLE,
    Swizzle,
    WrapAround,
    find_swizzle,
    find_wrap_around,
    is_gather,
    may_mix_guards,
)
from eqsat.backends.c.library import plain
from eqsat.backends.c.nest import local
from eqsat.backends.c.parallel import Variable, outlined, run_parts, share
from eqsat.backends.c.register_tile import HEADER as TILES
from eqsat.backends.c.register_tile import Tile, copies_name, round_name
from eqsat.backends.c.row_prefetch import DEFINITION as PREFETCH
from eqsat.backends.c.row_prefetch import NextRow, find_next_rows
from eqsat.backends.c.several import APART, run_function, runs
from eqsat.backends.c.types import c_type
from eqsat.backends.c.vector import HEADER
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.positions import POSITIONS
from eqsat.backends.lowering.registers import REGISTERS
from eqsat.backends.lowering.rows import ROW
from eqsat.backends.machine import LINE
from eqsat.ir.dtypes import BOOL, INDEX, itemsize
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import map_terms
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, For, If, Seq, Stmt, Store, children, statements, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute

COPIED = 8
"""Innermost loops of so few steps become straight lines, where the rows of a tile share its vectors."""
NAMES = {ROW: "row", POSITIONS: "place"}
"""What local buffers are called, by what they are for."""
FIRST_START = 10_000
"""Numbers of the axes that stand for where loops start that are split: from here on, which no loop has."""
PARALLEL_POINTS = 1 << 15
"""A loop nest of fewer stores than this runs in one thread: it takes about as long as waking another."""


def written(func: PrimFunc) -> set[str]:
    """The buffers that a function stores to, by their own name or through an alias."""
    found = {s.buffer for s in statements(func.body) if isinstance(s, Store)}
    for alias in reversed([s for s in statements(func.body) if isinstance(s, Alias)]):
        if alias.buffer.name in found:
            found.add(alias.data)
    return found


class Signature:
    """The parameters of a PrimFunc: their C types, and their names in0, in1, ..., out0, ...."""

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


class FunctionPrinter:
    """One PrimFunc as a static C function, its loops as they are."""

    def __init__(self, func: PrimFunc, threads: int, simplifier: IndexSimplifier, vector: int) -> None:
        self.func = func
        self.threads = threads
        self.simplifier = simplifier
        self.vector = vector
        self.plain = False
        """Whether what is printed stands beside a tile of vector registers, for compilers that have none."""
        self.signature = Signature(func)
        terms = [x for s in statements(func.body) for x in self.terms(s)]
        axes: list[Term] = [s.axis for s in statements(func.body) if isinstance(s, For)]
        self.index = index_type([*terms, *axes], simplifier)
        self.expressions = Expressions(self.signature.names, self.index, simplifier)
        self.locals = 0
        self.pieces: dict[str, str] = {}
        self.name = func.name
        self.scope = [Variable(kind, label) for kind, label in self.signature.types(self.index)]
        """What the statements that are printed now may use."""
        self.next_rows: Mapping[int, list[NextRow]] = {}
        """What loops in the outermost one prefetch."""

    def type_of(self, dtype: str) -> str:
        return "int64_t" if dtype == INDEX else c_type(dtype, self.index)

    def terms(self, stmt: Stmt) -> list[Term]:
        """What a statement evaluates itself: a store its index, then its value."""
        return list(stmt_terms(stmt))

    def lines(self) -> list[str]:
        params = [f"{kind}{name}" for kind, name in self.signature.types(self.index)]
        gathers = is_gather(self.func.body)
        parts = [] if gathers else runs(self.func.body)
        body = self.runs(parts) if len(parts) > 1 else self.statement(self.func.body, 1, 0, self.threads > 1)
        lines = [*self.head(), f"static void {self.func.name}({', '.join(params)})", "{", *body, "}"]
        if gathers:
            self.pieces["scalar"] = SCALAR
            return ["EQSAT_SCALAR", *lines]
        return lines

    def runs(self, parts: Sequence[Seq]) -> list[str]:
        """Runs of statements, each in a function of its own; the statements that call these."""
        self.pieces.setdefault("apart", APART)
        calls: list[str] = []
        for n, part in enumerate(parts):
            name = f"{self.name}_run{n}"
            body = self.statement(part, 1, 0, self.threads > 1)
            self.pieces[name], call = run_function(name, self.scope, body, self.head())
            calls.append(f"    {call}")
        return calls

    def head(self) -> list[str]:
        """What stands before the head of a function that runs statements of this one."""
        if not may_mix_guards(self.func.body):
            return []
        self.pieces.setdefault("guards", GUARDS)
        return ["EQSAT_GUARDS"]

    def statement(self, stmt: Stmt, depth: int, loops: int, parallel: bool = False) -> list[str]:
        """The lines of a statement; `loops` counts the loops around it, `parallel` asks for threads on the next one."""
        indent = "    " * depth
        if isinstance(stmt, Seq):
            return [line for part in stmt.parts for line in self.statement(part, depth, loops, parallel)]
        if isinstance(stmt, For):
            return self.loop(stmt, depth, loops, parallel)
        if isinstance(stmt, Store):
            return [indent + line for line in self.store(stmt)]
        if isinstance(stmt, Alloc):
            return self.local(stmt, depth, loops, parallel)
        if isinstance(stmt, Alias):
            return self.alias(stmt, depth, loops, parallel)
        if isinstance(stmt, If):
            scope = Scope()
            (condition,) = self.expressions.print_terms(self.terms(stmt), scope)
            lines = [*(indent + line for line in scope.lines), f"{indent}if ({condition}) {{"]
            lines += [*self.statement(stmt.then, depth + 1, loops), f"{indent}}}"]
            if stmt.orelse is not None:
                lines[-1] += " else {"
                lines += [*self.statement(stmt.orelse, depth + 1, loops), f"{indent}}}"]
            return lines
        assert isinstance(stmt, Assume)
        return []

    def local(self, stmt: Alloc, depth: int, loops: int, parallel: bool) -> list[str]:
        """A local buffer and what is done with it."""
        decl = stmt.buffer
        if decl.note == REGISTERS:
            return self.in_registers(stmt, depth, loops)
        name = f"{NAMES.get(decl.note, 'acc')}{self.locals}"
        self.locals += 1
        outside = self.expressions.buffers.get(decl.name)
        self.expressions.buffers[decl.name] = name
        self.scope.append(Variable(f"{self.type_of(decl.dtype)} *", name))
        # Rows and accumulators are of one thread; positions are those of all.
        body = self.statement(stmt.body, depth, loops, parallel and decl.note == POSITIONS)
        self.scope.pop()
        if outside is not None:
            self.expressions.buffers[decl.name] = outside
        declared, nbytes = f"{self.type_of(decl.dtype)} {name}[{max(decl.size, 1)}]", decl.size * itemsize(decl.dtype)
        return ["    " * depth + (local(declared, nbytes) if nbytes >= LINE else f"{declared};"), *body]

    def in_registers(self, stmt: Alloc, depth: int, loops: int) -> list[str]:
        """A tile of vector registers, and the same as plain loops."""
        decl = stmt.buffer
        tile = Tile(decl.name, decl.dtype, self.vector, self.expressions, self.simplifier)
        lines = self.in_tile(stmt.body, tile, depth + 1, loops)
        self.pieces |= tile.pieces
        self.plain = True
        plain = self.statement(Alloc(replace(decl, note=""), stmt.body), depth + 1, loops)
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
            rounds = round_name(self.vector) in tile.pieces
            few = f"{copies_name(self.vector) if rounds else 'COPIES'}({stmt.extent}) "
        head = f"{indent}{few}for ({self.index} {name} = 0; {name} < {stmt.extent}; ++{name}) {{"
        return [head, *inner, f"{indent}}}"]

    def loop(self, stmt: For, depth: int, loops: int, parallel: bool) -> list[str]:
        indent, name = "    " * depth, f"i{loops}"
        self.expressions.axes[stmt.axis] = name
        shared = parallel and stmt.extent > 1 and points(stmt) >= PARALLEL_POINTS
        if shared:
            pass
        elif (swizzle := find_swizzle(stmt, self.expressions.simplifier)) is not None:
            return [indent + line for line in self.swizzle(swizzle)]
        elif (wrap := find_wrap_around(stmt)) is not None and self.fits(stmt, wrap):
            return self.wrapped(stmt, wrap, depth, loops)
        if loops == 0:
            self.next_rows = find_next_rows(stmt, self.func, self.expressions.simplifier)
        inner = parallel and not shared and stmt.extent < self.threads
        few = ""
        if stmt.kind == "vectorized" and not self.plain:
            # As straight lines compilers would take it element by element.
            few = "ROLLED "
            self.pieces.setdefault("EQSAT_TILES", TILES)
        first, last = "0", str(stmt.extent)
        if shared:
            depth, indent = 1, "    "
            first, last = share(last)
            first = f"({self.index})({first})"
        lines = [f"{indent}{few}for ({self.index} {name} = {first}; {name} < {last}; ++{name}) {{"]
        self.scope.append(Variable(f"{self.index} ", name))
        lines += self.statement(stmt.body, depth + 1, loops + 1, inner)
        self.scope.pop()
        for row in self.next_rows.get(id(stmt), ()):
            self.pieces["PREFETCH"] = PREFETCH
            texts = row.text(self.expressions.buffers[row.buffer], [f"i{n}" for n in range(loops)], name)
            lines += [f"{indent}    {text}" for text in texts]
        lines.append(f"{indent}}}")
        return self.shared(lines) if shared else lines

    def shared(self, lines: Sequence[str]) -> list[str]:
        """Lines that all threads run, in a function of their own; the statement that calls it."""
        name = f"{self.name}_part{sum('_part' in piece for piece in self.pieces)}"
        text, call = outlined(name, self.scope, lines, self.threads, self.head())
        self.pieces.setdefault("run_parts", run_parts(self.threads))
        self.pieces[name] = text
        return [f"    {call}"]

    def swizzle(self, row: Swizzle) -> list[str]:
        """A loop that permutes the bytes of a row by an exclusive or."""
        self.pieces |= {"vectors": HEADER, "swizzle": SWIZZLE}
        scope, buffers = Scope(), self.expressions.buffers
        index, source, mask = self.expressions.print_terms([row.index, row.source, row.mask], scope)
        there, here = f"(char *)({buffers[row.buffer]} + {index})", f"(const char *)({buffers[row.operand]} + {source})"
        mask = f"(ptrdiff_t)({mask}) * {row.unit}" if row.unit > 1 else mask
        return [*scope.lines, f"swizzle_bytes({there}, {here}, {row.nbytes}, {mask});"]

    def held(self, stmt: For, wrap: WrapAround) -> Term:
        """The term that stands for where a loop starts."""
        return t.make("axis", (t.index_const(wrap.modulus),), (stmt.axis.payload[0], FIRST_START + self.locals))

    def fits(self, stmt: For, wrap: WrapAround) -> bool:
        """Whether what is left of an index that wraps round is no wider than the index was."""
        values = wrap.values(stmt, self.held(stmt, wrap))
        inside = [x for s in statements(stmt.body) for x in stmt_terms(s)]
        terms = [substitute(x, {wrap.node: value}) for value in values for x in inside]
        return self.index == "int64_t" or index_type(terms, self.expressions.simplifier) == self.index

    def wrapped(self, stmt: For, wrap: WrapAround, depth: int, loops: int) -> list[str]:
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
            body = map_terms(stmt.body, lambda x, value=value: substitute(x, {wrap.node: value}))
            lines += [*self.statement(body, depth + 1, loops + 1), f"{indent}}}"]
        return lines

    def alias(self, stmt: Alias, depth: int, loops: int, parallel: bool) -> list[str]:
        """The same memory under another name and type."""
        indent, name, decl = "    " * depth, f"alias{self.locals}", stmt.buffer
        self.locals += 1
        const = "" if decl.name in self.signature.written or stmt.data in self.signature.written else "const "
        base = self.expressions.buffers[stmt.data]
        outside = self.expressions.buffers.get(decl.name)
        self.expressions.buffers[decl.name] = name
        kind = f"{const}{self.type_of(decl.dtype)} *"
        self.scope.append(Variable(kind, name))
        body = self.statement(stmt.body, depth, loops, parallel)
        self.scope.pop()
        if outside is not None:
            self.expressions.buffers[decl.name] = outside
        if not any(re.search(rf"\b{name}\b", line) for line in body):
            return body
        there = f" + {stmt.offset}" if stmt.offset else ""
        return [f"{indent}{kind}{name} = ({kind})({const}void *){base}{there};", *body]

    def store(self, stmt: Store) -> list[str]:
        index, value = self.terms(stmt)
        return self.assigned(self.expressions.buffers[stmt.buffer], value, index)

    def assigned(self, target: str, value: Term, index: Term | None = None) -> list[str]:
        """What sets a target, or its element at an index, to a value."""
        terms = [value] if index is None else [index, value]
        *at, text = self.expressions.print_terms(terms, scope := Scope())
        text = f"(uint8_t)({text})" if value.dtype == BOOL else text
        place = "".join(f"[{i}]" for i in at)
        return [*scope.lines, f"{target}{place} = {self.expressions.narrowed(value.dtype, text)};"]


def points(stmt: Stmt) -> int:
    """About how often the innermost statements run."""
    if isinstance(stmt, For):
        return stmt.extent * points(stmt.body)
    inner = [points(part) for part in children(stmt)]
    return sum(inner) if isinstance(stmt, Seq) else max(inner, default=1)
