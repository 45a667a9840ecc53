"""Why an optimised program is equal to the one that was given: the laws that are needed, and the changed regions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat.checking.verdict import RegionCheck
from eqsat.result import Result
from eqsat.rulebook.admitted import NEEDED
from eqsat.rules import tensor_laws

SECONDS = 30.0  # for the search of laws that can be left out

Again = Callable[[Sequence[str]], Result]
"""The same optimisation by some laws of eqsat, by name, and none of the others."""


@dataclass(frozen=True)
class ProgramChain:
    """The steps of an optimisation. laws: with these alone, the result costs the same, and (if `least`) with none of
    them left out; steps: the regions that changed, in order, each with the check of it by itself."""

    laws: tuple[str, ...]
    least: bool
    steps: tuple[RegionCheck, ...]
    result: Result

    @property
    def holds(self) -> bool:
        """Whether every step was proved, or run on inputs."""
        return self.result.checked.difference is None and all(s.verdict != "neither" for s in self.steps)

    def __str__(self) -> str:
        kind = "none of which can be left out" if self.least else "some of which may not be needed"
        lines = [f"by the laws {', '.join(self.laws)} ({kind})" if self.laws else "by no law: nothing was changed"]
        for n, step in enumerate(self.steps):
            lines.append(f"  {n + 1}. {', '.join(step.before) or 'nothing'}")
            lines.append(f"     = {', '.join(step.after) or 'nothing'}  [{step.verdict}: {step.reason}]")
        asked = [o for o in self.result.obligations if str(o.question).partition(":")[0] in self.laws]
        lines += [f"  {o.proof.verdict} ({o.proof.method}): {o.question}" for o in asked]
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        """The chain as plain data."""
        steps = [
            {"before": list(s.before), "after": list(s.after), "verdict": s.verdict, "reason": s.reason}
            for s in self.steps
        ]
        return {"laws": list(self.laws), "least": self.least, "holds": self.holds, "steps": steps}


def program_chain(result: Result, again: Again, seconds: float = SECONDS) -> ProgramChain:
    """The steps of a result: laws are left out one after the other as long as the result costs the same."""
    until = time.monotonic() + seconds
    used = {*result.progress.matches, *result.progress.loaded}
    laws = [law.name for law in tensor_laws() if not law.axiom and (law.name in used or law.name in NEEDED)]
    least = True
    if result.final.rank == result.initial.rank:
        return ProgramChain((), True, result.checked.regions, result)
    for name in [n for n in laws if n not in NEEDED]:
        if time.monotonic() > until:
            least = False
            break
        fewer = [n for n in laws if n != name]
        if again(fewer).final.rank <= result.final.rank:
            laws = fewer
    return ProgramChain(tuple(laws), least, result.checked.regions, result)
