"""What `eqsat optimize` asks a worker process, and what that answers: without what does the work, which it imports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqsat.graph.limits import GROWTH, Limits
from eqsat.ir.errors import EqsatError

if TYPE_CHECKING:
    from eqsat.pricing.table import Table
    from eqsat.rulebook.packages import Given

READ, DONE = "read", "done"
"""Phases that matter to who started a run."""


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line."""

    model: Path
    output: Path | None = None
    report: Path | None = None
    target: str = "onnx"
    objective: str | None = None
    seconds: float | None = None
    shapes: tuple[str, ...] = ()
    fold_inputs: bool = False
    verify: bool = False
    strict: bool = False
    rules: str | None = None
    growth: float = GROWTH
    prices: Path | None = None
    confirm: bool = False
    verbose: bool = False
    laws: bool = False
    """Whether the laws of each removed move are told."""
    freeze: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """A request that was looked at: the files to write (links followed), the sizes of named dimensions, the limits, the
    laws and rules of a user's module, and the prices of time, where that is the objective."""

    request: Request
    output: Path | None
    report: Path | None
    sizes: Mapping[str, int]
    limits: Limits
    rules: tuple[Given, ...] = ()
    table: Table | None = None

    @property
    def options(self) -> dict[str, Any]:
        """What `optimize` is asked for."""
        objective = "bytes" if self.table is None else "time"
        asked = {"objective": objective, "prices": self.table, "limits": self.limits, "rules": self.rules or None}
        return {**asked, "freeze": frozen(self.request.freeze)}


def frozen(texts: Iterable[str]) -> dict[str, Any]:
    """Operators with the layouts that they are to have (None: those of the model), from the texts of an option.

    >>> frozen(["Conv", "gate=NCHW -> NHWC", "mul=i, j -> j, i; ; i, j -> j, i"])
    {'Conv': None, 'gate': 'NCHW -> NHWC', 'mul': ['i, j -> j, i', None, 'i, j -> j, i']}

    Raises EqsatError for a name that is given twice.
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, _, layouts = text.rpartition("=") if "->" in text else (text, "", "")
        if name in found:
            raise EqsatError(f"--freeze {text}", f"{name!r} is frozen already", "give each name once")
        each = [layout.strip() or None for layout in layouts.split(";")]
        found[name] = each[0] if len(each) == 1 else each
    return found


@dataclass(frozen=True)
class Answer:
    """What a command prints, and its exit code."""

    code: int
    data: dict[str, Any]
    text: str
