"""A kernel whose moves all have a schedule, as one C function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.backends.c.blend import BlendPrinter
from eqsat.backends.c.cross import CrossPrinter
from eqsat.backends.c.nest import Text
from eqsat.backends.c.run import RunPrinter
from eqsat.backends.c.shear import ShearPrinter
from eqsat.backends.c.shuffle import ShufflePrinter
from eqsat.backends.c.strip import StripPrinter
from eqsat.backends.c.tile import TurnPrinter
from eqsat.backends.c.vector import HEADER
from eqsat.backends.c.zip import ZipPrinter
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import Machine
from eqsat.backends.schedules.schedule import Blend, Cross, Plan, Run, Shear, Shuffle, Strip, Turn


def print_moves(
    name: str,
    params: Sequence[tuple[str, str]],
    buffers: Mapping[str, str],
    moves: Sequence[tuple[Move, Plan]],
    machine: Machine,
) -> tuple[list[str], dict[str, str], dict[str, None]]:
    """The lines of the function, the pieces that it needs, by name, and the names of scalar helpers.

    `params` are C types and names; `buffers` gives the C name of every buffer that a move touches.
    """
    text = Text()
    helpers: dict[str, None] = {}
    threads = max(plan.threads for _, plan in moves)
    if threads > 1:
        text.add(f"#pragma omp parallel num_threads({threads})")
        text.add("{")
        text.depth += 1
    for n, (move, plan) in enumerate(moves):
        with text.block(""):
            if move.operands and not isinstance(plan, (Blend, Cross, Strip)):
                text.add(f"const char *s = (const char *){buffers[move.operands[0].buffer]};")
            if not isinstance(plan, (Blend, Cross, Strip)):
                text.add(f"char *d = (char *){buffers[move.out.buffer]};")
            if isinstance(plan, Run):
                RunPrinter(text, move, plan, machine).print()
            elif isinstance(plan, Turn):
                TurnPrinter(text, move, plan, machine, f"{name}_{n}" if n else name).print()
            elif isinstance(plan, Shear):
                ShearPrinter(text, move, plan, machine, f"{name}_{n}" if n else name).print()
            elif isinstance(plan, Blend):
                blend = BlendPrinter(text, move, plan, machine, f"{name}_{n}" if n else name, dict(buffers))
                blend.print()
                helpers |= blend.helpers
            elif isinstance(plan, Cross):
                cross = CrossPrinter(text, move, plan, machine, f"{name}_{n}" if n else name, dict(buffers))
                cross.print()
                helpers |= cross.helpers
            elif isinstance(plan, Strip):
                strip = StripPrinter(text, move, plan, dict(buffers))
                strip.print()
                helpers |= strip.helpers
            elif isinstance(plan, Shuffle):
                ShufflePrinter(text, move, plan).print()
            else:
                ZipPrinter(text, move, plan, machine).print()
    if any(plan.stream for _, plan in moves):
        text.add("FENCE();")
    if threads > 1:
        text.depth -= 1
        text.add("}")
    joined = ", ".join(f"{kind}{label}" for kind, label in params)
    head = f"static void {name}({joined})"
    return [head, "{", *text.lines, "}"], {"vectors": HEADER, **text.pieces}, helpers
