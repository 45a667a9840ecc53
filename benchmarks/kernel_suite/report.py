"""What the times say: a line for each case, and the goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from statistics import median
from typing import Any

import numpy as np

from eqsat.backends.calibration import this_machine
from kernel_suite.case import Case
from kernel_suite.native import COPIES, LINE
from kernel_suite.peers import Task
from kernel_suite.rounds import Contender
from kernel_suite.statistics import Interval, geometric_mean, median_interval, spread

FLOOR = 0.97
"""A case is lost where the whole interval of its ratio to the best peer lies below this."""
GOALS = {
    32: {"a": 1.51, "b": 1.17, "c": 1.28, "d": 2.15, "e": 1.79, "f": 1.18, "g": 1.06},
    64: {"a": 1.5, "b": 1.1, "c": 1.3, "d": 2.0, "e": 1.5, "f": 1.15},
}
"""Geometric means of the ratio to the best peer, by the bytes of a vector and by family."""
OF_ROOM = 0.9
"""What part of the room of a family is its goal where none of those is."""
ROOF = 0.95
"""What part of the speed of a copy is asked for where `at_roof` says that the access pattern allows it."""
ROOF_RUN = 4 * LINE
"""Bytes that lie side by side on both sides, at least, of such a case: shorter runs share too many lines and pages."""
GENERIC = 0.5
"""The least ratio for cases whose indices no strides describe (family x)."""
OURS = ("eqsat", "eqsat tuned")
HEAD = (
    f"{'case':42} {'MB':>6} {'GB/s':>6} {'of copy':>11} {'best peer':>13} {'GB/s':>6} {'ratio':>6} {'interval':>12}"
    f" {'alone':>6} {'spread':>6}"
)


def paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> list[float]:
    """How many times as long as us they took, in each round that both took part in.

    >>> paired({0: 2.0, 1: 2.0, 2: 2.0}, {0: 3.0, 2: 1.0})
    [1.5, 0.5]
    """
    return [theirs[turn] / ours[turn] for turn in sorted(set(ours) & set(theirs))]


def at_roof(task: Task) -> bool:
    """Whether a case can be as quick as a copy: long runs on both sides, and a result beyond the last cache.

    Its roof is the best of the copies of as many bytes, each followed by a reader, timed in the same rounds.
    """
    if not isinstance(task, Case) or task.run < ROOF_RUN:
        return False
    return prod(task.out_shape) * np.dtype(task.out_dtype).itemsize > this_machine().last


@dataclass(frozen=True)
class Row:
    """A case's result. Ratios are times of the other over ours: more than 1 is ahead."""

    task: Task
    contenders: Sequence[Contender]
    failed: Mapping[str, str]
    best: str | None
    ratio: Interval | None
    ratio_alone: float | None
    copy_alone: float
    copy_read: float
    tuned: Interval | None
    roof: Interval | None
    """The time of the best copy over ours, where the copy is the roof."""
    room: float | None
    """The ratio to the best peer that a copy of as many bytes would have, or ours where that is more."""

    @property
    def ours(self) -> Contender:
        """The default kernel of eqsat."""
        return next(c for c in self.contenders if c.name == "eqsat")

    def speed(self, name: str) -> float:
        """GB/s of a contender, alone."""
        seconds = next(c for c in self.contenders if c.name == name).alone
        return self.task.moved / median(seconds.values()) / 1e9

    @property
    def lost(self) -> bool:
        """Whether the whole interval lies below what is allowed."""
        return self.ratio is not None and self.ratio.high < (GENERIC if self.task.family == "x" else FLOOR)

    def line(self) -> str:
        """The result as a line of the table."""
        start = f"{self.task.name:42} {self.task.moved / 1e6:6.1f} {self.speed('eqsat'):6.2f}"
        copies = f" {self.copy_alone:5.2f} {self.copy_read:5.2f}"
        tuned = f" tuned {self.tuned.median:.2f}" if self.tuned else ""
        tuned += f" roof {self.roof.median:.2f} [{self.roof.low:.2f}, {self.roof.high:.2f}]" if self.roof else ""
        if self.best is None or self.ratio is None:
            return f"{start}{copies} {'no peer':>13}{tuned}"
        bounds = f"[{self.ratio.low:.2f}, {self.ratio.high:.2f}]"
        peer = f" {self.best:>13} {self.speed(self.best):6.2f} {self.ratio.median:6.2f} {bounds:>12}"
        wrong = [name for name, why in self.failed.items() if name not in OURS and why == "wrong result"]
        tail = f" {self.ratio_alone:6.2f} {spread(list(self.ours.read.values())):6.2f}{tuned}"
        return (
            f"{start}{copies}{peer}{tail}{' LOST' if self.lost else ''}{' wrong: ' if wrong else ''}{', '.join(wrong)}"
        )

    def record(self) -> dict[str, Any]:
        """The result with all times, for JSON."""
        return {
            "name": self.task.name,
            "family": self.task.family,
            "dtype": self.task.dtype,
            "moved": self.task.moved,
            "best": self.best,
            "ratio": None if self.ratio is None else vars(self.ratio),
            "ratio_alone": self.ratio_alone,
            "of_copy": [self.copy_alone, self.copy_read],
            "tuned": None if self.tuned is None else vars(self.tuned),
            "roof": None if self.roof is None else vars(self.roof),
            "room": self.room,
            "failed": dict(self.failed),
            "repeats": {c.name: c.repeats for c in self.contenders},
            "seconds_alone": {c.name: list(c.alone.values()) for c in self.contenders},
            "seconds_with_reader": {c.name: list(c.read.values()) for c in self.contenders},
        }


