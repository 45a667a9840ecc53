"""A check of models with operators that nobody here can run: as programs, with functions in the place of these."""

from __future__ import annotations

from dataclasses import replace

from eqsat.checking.programs import check_programs
from eqsat.checking.verdict import Checked
from eqsat.ir.tensors.tensor import Opaque, Program
from eqsat.onnx.ops.table import CustomImpl


def compared_with_stand_ins(
    done: Checked, before: Program, after: Program, seconds: float
) -> tuple[Checked, tuple[str, ...]]:
    """The check, with what differs where each such operator is a random function as symmetric as its signature says;
    and what was compared so, in words."""
    foreign = [x for x in before.nodes() if isinstance(x, Opaque) and isinstance(x.impl, CustomImpl)]
    if not foreign or done.difference is not None:
        return done, ()
    found = check_programs(before, after, seconds)
    names = ", ".join(dict.fromkeys(x.op.removeprefix("onnx:") for x in foreign))
    unsure = sum(region.verdict == "neither" for region in found.regions)
    rest = f"; {unsure} of {len(found.regions)} regions were not compared" if unsure else ""
    note = f"{names} cannot be run here: compared with functions in their place that have their signatures{rest}"
    return replace(done, difference=found.difference), (note,)
