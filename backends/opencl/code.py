"""Statements as OpenCL C: one kernel for each function, and the launches that run a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from eqsat.backends.c.expr import Scope
from eqsat.backends.c.function import FunctionPrinter
from eqsat.backends.c.library import plain
from eqsat.backends.interface import HostCall
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.lowered import Lowered
from eqsat.backends.opencl.expr import ClExpressions, helper_texts, spell
from eqsat.backends.opencl.grid import GROUP, WIDE_GROUP, Grid, grids, positions_each
from eqsat.backends.opencl.image import Image, PixelStore, pixel_loads, row_and_column
from eqsat.backends.opencl.profile import Profile
from eqsat.ir.errors import BackendError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alias, Alloc, For, Stmt, Store, statements, stmt_terms
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder


@dataclass(frozen=True)
class Launch:
    """A kernel over its NDRange: its buffers in order, the number of work-items and how many form a group."""

    kernel: str
    buffers: tuple[str, ...]
    items: int
    group: int


@dataclass(frozen=True)
class ClUnit:
    """A program in OpenCL C: its text, its signatures, and its launches with the host calls between them."""

    source: str
    header: str
    steps: tuple[Launch | HostCall, ...]


class KernelPrinter(FunctionPrinter):
    """One PrimFunc as a kernel: the work-items of its nests follow each other in one NDRange."""

    def __init__(
        self, func: PrimFunc, simplifier: IndexSimplifier, profile: Profile, images: Mapping[str, Image]
    ) -> None:
        _check_ranks(func)
        self.images = {n: images[n] for n in func.params if n in images}
        super().__init__(func, 1, simplifier, 0)
        terms = postorder(*(x for s in statements(func.body) for x in self.terms(s)))
        held = [*(d.dtype for d in func.buffer_map.values()), *(n.dtype for n in terms)]
        profile.require(f"kernel of {plain(func.note) or func.name}", held)
        self.grids = grids(func, simplifier, profile.kind, profile.units)
        self.items = sum(g.items for g in self.grids)
        self.group, self.each = 1, 1
        if profile.kind != "cpu":
            self.each = positions_each(self.grids, profile.units, profile.group)
            self.group = min(GROUP if self.each == 1 else WIDE_GROUP, profile.group)
        self.names = self.signature.names
        most = max(
            [self.items + self.group * self.each, *(g.loops[-1].extent + g.chunk for g in self.grids if g.loops)]
        )
        if most >= 1 << 31:
            self.index = "int64_t"
        self.expressions = ClExpressions(self.names, self.index, simplifier, self.images, profile.exact_division)

    def terms(self, stmt: Stmt) -> list[Term]:
        """What a statement evaluates itself, pixels by their row and column; a store its index, then its values."""
        if not isinstance(stmt, PixelStore):
            return [pixel_loads(x, self.images, self.simplifier) for x in stmt_terms(stmt)]
        values = (pixel_loads(x, self.images, self.simplifier) for x in (stmt.value, *stmt.more))
        return [*row_and_column(stmt.index[0], self.images[stmt.buffer], self.simplifier), *values]

    @property
    def launch(self) -> Launch:
        """How the kernel is started."""
        groups = -(-self.items // (self.group * self.each))
        return Launch(self.func.name, self.func.params, groups * self.group, self.group)

    def declaration(self) -> str:
        """The declaration of the kernel."""
        params = [f"__global {kind}{name}" for kind, name in self.signature.types(self.index)]
        for n, name in enumerate(self.func.params):
            if name in self.images:
                access = "write" if name in self.signature.written else "read"
                params[n] = f"__{access}_only image2d_t {self.names[name]}"
        group = f"__attribute__((reqd_work_group_size({self.launch.group}, 1, 1)))"
        return spell(f"__kernel {group}\nvoid {self.func.name}({', '.join(params)})")

    def lines(self) -> list[str]:
        """The kernel."""
        body: list[str] = []
        start = 0
        for n, grid in enumerate(self.grids):
            alone = len(self.grids) == 1 and grid.items % (self.group * self.each) == 0
            depth = 1 if self.each == 1 else 2
            lines = self.grid(grid, start, depth if alone else depth + 1)
            start += grid.items
            if not alone:
                word = "if" if n == 0 else "else if"
                indent = "    " * depth
                lines = [f"{indent}{word} (item < {start}) {{", *lines, f"{indent}}}"]
            body += lines
        if any("item" in line for line in body):
            return self.kernel(self.over_items(body))
        return self.kernel(body)

    def over_items(self, body: Sequence[str]) -> list[str]:
        """The lines with `item` declared: the number of the work-item, or one after the other of those that it takes,
        neighbours of a group's work-items each time."""
        index = self.index
        if self.each == 1:
            return [f"    const {index} item = ({index})get_global_id(0);", *body]
        block = self.group * self.each
        return [
            f"    const {index} first = ({index})get_group_id(0) * {block} + ({index})get_local_id(0);",
            "    #pragma unroll",
            f"    for ({index} k = 0; k < {self.each}; ++k) {{",
            f"        const {index} item = first + k * {self.group};",
            *body,
            "    }",
        ]

    def kernel(self, body: Sequence[str]) -> list[str]:
        """The lines of a kernel with this body."""
        return [*self.signature.note, self.declaration(), "{", *(spell(line) for line in body), "}"]

    def grid(self, grid: Grid, start: int, depth: int) -> list[str]:
        """What one work-item does for a nest whose work-items begin at a number."""
        indent, lines = "    " * depth, list[str]()
        counts = [*(loop.extent for loop in grid.loops[:-1]), grid.parts]
        places = digits(f"(item - {start})" if start else "item", counts)
        for n, (loop, position) in enumerate(zip(grid.loops, places, strict=False)):
            name = self.expressions.axes[loop.axis] = f"i{n}"
            if n == len(grid.loops) - 1 and grid.chunk > 1:
                most = loop.extent if self.index == "int32_t" else f"({self.index}){loop.extent}"
                stop = "stop" if loop.extent % grid.chunk else f"start + {grid.chunk}"
                lines.append(f"{indent}const {self.index} start = {position} * {grid.chunk};")
                if stop == "stop":
                    lines.append(f"{indent}const {self.index} stop = min(start + {grid.chunk}, {most});")
                lines.append(f"{indent}for ({self.index} {name} = start; {name} < {stop}; ++{name}) {{")
                return [*lines, *self.statement(grid.body, depth + 1, n + 1), f"{indent}}}"]
            lines.append(f"{indent}const {self.index} {name} = {position};")
        return [*lines, *self.statement(grid.body, depth, len(grid.loops))]

    def loop(self, stmt: For, depth: int, loops: int, parallel: bool) -> list[str]:
        indent, name = "    " * depth, f"i{loops}"
        self.expressions.axes[stmt.axis] = name
        head = f"{indent}for ({self.index} {name} = 0; {name} < {stmt.extent}; ++{name}) {{"
        return [head, *self.statement(stmt.body, depth + 1, loops + 1), f"{indent}}}"]

    def local(self, stmt: Alloc, depth: int, loops: int, parallel: bool) -> list[str]:
        return super().local(replace(stmt, buffer=replace(stmt.buffer, note="")), depth, loops, parallel)

    def alias(self, stmt: Alias, depth: int, loops: int, parallel: bool) -> list[str]:
        raise BackendError(f"alias {stmt.buffer} of {self.func.name}", "has no OpenCL C")

    def store(self, stmt: Store) -> list[str]:
        if not isinstance(stmt, PixelStore):
            return super().store(stmt)
        target = self.expressions.buffers[stmt.buffer]
        image = self.images[stmt.buffer]
        row, column, *values = self.expressions.print_terms(self.terms(stmt), scope := Scope())
        if stmt.value.dtype == "float16":
            values = [f"half_to_float({v})" for v in values]
        values += ["0"] * (4 - len(values))
        pixel = f"({image.vector})({', '.join(values)})"
        return [*scope.lines, f"write_image{image.kind}({target}, (int2)({column}, {row}), {pixel});"]