def row_of(task: Task, found: Sequence[Contender], failed: Mapping[str, str]) -> Row:
    """The result of a case whose contenders have been timed."""
    by_name = {c.name: c for c in found}
    ours = by_name["eqsat"]
    peers = [c for c in found if c.name not in (*COPIES, *OURS)]
    # Who sat out most rounds was plainly slower than another peer.
    turns = max((len(c.read) for c in peers), default=0)
    best = min((c for c in peers if 2 * len(c.read) > turns), key=lambda c: median(c.read.values()), default=None)
    copies = [by_name[name] for name in COPIES]
    alone = min(median(c.alone.values()) for c in copies) / median(ours.alone.values())
    read = min(median(c.read.values()) for c in copies) / median(ours.read.values())
    tuned = by_name.get("eqsat tuned")
    copy = min(copies, key=lambda c: median(c.read.values()))
    roof = copy if at_roof(task) else None
    return Row(
        task,
        found,
        failed,
        None if best is None else best.name,
        None if best is None else median_interval(paired(ours.read, best.read)),
        None if best is None else median(paired(ours.alone, best.alone)),
        alone,
        read,
        None if tuned is None else median_interval(paired(tuned.read, ours.read)),
        None if roof is None else median_interval(paired(ours.read, roof.read)),
        None if best is None else max(median(paired(c.read, best.read)) for c in (copy, ours)),
    )


def _named(cases: Sequence[str]) -> str:
    return f"{len(cases)} ({', '.join(cases)})" if cases else "none"


def goal_of(family: str, room: float, vector: int) -> float | None:
    """The ratio to the best peer that a family is to have on a machine with vectors of so many bytes; None for families
    that no goal is set for.

    >>> goal_of("d", 4.0, 64), round(goal_of("g", 1.25, 64), 3), goal_of("x", 1.0, 64)
    (2.0, 1.125, None)
    """
    if family not in GOALS[32]:
        return None
    return GOALS.get(vector, GOALS[32]).get(family, OF_ROOM * room)


def summary(rows: Sequence[Row], broken: Sequence[str], threads: int) -> str:
    """Geometric means by family, and whether the goals are met."""
    lines = [
        "",
        f"{'family':7} {'cases':>5} {'GB/s':>6} {'of copy':>8} {'ratio':>6} {'goal':>5} {'room':>5} {'lost':>5}"
        f" {'least':>6}",
    ]
    met = not broken
    for family in sorted({row.task.family for row in rows}):
        some = [row for row in rows if row.task.family == family]
        ratios = [row.ratio.median for row in some if row.ratio is not None]
        room = geometric_mean(row.room for row in some if row.room is not None)
        mean, goal = geometric_mean(ratios), goal_of(family, room, this_machine().vector)
        lost = sum(row.lost for row in some)
        asked = "" if goal is None else f"{goal:.2f}"
        met = met and not lost and (goal is None or mean >= goal)
        lines.append(
            f"{family:7} {len(some):5} {geometric_mean(row.speed('eqsat') for row in some):6.2f}"
            f" {geometric_mean(row.copy_read for row in some):8.2f} {mean:6.2f} {asked:>5} {room:5.2f} {lost:5}"
            f" {min(ratios, default=float('nan')):6.2f}"
            f"{' (a copy would not reach the goal)' if goal is not None and mean < goal and room < goal else ''}"
        )
    roofs = [(row.task.name, row.roof) for row in rows if row.roof is not None]
    below = [f"{name} {r.median:.2f} [{r.low:.2f}, {r.high:.2f}]" for name, r in roofs if r.high < ROOF]
    if roofs:
        mean = geometric_mean(r.median for _, r in roofs)
        lines.append(
            f"{len(roofs)} cases of runs of {ROOF_RUN} bytes and a result beyond the last cache: {mean:.2f} of a copy; "
            f"{_named(below)} below {ROOF}"
        )
    slower = [
        f"{row.task.name} {row.tuned.median:.2f} [{row.tuned.low:.2f}, {row.tuned.high:.2f}]"
        for row in rows
        if row.tuned is not None and row.tuned.high < 1
    ]
    if any(row.tuned is not None for row in rows):
        gains = [row.tuned.median for row in rows if row.tuned is not None]
        lines.append(
            f"tuned over default {geometric_mean(gains):.2f} in {len(gains)} cases where it chose another schedule; "
            f"slower in {_named(slower)}"
        )
    met = met and not below and not slower
    lost = [row for row in rows if row.lost]
    noise = median([spread(list(row.ours.read.values())) for row in rows]) if rows else 0.0
    lines += [f"BROKEN {text}" for text in broken]
    lines.append(
        f"{'goals met' if met else 'goals NOT met'} at {threads} thread(s): {len(lost)} of {len(rows)} cases lost, "
        f"median spread {noise:.2f}"
    )
    return "\n".join(lines)
