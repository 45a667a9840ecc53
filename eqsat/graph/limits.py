"""What a run may use and how much it may add: read by commands that leave the run itself to a worker."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from eqsat.ir.errors import EqsatError
from eqsat.ir.keywords import keyword_methods

GROWTH = 0.05  # of a graph by constants in further layouts, without permission for more


@keyword_methods
@dataclass(frozen=True)
class Limits:
    """What a run may use.

    nodes: e-nodes of a graph. seconds: from reading to checking. iterations: of each graph. memory_mb: megabytes of
    each worker process. Raises EqsatError for values that are no limits.

    >>> Limits(seconds=5).nodes
    50000
    """

    nodes: int = 50_000
    seconds: float = 60.0
    iterations: int = 1000
    memory_mb: int = 4096

    def __post_init__(self) -> None:
        for name in ("nodes", "seconds", "iterations", "memory_mb"):
            value: Any = getattr(self, name)
            kind: Any = Integral
            allowed = "a whole number from 0"
            if name == "seconds":
                kind, allowed = Real, "a number from 0, also float('inf')"
            if not isinstance(value, kind) or isinstance(value, bool) or not value >= 0:  # so not a number fails too
                raise EqsatError(f"limit {name}={value!r}", "is not allowed", allowed)
