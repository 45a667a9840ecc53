"""A kernel whose moves all have a schedule, as one C function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eqsat.backends.c.contiguous_copy import ContiguousCopyPrinter
from eqsat.backends.c.interleave import InterleavePrinter
from eqsat.backends.c.nest import SchedulePrinter, Text
from eqsat.backends.c.parallel import Variable, outlined, run_parts
from eqsat.backends.c.pointwise_loop import PointwiseRowsPrinter
from eqsat.backends.c.pointwise_tiles import PointwiseTilesPrinter
from eqsat.backends.c.register_shuffle import RegisterShufflePrinter
from eqsat.backends.c.transposes.joined_lines import JoinedLinesPrinter
from eqsat.backends.c.transposes.line_tiles import LineTilesPrinter
from eqsat.backends.c.transposes.lines import LineTransposePrinter
from eqsat.backends.c.transposes.streaming import StreamingTransposePrinter
from eqsat.backends.c.transposes.tiles import TransposeTilesPrinter
from eqsat.backends.c.vector import HEADER
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import LINE, Machine
from eqsat.backends.schedules import schedule as s
from eqsat.backends.schedules.schedule import Schedule

PRINTERS: Mapping[type[Schedule], type[SchedulePrinter[Any]]] = {
    s.ContiguousCopy: ContiguousCopyPrinter,
    s.TransposeTiles: TransposeTilesPrinter,
    s.StreamingTranspose: StreamingTransposePrinter,
    s.LineTranspose: LineTransposePrinter,
    s.JoinedLines: JoinedLinesPrinter,
    s.LineTiles: LineTilesPrinter,
    s.Interleave: InterleavePrinter,
    s.PointwiseTiles: PointwiseTilesPrinter,
    s.PointwiseRows: PointwiseRowsPrinter,
    s.RegisterShuffle: RegisterShufflePrinter,
}


def print_moves(
    name: str,
    params: Sequence[tuple[str, str]],
    buffers: Mapping[str, str],
    moves: Sequence[tuple[Move, Schedule]],
    machine: Machine,
) -> tuple[list[str], dict[str, str], dict[str, None]]:
    """The lines of the function, the pieces that it needs, by name, and the names of scalar helpers.

    `params` are C types and names; `buffers` gives the C name of every buffer that a move touches.
    """
    text = Text()
    threads = max(schedule.threads for _, schedule in moves)
    for n, (move, schedule) in enumerate(moves):
        label = f"{name}_{n}" if n else name
        printer = PRINTERS[type(schedule)](text, move, schedule, machine, label, buffers)
        with text.block("if (thread == 0)" if threads > 1 and schedule.threads == 1 else ""):
            if printer.in_bytes:
                if move.operands:
                    text.add(f"const char *s = (const char *){buffers[move.operands[0].buffer]};")
                text.add(f"char *d = (char *){buffers[move.out.buffer]};")
            other = schedule.unaligned if isinstance(schedule, s.LineTranspose) else None
            if other is None:
                printer.print()
                continue
            with text.block(f"if ((uintptr_t)d % {LINE} == 0)"):
                printer.print()
            with text.block("else"):
                PRINTERS[type(other)](text, move, other, machine, f"{label}_unaligned", buffers).print()
    if any(schedule.nontemporal for _, schedule in moves):
        text.add("FENCE();")
    pieces, lines = {"vectors": HEADER, **text.pieces}, text.lines
    if threads > 1:
        pieces["run_parts"] = run_parts(threads)
        variables = [Variable(kind, label) for kind, label in params]
        pieces[f"{name}_part"], call = outlined(f"{name}_part", variables, lines, threads)
        lines = [f"    {call}"]
    joined = ", ".join(f"{kind}{label}" for kind, label in params)
    head = f"static void {name}({joined})"
    return [head, "{", *lines, "}"], pieces, text.helpers
