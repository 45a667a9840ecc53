"""What a check says: for each changed region whether it was proved, run or neither, and the difference, if any."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from eqsat.ir.errors import EqsatError

now = time.thread_time
"""The clock of a check: processor time, so that a busy machine checks as much as an idle one."""

Verdict = Literal["proved", "run", "neither"]


class CheckFailure(EqsatError):
    """A result that differs from what it was made of: a defect of the optimiser, found before anyone used it."""


@dataclass(frozen=True)
class RegionCheck:
    """One changed region: the verdict with its reason, the seconds it took, and the nodes before and after.

    proved: equal for all inputs of these sizes; run: equal on the inputs that were tried; neither: not tried, see
    `reason`. A region that repeats an earlier one has its verdict and took no time.
    """

    verdict: Verdict
    reason: str
    seconds: float
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """Where two programs or models differ: what was compared, how, and the region as plain data without values."""

    what: str
    problem: str
    region: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Checked:
    """The check of a result, region by region; iterates over the regions.

    >>> Checked((RegionCheck("proved", "symbolic", 0.001, ("t1",), ("t2",)),), 0.002).summary()
    '1 of 1 changed regions proved (2 ms)'
    """

    regions: tuple[RegionCheck, ...] = ()
    seconds: float = 0.0
    difference: Difference | None = None
    skipped: str = ""

    def __iter__(self) -> Iterator[RegionCheck]:
        return iter(self.regions)

    def __len__(self) -> int:
        return len(self.regions)

    def count(self, verdict: Verdict) -> int:
        """How many regions have this verdict."""
        return sum(r.verdict == verdict for r in self.regions)

    def summary(self) -> str:
        """The verdicts in a line."""
        took = f"({1000 * self.seconds:.0f} ms)"
        if self.difference is not None:
            return f"{self.difference.what}: {self.difference.problem} {took}"
        if self.skipped:
            return f"not checked: {self.skipped}"
        if not self.regions:
            return f"nothing was changed {took}"
        kinds: tuple[Verdict, ...] = ("proved", "run", "neither")
        parts = [f"{self.count(v)} {v}" for v in kinds if self.count(v)]
        if len(parts) == 1:
            return f"{len(self.regions)} of {len(self.regions)} changed regions {self.regions[0].verdict} {took}"
        return f"{len(self.regions)} changed regions: {', '.join(parts)} {took}"

    def data(self) -> dict[str, Any]:
        """The verdicts as plain data."""
        return {
            "proved": self.count("proved"),
            "run": self.count("run"),
            "neither": self.count("neither"),
            "seconds": round(self.seconds, 4),
            "difference": None if self.difference is None else f"{self.difference.what}: {self.difference.problem}",
            "not_checked": [
                {"nodes": list(r.before), "reason": r.reason} for r in self.regions if r.verdict == "neither"
            ],
        }


def joined(parts: list[Checked]) -> Checked:
    """Several checks of one result as one."""
    difference = next((p.difference for p in parts if p.difference is not None), None)
    skipped = "; ".join(dict.fromkeys(p.skipped for p in parts if p.skipped))
    return Checked(tuple(r for p in parts for r in p), sum(p.seconds for p in parts), difference, skipped)
