"""Measured ways to divide OpenCL work: few heavy work-items or one for each position, for whole programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from eqsat.backends.c import tune
from eqsat.backends.c.program_cache import program_key
from eqsat.backends.interface import HostCall, Interface
from eqsat.backends.lowering.values import flatten_program
from eqsat.backends.opencl.profile import Profile
from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors.tensor import Program
from eqsat.ir.terms.term import Term

FINER = 4
"""A variant divides the work into so many times as many work-items: smaller parts balance better."""


class Runs(Protocol):
    """A built program."""

    def run(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None: ...


Build = Callable[[Profile], tuple[Interface, Runs]]


def variants(profile: Profile) -> list[Profile]:
    """The profiles to print a program for; the device's own is the first."""
    other = replace(profile, kind="gpu" if profile.kind == "cpu" else "cpu")
    return [profile, other, replace(profile, kind="cpu", units=FINER * profile.units)]


def tuned_profile(
    program: Program, sizes: Mapping[Term, int], profile: Profile, settings: Sequence[object], build: Build
) -> Profile:
    """The variant that takes the least time, followed by a reader of its results; the winner is kept in the cache."""
    flat = flatten_program(program, sizes)
    key = program_key(program.name, flat.inputs(program), flat, "opencl", profile, *settings)
    asked, found = None if key is None else f"cl-{key}.json", variants(profile)
    winner = None if asked is None else tune.remembered(asked, len(found))
    if winner is not None:
        return found[winner]
    calls = [_call(*build(p)) for p in found]
    if any(call is None for call in calls):
        # Operators in Python are called as often as the program says, not to measure.
        return profile
    winner, times = tune.best_of([call for call in calls if call is not None])
    if asked is not None:
        tune.remember(asked, winner, times)
    return found[winner]


def _call(interface: Interface, runner: Runs) -> Callable[[], None] | None:
    """A call on stand-ins, and a reader of what it wrote; None for programs that call Python."""
    if any(isinstance(step, HostCall) for step in interface.calls):
        return None

    def arrays(ends: Mapping[str, str]) -> dict[str, NDArray]:
        return {n: np.ones(interface.buffers[b].shape, interface.buffers[b].dtype) for n, b in ends.items()}

    inputs, outputs = arrays(interface.inputs), arrays(interface.outputs)

    def call() -> None:
        runner.run(inputs, outputs)
        for array in outputs.values():
            array.reshape(-1).view(np.uint8).max(initial=0)

    return call
