"""The outside of a C library: exported functions that check what they are given, a header, constants as data."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.backends.c.element_types import TYPE_NAMES, declarations
from eqsat.backends.c.types import c_type
from eqsat.backends.interface import ALIGNMENT, Entry, HostCall, Interface, ProgramBuffer, Unit
from eqsat.ir.dtypes import BFLOAT16, COMPLEX, INDEX, NDArray, itemsize

STATUS = {"NULL": "a null pointer", "MISALIGNED": "an address that is not aligned", "OVERLAP": "overlapping memory"}
"""Answers other than 0 of an exported function, from 1 on."""
CONTRACTED = "Compiled with -ffp-contract=fast: a product and the sum that takes it are rounded once."
"""What a kernel and its header say where operations may be contracted."""
MOST_PAIRS = 64
"""Pairs of arguments that may overlap, up to which each is a condition: compilers take seconds over more."""
PER_LINE = 16
"""Numbers in a line of data."""
SPECIAL = {"nan": "NAN", "-nan": "NAN", "inf": "INFINITY", "-inf": "(-INFINITY)", "-0": "-0.0"}
LEAST = {str(-(1 << 63)): "INT64_MIN"}

OVERLAP = """static int overlap(const void *a, uintptr_t bytes, const void *b, uintptr_t size)
{
    return (uintptr_t)a < (uintptr_t)b + size && (uintptr_t)b < (uintptr_t)a + bytes;
}
"""


def _overlap_table(used: Sequence[tuple[str, int, bool]]) -> list[str]:
    """Statements that compare each written range (name, bytes, whether it is written) with every other one."""
    ranges = sorted(used, key=lambda r: not r[2])
    written = sum(writes for _, _, writes in ranges)
    return [
        f"const void *const at[] = {{{', '.join(name for name, _, _ in ranges)}}};",
        f"static const uintptr_t bytes[] = {{{', '.join(str(size) for _, size, _ in ranges)}}};",
        f"for (int k = 0; k < {written}; ++k)",
        f"    for (int m = k + 1; m < {len(ranges)}; ++m)",
        "        if (overlap(at[k], bytes[k], at[m], bytes[m])) return 3;",
    ]


def plain(text: str, limit: int = 120) -> str:
    """A name or label from a model, safe inside of a C comment."""
    clean = re.sub(r"[^A-Za-z0-9_ ,.:()\[\]-]", "?", text)
    return clean if len(clean) <= limit else clean[: limit - 3] + "..."


def identifier(text: str) -> str:
    """A C identifier made from a name: lower case, letters, digits and underscores."""
    return re.sub(r"[^a-z0-9_]", "_", text.lower())[:40] or "program"


def exported_name(name: str) -> str:
    """The C name of the function that a program or function of this name exports.

    >>> exported_name("to_nhwc"), exported_name("Half")
    ('eqsat_to_nhwc', 'eqsat_half_')
    """
    found = f"eqsat_{identifier(name)}"
    return f"{found}_" if found in TYPE_NAMES else found


def argument_names(interface: Interface) -> dict[str, str]:
    """C names of the inputs, outputs and constants, by buffer: in_x and out_y, each once."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for kind, ends in (("in", interface.inputs), ("out", interface.outputs)):
        for label, buffer in ends.items():
            base = name = f"{kind}_{identifier(label)}"
            number = 2
            while name in taken:
                name, number = f"{base}_{number}", number + 1
            taken.add(name)
            found[buffer] = name
    return found | {b: f"constant_{b}" for b in interface.constants}


@dataclass(frozen=True)
class Export:
    """An exported function: its name, the buffers it takes, those that it writes, those in the workspace, its calls."""

    name: str
    buffers: tuple[ProgramBuffer, ...]
    written: frozenset[str]
    local: tuple[ProgramBuffer, ...]
    calls: tuple[tuple[str, tuple[str, ...]], ...]


def with_c_linkage(prototypes: Iterable[str]) -> list[str]:
    """Lines that declare functions, to C++ too."""
    declared = ["", "#ifdef __cplusplus", 'extern "C" {', "#endif", *(f"{p};" for p in prototypes)]
    return [*declared, "#ifdef __cplusplus", "}", "#endif", ""]


