"""Confirming a gain: a model and its result run in turns, on the same inputs, as onnxruntime optimises them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from eqsat.ir import clock
from eqsat.ir.errors import EqsatError
from eqsat.models.package import require, run_session, session
from eqsat.onnx.check import random_inputs, tried_apart, with_casts
from eqsat.onnx.read import value_types

if TYPE_CHECKING:
    from onnx import ModelProto

SECONDS = 1.0
ROUNDS = (10, 200)
"""How many rounds there are at least, however long they take, and at most."""


@dataclass(frozen=True)
class Confirmation:
    """What a run of the model and of its result takes (medians, in nanoseconds of processor time), in so many rounds,
    and whether the result was the faster one in three rounds of four."""

    before: float
    after: float
    rounds: int
    real: bool

    def __str__(self) -> str:
        verdict = "the gain is real" if self.real else "no gain beyond noise"
        return f"{self.before / 1e3:.0f} us -> {self.after / 1e3:.0f} us of {self.rounds} runs in turns: {verdict}"

    def data(self) -> dict[str, Any]:
        """As plain data; times in microseconds."""
        times = {"before_us": round(self.before / 1e3, 1), "after_us": round(self.after / 1e3, 1)}
        return {**times, "rounds": self.rounds, "real": self.real}


def judged(before: list[int], after: list[int]) -> Confirmation:
    """The verdict about the times of rounds.

    >>> judged([100] * 10, [90] * 10).real, judged([100] * 10, [90, 110] * 5).real
    (True, False)
    """
    ratios = [new / max(old, 1) for old, new in zip(before, after, strict=True)]
    return Confirmation(median(before), median(after), len(ratios), quantiles(ratios, n=4)[2] < 1)


def confirm(
    before: ModelProto,
    after: ModelProto,
    seconds: float = SECONDS,
    timer: Callable[[], int] = time.thread_time_ns,
) -> Confirmation:
    """Run both models for about so many seconds: one thread, whose own time counts, every optimisation of onnxruntime.

    Errors: MissingPackage without onnxruntime; EvaluationError or FrontendError for models that do not run.
    """
    require("onnxruntime")
    before, after, _ = with_casts(before, after)
    feeds = random_inputs(before, 0)
    tried_apart([(model, value_types(model)) for model in (before, after)], feeds, optimize=True)
    live = [session(model, optimize=True) for model in (before, after)]
    for one in live:
        run_session(one, feeds)
    times: tuple[list[int], list[int]] = ([], [])
    while len(times[0]) < ROUNDS[0] or (len(times[0]) < ROUNDS[1] and sum(map(sum, times)) < seconds * 1e9):
        clock.check()
        for which in Random(len(times[0])).sample((0, 1), 2):
            start = timer()
            run_session(live[which], feeds)
            times[which].append(timer() - start)
    return judged(*times)


def gain(before: ModelProto, after: ModelProto) -> tuple[Confirmation | None, str]:
    """What running both says, and why the second one is not kept; '' where it is."""
    try:
        done = confirm(before, after)
    except EqsatError as error:
        return None, f"the gain cannot be measured: {error}"
    return done, "" if done.real else f"it was not faster: {done}"
