"""How much may be done for a choice: counted in steps, so that the answer does not depend on how busy a machine is."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass
class Budget:
    """Steps of work that are left, and a time at which to stop whatever is left.

    >>> budget = Budget(10, float("inf"))
    >>> budget.spend(8), budget.spend(8)
    (True, False)
    """

    work: float
    deadline: float

    def spend(self, work: float) -> bool:
        """Take some work from what is left; whether more may be done."""
        self.work -= work
        return not self.over

    def share(self, share: float) -> Budget:
        """A part of what is left, taken away from this."""
        part = max(0.0, self.work * share)
        self.work -= part
        return Budget(part, self.until(share))

    def until(self, share: float) -> float:
        """When a part of the time that is left is over."""
        now = time.monotonic()
        return now + max(0.0, self.deadline - now) * share

    @property
    def over(self) -> bool:
        return self.work <= 0 or time.monotonic() >= self.deadline