class Library:
    """Prints the exported functions of a lowered program, and its header."""

    def __init__(self, name: str, interface: Interface) -> None:
        self.base = exported_name(name)
        self.title = plain(name)
        self.interface = interface
        self.names = argument_names(interface)
        self.prototypes: list[str] = []
        self.entries: list[Entry] = []
        self.lines: list[str] = []
        self.checks_overlap = False

    def prototype(self, name: str, buffers: Iterable[ProgramBuffer], written: Collection[str]) -> str:
        """The head of a function over buffers and a workspace."""
        params = [
            f"{'' if b.name in written else 'const '}{c_type(b.dtype, 'int64_t')} *{self.names[b.name]}"
            for b in buffers
        ]
        return f"int {name}({', '.join([*params, 'void *workspace'])})"

    def add(self, export: Export) -> None:
        """An exported function that takes every buffer, constants too."""
        prototype = self.prototype(export.name, export.buffers, export.written)
        self.entries.append(Entry(export.name, tuple(b.name for b in export.buffers)))
        self.prototypes.append(prototype)
        self.lines += [prototype, "{", *(f"    {line}" for line in self.checks(export))]
        names = dict(self.names)
        for b in export.local:
            kind, names[b.name] = c_type(b.dtype, "int64_t"), b.name
            self.lines.append(f"    {kind} *{b.name} = ({kind} *)(void *)((char *)workspace + {b.offset});")
        for function, buffers in export.calls:
            self.lines.append(f"    {function}({', '.join(names[b] for b in buffers)});")
        self.lines += ["    return 0;", "}", ""]

    def checks(self, export: Export) -> list[str]:
        """Statements that refuse null pointers, addresses that are not aligned, and results over other arguments."""
        pointers = {self.names[b.name]: itemsize(b.dtype) if b.dtype != INDEX else 8 for b in export.buffers}
        lines: list[str] = []
        if export.local:
            pointers["workspace"] = ALIGNMENT
        else:
            lines.append("(void)workspace;")
        if pointers:
            lines.append(f"if ({' || '.join(f'!{p}' for p in pointers)}) return 1;")
        by_size: dict[int, list[str]] = {}
        for pointer, size in pointers.items():
            by_size.setdefault(size, []).append(f"(uintptr_t){pointer}")
        joined = {size: names[0] if len(names) == 1 else f"({' | '.join(names)})" for size, names in by_size.items()}
        aligned = [f"{text} % {size}" for size, text in joined.items() if size > 1]
        if aligned:
            lines.append(f"if ({' || '.join(aligned)}) return 2;")
        used = [
            (self.names[b.name], b.nbytes, b.name in export.written) for b in export.buffers if b.role != "constant"
        ]
        if export.local:
            used.append(("workspace", self.interface.workspace_bytes, True))
        pairs = [
            f"overlap({a}, {n}, {b}, {m})"
            for k, (a, n, writes) in enumerate(used)
            for b, m, also in used[:k]
            if (writes or also) and n and m
        ]
        self.checks_overlap = self.checks_overlap or bool(pairs)
        if len(pairs) > MOST_PAIRS:
            return lines + _overlap_table([u for u in used if u[1]])
        if pairs:
            lines += [f"{'if (' if not k else '    || '}{pair}" for k, pair in enumerate(pairs)]
            lines[-1] += ") return 3;"
        return lines

    @property
    def whole(self) -> str:
        """The function that is the whole program; none where an operator needs Python."""
        hosts = any(isinstance(c, HostCall) for c in self.interface.calls)
        return self.base if len(self.entries) == 1 and not hosts else ""

    def text(self) -> str:
        """The exported functions, behind what they call."""
        return (OVERLAP + "\n" if self.checks_overlap else "") + "\n".join(self.lines)

    def header(self, notes: Sequence[str] = ()) -> str:
        """Declarations and what a caller must know, `notes` on the whole program among it."""
        guard = self.base.upper()
        low = self.interface
        lines = [f"#ifndef {guard}_H", f"#define {guard}_H", "", "#include <stdint.h>", ""]
        about = [f"{self.title}: arrays are dense, row-major and aligned to their element type."]
        shown = self.given() if self.whole else [low.buffers[b] for b in self.names]
        for b in shown:
            what = f"{b.dtype}[{', '.join(map(str, b.shape))}]"
            about.append(f"  {self.names[b.name]}: {what}" + (f" {plain(b.label)}" if b.role == "constant" else ""))
        need = f", aligned to {ALIGNMENT}" if low.workspace_bytes else ", it may be null"
        about.append(f"  workspace: {low.workspace_bytes} bytes{need}; each call at the same time needs its own.")
        about.append("An output and the workspace may overlap no other argument.")
        about += notes
        hosts = [plain(c.operator.op) for c in low.calls if isinstance(c, HostCall)]
        if hosts:
            ops = ", ".join(hosts)
            about.append(f"Not the whole program: its operators in Python ({ops}) run between these functions.")
        answers = "; ".join(f"{n} {text}" for n, text in enumerate(STATUS.values(), 1))
        about.append(f"Answers 0, or before anything is written: {answers}.")
        lines.append(f"/* {about[0]}")
        lines += [f"   {line}" for line in about[1:]]
        lines[-1] += " */"
        lines.append(f"#define {guard}_WORKSPACE_BYTES {low.workspace_bytes}")
        for b in shown:
            lines.append(f"#define {guard}_{self.names[b.name].upper()}_BYTES {b.nbytes}")
        types = declarations({b.dtype for b in low.buffers.values()})
        lines += ["", *types] if types else []
        prototypes = [self.public()] if self.whole else self.prototypes
        return "\n".join([*lines, *with_c_linkage(prototypes), f"#endif /* {guard}_H */", ""])

    def given(self) -> list[ProgramBuffer]:
        """Inputs and outputs: what the function of the whole program takes."""
        low = self.interface
        return [low.buffers[b] for b in (*low.inputs.values(), *low.outputs.values())]

    def public(self) -> str:
        """The head of the function of the whole program."""
        return self.prototype(self.base, self.given(), set(self.interface.outputs.values()))


