"""A lowered program as C: one static function for each kernel, one exported function for each group, and a header.

A group is a sequence of kernels between operators in Python. Kernels whose text is the same are printed once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from eqsat.backends.c.element_types import definitions
from eqsat.backends.c.function import FunctionPrinter, Signature, written
from eqsat.backends.c.library import CONTRACTED, Export, Library
from eqsat.backends.c.parallel import FEATURES
from eqsat.backends.c.scheduled_kernel import print_moves
from eqsat.backends.c.types import helper, prelude
from eqsat.backends.interface import ProgramBuffer, Unit
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.lowered import Lowered
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import Machine, this_machine
from eqsat.backends.schedules.choose import schedule_moves
from eqsat.backends.schedules.schedule import Schedule
from eqsat.ir.statements.primfunc import PrimFunc, require_rank

FUNCTIONS_PER_RUN = 12
"""About how many functions go to one run of the compiler, where there are more: starting one takes about as long."""
STATIC = "static void "
HIDDEN = '__attribute__((visibility("hidden")))'
"""In place of `static`, where a function may be called from another source of the same library."""

Schedules = Mapping[str, Sequence[tuple[Move, Schedule]]]
"""Moves with their schedules, by the name of the function that they make up."""


def print_unit(
    lowered: Lowered,
    threads: int = 1,
    machine: Machine | None = None,
    schedules: Schedules | None = None,
    contract: bool = False,
) -> Unit:
    """The C of a lowered program, for this machine if no other is named; `schedules` overrides the default choice.

    `contract` is for the compiler, which is told by a flag, and for whoever reads the text and its header.
    """
    printer = _UnitPrinter(lowered, threads, machine or this_machine(), schedules or {})
    groups = _groups(lowered)
    for func in (f for group in groups for f in group):
        printer.add(func)
    text = "\n".join(line for lines in printer.functions for line in lines)
    start = (f"/* {CONTRACTED} */\n" if contract else "") + printer.start(text)
    library = _library(lowered, groups, printer.called)
    exported = library.text()
    source = start + text + ("\n" if text else "") + exported
    parts = _parts(start, printer.functions, exported)
    return Unit(source, library.header([CONTRACTED] if contract else []), tuple(library.entries), library.whole, parts)


class _UnitPrinter:
    """Collects the functions of a unit, and what they need before them.

    printed: the name of a function by its text without that name. called: the function to call for each kernel.
    """

    def __init__(self, lowered: Lowered, threads: int, machine: Machine, schedules: Schedules) -> None:
        self.lowered = lowered
        self.threads = threads
        self.machine = machine
        self.schedules = schedules
        self.simplifier = IndexSimplifier(lowered.tables)
        self.helpers: dict[str, None] = {}
        self.pieces: dict[str, str] = {}
        self.functions: list[list[str]] = []
        self.printed: dict[str, str] = {}
        self.called: dict[str, str] = {}

    def add(self, func: PrimFunc) -> None:
        """Print a kernel, unless one with the same text is there."""
        require_rank(func, (1,), "c")
        name = func.name
        first = self.lowered.duplicates.get(name)
        if first is not None and self.schedules.get(name) == self.schedules.get(first) is None:
            self.called[name] = self.called[first]
            return
        scheduled, moves = self.schedules.get(name), self.lowered.moves.get(name)
        if not scheduled and moves is not None:
            scheduled = schedule_moves(moves, self.machine, self.threads)
        if scheduled:
            signature = Signature(func)
            params = signature.types("int64_t")
            lines, pieces, helpers = print_moves(name, params, signature.names, scheduled, self.machine)
        else:
            printer = FunctionPrinter(func, self.threads, self.simplifier, self.machine.vector)
            signature, lines = printer.signature, printer.lines()
            pieces, helpers = printer.pieces, printer.expressions.helpers
        self.pieces |= pieces
        self.helpers.update(helpers)
        text = re.sub(rf"\b{name}\b", "", "\n".join(lines))
        if text not in self.printed:
            self.printed[text] = name
            self.functions.append([*signature.note, *lines, ""])
        self.called[name] = self.printed[text]

    def start(self, text: str) -> str:
        """What stands before the functions, of which `text` is all."""
        before = "\n\n".join(prelude([*(helper(h) for h in self.helpers), *self.pieces.values()], text))
        types = definitions(text + before, {b.dtype for b in self.lowered.buffers.values()})
        types += "\n" if types else ""
        features = FEATURES if "run_parts" in self.pieces else ""
        return f"{features}#include <math.h>\n#include <stdint.h>\n{types}\n" + (before + "\n\n" if before else "")


def _groups(lowered: Lowered) -> list[list[PrimFunc]]:
    """The kernels between operators in Python."""
    groups: list[list[PrimFunc]] = [[]]
    for step in lowered.steps:
        if isinstance(step, PrimFunc):
            groups[-1].append(step)
        elif groups[-1]:
            groups.append([])
    return [g for g in groups if g]


def _library(lowered: Lowered, groups: Sequence[Sequence[PrimFunc]], called: Mapping[str, str]) -> Library:
    """The exported functions, one for each group; of a program that is one group, under the name of the program."""
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
        library.add(Export(name, buffers, stored, local, calls))
    return library


def _parts(start: str, functions: Sequence[Sequence[str]], exported: str) -> tuple[str, ...]:
    """The source as several that can be compiled at the same time: shares of the functions, and what is exported."""
    count = min(-(-len(functions) // FUNCTIONS_PER_RUN), os.cpu_count() or 1)
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


def _arguments(lowered: Lowered, group: Sequence[PrimFunc]) -> tuple[ProgramBuffer, ...]:
    """The buffers that a caller passes: inputs, outputs, and what the group needs besides."""
    used = {name for func in group for name in func.params}
    ends = dict.fromkeys((*lowered.inputs.values(), *lowered.outputs.values()))
    ordered = (*ends, *(b for b in lowered.buffers if b not in ends))
    return tuple(b for b in (lowered.buffers[n] for n in ordered) if b.name in used and b.role != "workspace")
