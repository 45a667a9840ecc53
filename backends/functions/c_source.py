"""The C of one function over buffers: a static function, and an exported one that checks what it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eqsat.backends.c.element_types import declarations, definitions
from eqsat.backends.c.expr import Expressions, Scope
from eqsat.backends.c.library import CONTRACTED, OVERLAP, STATUS, exported_name, plain, with_c_linkage
from eqsat.backends.c.parallel import FEATURES
from eqsat.backends.c.types import helper, prelude
from eqsat.backends.functions.c_printer import StatementPrinter
from eqsat.backends.functions.prepare import Prepared
from eqsat.backends.interface import ALIGNMENT
from eqsat.ir.statements.decl import BufferDecl
from eqsat.ir.statements.text import FunctionText
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.shape import format_shape
from eqsat.ir.terms.term import Term

ANSWERS = (*STATUS.values(), "a size out of its range")
"""What the answers of an exported function say, from 1 on."""
BAD_SIZE = len(ANSWERS)


@dataclass(frozen=True, eq=False)
class CSource(Record):
    """The text, the header and the name of the exported function, and the bytes that its workspace needs."""

    text: str
    header: str
    name: str
    workspace: Term


class _Exported:
    """The exported function; sizes and bytes are computed in 64 bits."""

    def __init__(self, prepared: Prepared, printer: StatementPrinter) -> None:
        self.prepared = prepared
        self.printer = printer
        self.func = prepared.checked.func
        self.expressions = Expressions({}, "int64_t", prepared.simplifier)
        self.expressions.axes.update(prepared.names)
        self.name = exported_name(self.func.name)

    def number(self, term: Term, lines: list[str]) -> str:
        """The text of a size; what it needs declared is added to the lines."""
        scope = Scope()
        (text,) = self.expressions.print_terms([term], scope)
        lines += scope.lines
        return text

    def prototype(self) -> str:
        signature = self.printer.signature
        pointers = [f"{kind.replace(' *restrict ', ' *')}{name}" for kind, name in signature.types("int64_t")]
        sizes = [f"int64_t {name}" for name in self.prepared.names.values()]
        return f"int {self.name}({', '.join([*pointers, *sizes, 'void *workspace'])})"

    def nbytes(self, decl: BufferDecl, lines: list[str]) -> str:
        return f"(uintptr_t)({self.number(self.prepared.nbytes(decl), lines)})"

    def checks(self) -> list[str]:
        """Statements that refuse null pointers, sizes out of range, addresses that are not aligned, and results over
        other arguments."""
        names, written = self.printer.signature.names, self.printer.signature.written
        lines = [f"if ({' || '.join(f'!{n}' for n in names.values())}) return 1;"] if names else []
        for size, name in self.prepared.names.items():
            _, lower, upper, multiple, _ = t.symbol_facts(size)
            test = f"{name} < {_wide(lower or 0)} || {name} > {_wide(upper or 0)}"
            lines.append(f"if ({test}{f' || {name} % {multiple}' if multiple > 1 else ''}) return {BAD_SIZE};")
        decls = self.func.buffer_map
        for label, name in names.items():
            align = self.printer.aligned[label]
            lines += [f"if ((uintptr_t){name} % {align}) return 2;"] * (align > 1)
        if self.printer.parts:
            lines.append(f"if (!workspace || (uintptr_t)workspace % {ALIGNMENT}) return 2;")
        else:
            lines.append("(void)workspace;")
        spans = [(names[n], self.nbytes(decls[n], lines), n in written) for n in self.func.params]
        for k, (a, count, writes) in enumerate(spans):
            for b, other, also in spans[:k]:
                if writes or also:
                    lines.append(f"if (overlap({a}, {count}, {b}, {other})) return 3;")
        return lines

    def lines(self) -> list[str]:
        lines = [f"{self.prototype()}\n{{", *(f"    {line}" for line in self.checks())]
        given = [*self.printer.signature.names.values()]
        given += [f"({self.printer.index}){n}" for n in self.prepared.names.values()]
        for part in self.printer.parts.values():
            kind = self.printer.type_of(part.decl.dtype)
            before: list[str] = []
            start = self.number(part.offset, before)
            lines += [f"    {line}" for line in before]
            lines.append(f"    {kind} *{part.name} = ({kind} *)(void *)((char *)workspace + {start});")
            given.append(part.name)
        return [*lines, f"    run({', '.join(given)});", "    return 0;", "}"]


def _wide(value: int) -> str:
    return f"INT64_C({value})" if value >= 0 else f"(-INT64_C({-value}))"


def c_source(prepared: Prepared, threads: int, contract: bool = False) -> CSource:
    """The C of a prepared function; `contract` is for the compiler, and for readers of the text and its header."""
    printer = StatementPrinter(prepared, threads)
    body = printer.body()
    params = [f"{kind}{name}" for kind, name in printer.signature.types(printer.index)]
    params += [f"const {printer.index} {name}" for name in prepared.names.values()]
    params += [f"{printer.type_of(p.decl.dtype)} *restrict {p.name}" for p in printer.parts.values()]
    unused = [name for name in (*printer.signature.names.values(), *prepared.names.values())]
    unused += [p.name for p in printer.parts.values()]
    quiet = [f"    (void){name};" for name in unused]
    run = [*printer.head(), f"static void run({', '.join(params)})", "{", *quiet, *body, "}", ""]
    exported = _Exported(prepared, printer)
    lines = exported.lines()
    helpers = [helper(h) for h in {**printer.expressions.helpers, **exported.expressions.helpers}]
    text = "\n".join([*run, OVERLAP if any("overlap(" in line for line in lines) else "", *lines, ""])
    declared = {d.scalar for d in prepared.checked.func.buffer_map.values()}
    types = definitions("\n".join((text, *helpers, *printer.pieces.values())), declared)
    before = "\n\n".join([*([types] if types else []), *prelude([*helpers, *printer.pieces.values()], text)])
    features = FEATURES if "run_parts" in printer.pieces else ""
    notes = [CONTRACTED] if contract else []
    about = "".join(f"/* {note} */\n" for note in notes)
    source = f"{about}{features}#include <math.h>\n#include <stdint.h>\n{before}\n\n{text}"
    return CSource(source, _header(exported, notes), exported.name, printer.workspace)


def _comment(text: str) -> str:
    """A text of terms, safe inside of a C comment."""
    return text.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/")


def _header(exported: _Exported, notes: Sequence[str]) -> str:
    """The declaration of the exported function and what its callers must know."""
    func, names = exported.func, exported.printer.signature.names
    about = [f"{plain(func.name)}: each buffer is a pointer to the start of its memory."]
    for name in func.params:
        decl = exported.prepared.func.buffer_map.get(name, func.buffer_map[name])
        layout = f"{plain(str(decl), 200)}"
        if decl.strides is not None:
            layout += f" strides {plain(str(decl.strides))} offset {plain(str(decl.elem_offset))}"
        if decl.axis_separators:
            layout += f", {len(decl.axis_separators) + 1} physical axes of {plain(format_shape(decl.memory_shape))}"
        about.append(f"  {names[name]}: {layout}")
        about += [f"    {_comment(line)}" for line in FunctionText({}).layouts(decl, "")]
    for size, name in exported.prepared.names.items():
        _, lower, upper, multiple, _ = t.symbol_facts(size)
        about.append(f"  {name}: from {lower} to {upper}" + (f", a multiple of {multiple}" if multiple > 1 else ""))
    need = plain(str(exported.printer.workspace))
    about.append(f"  workspace: {need} bytes, aligned to {ALIGNMENT}.")
    answers = "; ".join(f"{n} {text}" for n, text in enumerate(ANSWERS, 1))
    about.append(f"Answers 0, or before anything is written: {answers}.")
    if exported.prepared.checked.status:
        about.append(f"{names[exported.prepared.checked.status]}[0] is then not 0 where an access left its buffer.")
    about += notes
    guard = f"{exported.name.upper()}_H"
    lines = [f"#ifndef {guard}", f"#define {guard}", "", "#include <stdint.h>", "", f"/* {about[0]}"]
    lines += [f"   {line}" for line in about[1:]]
    lines[-1] += " */"
    lines += [*declarations({d.scalar for d in func.buffer_map.values()}), *with_c_linkage([exported.prototype()])]
    return "\n".join([*lines, f"#endif /* {guard} */", ""])