def library_source(name: str, interface: Interface, unit: Unit) -> str:
    """The whole source: the unit, and where it has constants or skips arguments, their data and a function over it."""
    work = Library(name, interface)
    if not unit.library or unit.entries[0].name == unit.library:
        return unit.source
    (entry,) = unit.entries
    # One function is the library's: the one over every buffer is for this file alone.
    lines = [unit.source.replace(f"\nint {entry.name}(", f"\nstatic int {entry.name}(", 1)]
    for b in entry.buffers:
        if interface.buffers[b].role == "constant":
            lines += [data(work.names[b], interface.constants[b], interface.buffers[b].dtype), ""]
    ends = [b for b in work.given() if b.name not in entry.buffers]
    arguments = [*(work.names[b] for b in entry.buffers), "workspace"]
    lines += [work.public(), "{", *(f"    (void){work.names[b.name]};" for b in ends)]
    lines += [f"    return {entry.name}({', '.join(arguments)});", "}", ""]
    return "\n".join(lines)


def data(name: str, array: NDArray, dtype: str) -> str:
    """A constant array in C."""
    tokens = numbers(array.reshape(-1), dtype) or ["0"]
    rows = [", ".join(tokens[k : k + PER_LINE]) for k in range(0, len(tokens), PER_LINE)]
    kind = c_type(dtype, "int64_t")
    return f"static const {kind} {name}[{len(tokens)}] = {{\n    " + ",\n    ".join(rows) + "\n};"


def numbers(array: NDArray, dtype: str) -> list[str]:
    """Elements as C constants that are read back exactly."""
    if dtype in ("float16", BFLOAT16):
        return [str(bits) for bits in array.view("uint16").tolist()]
    if dtype in COMPLEX:
        part = "float32" if dtype == "complex64" else "float64"
        pairs = numbers(array.view(part), part)
        return [f"{{{re}, {im}}}" for re, im in zip(pairs[::2], pairs[1::2], strict=True)]
    values: Sequence[object] = array.astype("int64").tolist() if dtype in ("bool", INDEX) else array.tolist()
    form = {"float32": "%.9gf ", "float64": "%.17g ", "uint64": "%du ", "uint32": "%du "}.get(dtype, "%d ")
    tokens = (form * len(values) % tuple(values)).split()
    if dtype == "float32":
        # 2f is none of C's numbers.
        tokens = [token if "." in token or "e" in token else token[:-1] for token in tokens]
    special: Mapping[str, str] = SPECIAL if np.issubdtype(array.dtype, np.floating) else LEAST
    return [special.get(token, token) for token in tokens]
