"""Parts of a model that are optimised as models of their own, and what came of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from onnx import ModelProto

from eqsat.checking.guard import failed
from eqsat.engine import Limits
from eqsat.ir import clock
from eqsat.ir.errors import EqsatError


@dataclass
class Parts:
    """A model in which parts were replaced by better ones; `changed` of `tried`, and why others stayed.

    said: what became of those that changed: "bodies ... are better". results: what was found of parts, by their names.
    """

    model: ModelProto
    said: str
    tried: int = 0
    changed: int = 0
    reasons: tuple[str, ...] = ()
    results: tuple[tuple[str, Any], ...] = ()
    around: bool = False
    """Whether what is around the parts changes with them."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What to tell the user."""
        if not self.tried:
            return ()
        return (f"{self.changed} of {self.tried} {self.said}", *dict.fromkeys(self.reasons))

    def attempt(self, part: str, limits: Limits, better: Callable[[Limits], ModelProto | None]) -> None:
        """Take the model with a better part, made within a quarter of the time that is left; None: there is none."""
        clock.check()
        self.tried += 1
        try:
            found = better(replace(limits, seconds=min(limits.seconds, clock.left()) / 4))
        except (clock.OutOfTime, MemoryError):
            raise
        except EqsatError as error:
            self.reasons = (*self.reasons, f"{part} stays as it is: {error}")
        except BaseException as error:
            self.reasons = (*self.reasons, failed(part, error))
        else:
            if found is not None:
                self.model, self.changed = found, self.changed + 1
