"""The kernels of a program on a device: which printer suits which of its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from eqsat.backends.interface import HostCall
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.lowered import Lowered
from eqsat.backends.lowering.moves import Move
from eqsat.backends.opencl.code import KernelPrinter
from eqsat.backends.opencl.image import Image
from eqsat.backends.opencl.local_transpose import LocalTransposePrinter, tile_of
from eqsat.backends.opencl.move_nests import as_nests, as_tiles, transposed_loop
from eqsat.backends.opencl.profile import Profile
from eqsat.backends.opencl.run_kernel import RunPrinter, run_lanes
from eqsat.ir.statements.primfunc import PrimFunc


def printers(
    lowered: Lowered, profile: Profile, images: Mapping[str, Image], simplifier: IndexSimplifier
) -> list[KernelPrinter | HostCall]:
    """The kernels of a program, with its data movement as suits the device."""
    found: list[KernelPrinter | HostCall] = []
    for step in lowered.steps:
        if isinstance(step, HostCall):
            found.append(step)
            continue
        moves = lowered.moves.get(step.name, ())
        if moves and profile.kind != "cpu" and not images.keys() & set(step.params):
            found += _for_gpu(step, moves, simplifier, profile)
            continue
        if any(transposed_loop(m) is not None for m in moves) and not images.keys() & set(step.params):
            step = as_tiles(step, moves)
        found.append(KernelPrinter(step, simplifier, profile, images))
    return found


def _for_gpu(
    func: PrimFunc, moves: Sequence[Move], simplifier: IndexSimplifier, profile: Profile
) -> list[KernelPrinter]:
    """A kernel for each move that goes through local memory or writes vectors, and one for the others."""
    rest: list[Move] = []
    alone: list[KernelPrinter] = []
    for move in moves:
        part = replace(as_nests(func, [move]), name=f"{func.name}_{len(alone)}")
        tile = tile_of(move, profile)
        if tile is not None:
            alone.append(LocalTransposePrinter(part, move, tile, simplifier, profile))
        elif lanes := run_lanes(move, profile):
            alone.append(RunPrinter(part, move, lanes, simplifier, profile))
        else:
            rest.append(move)
    return [KernelPrinter(as_nests(func, rest), simplifier, profile, {}), *alone] if rest else alone