def digits(number: str, counts: Sequence[int]) -> list[str]:
    """The digits of a number in mixed radix, the first one without an upper end.

    >>> digits("item", (5, 1, 4))
    ['item / 4', '0', 'item % 4']
    """
    found: list[str] = []
    for n, count in enumerate(counts):
        below = prod(counts[n + 1 :])
        text = number if below == 1 else f"{number} / {below}"
        found.append("0" if count == 1 else f"{text} % {count}" if prod(counts[:n]) > 1 else text)
    return found


def _check_ranks(func: PrimFunc) -> None:
    for name, decl in func.buffer_map.items():
        if len(decl.shape) != 1:
            problem = f"has {len(decl.shape)} physical axes; target opencl takes flat buffers, and images as arguments"
            raise BackendError(f"buffer {name} of function {func.name}", problem, "flatten it")


def print_cl(printers: Sequence[KernelPrinter | HostCall], lowered: Lowered) -> ClUnit:
    """The OpenCL C of a program: its kernels, and the host calls between them."""
    helpers: dict[str, None] = {}
    kernels: list[str] = []
    signatures: list[str] = []
    steps: list[Launch | HostCall] = []
    for printer in printers:
        if isinstance(printer, HostCall):
            steps.append(printer)
            continue
        kernels += [*printer.lines(), ""]
        helpers.update(printer.expressions.helpers)
        steps.append(printer.launch)
        signatures += _described(printer, lowered)
    text = "\n".join(kernels)
    pragmas = ["#pragma OPENCL FP_CONTRACT OFF"]
    prelude = helper_texts(helpers, text)
    if any("double" in part for part in (text, *prelude)):
        pragmas.append("#pragma OPENCL EXTENSION cl_khr_fp64 : enable")
    return ClUnit("\n\n".join(["\n".join(pragmas), *prelude, text]), "\n".join(signatures), tuple(steps))


def _described(printer: KernelPrinter, lowered: Lowered) -> list[str]:
    """A signature with what it takes, for host programs that launch the kernel themselves."""
    names = {b: n for n, b in [*lowered.inputs.items(), *lowered.outputs.items()]}
    launch = printer.launch
    lines = [f"/* {launch.items} work-items in groups of {launch.group}"]
    for name in printer.func.params:
        buffer = lowered.buffers[name]
        extents = ", ".join(map(str, buffer.shape))
        what = f"{buffer.role} {plain(names.get(name, buffer.label))}, {buffer.dtype}[{extents}]"
        if name in printer.images:
            what += f", {printer.images[name].label}"
        lines.append(f"   {printer.names[name]}: {what}")
    lines[-1] += " */"
    return [*lines, f"{printer.declaration()};", ""]
