"""Why an optimised program is equal to the one that was given: the laws that are needed, and the changed regions."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eqsat.checking.verdict import RegionCheck
from eqsat.explaining.program_latex import steps_latex
from eqsat.graph.rebuild import with_operands
from eqsat.ir.tensors.program_text import format_program
from eqsat.ir.tensors.tensor import Constant, Program, Tensor, input
from eqsat.laws.conditions import Obligation
from eqsat.result import Result
from eqsat.rulebook.admitted import NEEDED
from eqsat.rules import tensor_laws

SECONDS = 30.0  # for the search of laws that can be left out

Again = Callable[[Sequence[str], Program, float], Result]
"""The same optimisation of a program by some laws of eqsat, by name, and none of the others, in so many seconds."""


@dataclass(frozen=True)
class ProgramStep:
    """A region that changed, with the check of it by itself. laws: those by which the region alone, with inputs in
    place of what it reads, becomes as cheap (None: there was no time to ask), of which, if `least`, none can be left
    out; obligations: what they asked."""

    check: RegionCheck
    laws: tuple[str, ...] | None = None
    obligations: tuple[Obligation, ...] = ()
    least: bool = False

    def lines(self) -> Iterator[str]:
        """The region before and after, the verdict on it, its laws, and their side conditions."""
        yield f"{', '.join(self.check.before) or 'nothing'}"
        yield f"   = {', '.join(self.check.after) or 'nothing'}  [{self.check.verdict}: {self.check.reason}]"
        if self.laws:
            yield f"   by {'' if self.least else 'some of '}{', '.join(self.laws)}"
        for o in self.obligations:
            yield f"   {o.proof.verdict} ({o.proof.method}): {o.question}"

    def data(self) -> dict[str, Any]:
        """The step as plain data."""
        found = {"before": list(self.check.before), "after": list(self.check.after), "verdict": self.check.verdict}
        asked = [{"question": str(o.question), "verdict": o.proof.verdict} for o in self.obligations]
        laws = {"laws": self.laws and list(self.laws), "least": self.least, "obligations": asked}
        return {**found, "reason": self.check.reason, **laws}


@dataclass(frozen=True)
class ProgramChain:
    """The steps of an optimisation. laws: with these alone, the result costs the same, and (if `least`) with none of
    them left out; steps: the regions that changed, in order."""

    laws: tuple[str, ...]
    least: bool
    steps: tuple[ProgramStep, ...]
    result: Result

    @property
    def holds(self) -> bool:
        """Whether every step was proved, or run on inputs."""
        return self.result.checked.difference is None and all(s.check.verdict != "neither" for s in self.steps)

    def __str__(self) -> str:
        kind = "none of which can be left out" if self.least else "some of which may not be needed"
        lines = [f"by the laws {', '.join(self.laws)} ({kind})" if self.laws else "by no law: nothing was changed"]
        for n, step in enumerate(self.steps):
            first, *rest = step.lines()
            lines += [f"  {n + 1}. {first}", *(f"  {line}" for line in rest)]
        return "\n".join(lines)

    def latex(self) -> str:
        """The chain as LaTeX, a display for each region."""
        regions = [(step.check, step.laws or ()) for step in self.steps]
        return steps_latex(self.result.original, self.result.program, regions)

    def data(self) -> dict[str, Any]:
        """The chain as plain data."""
        steps = [step.data() for step in self.steps]
        return {"laws": list(self.laws), "least": self.least, "holds": self.holds, "steps": steps}


def program_chain(result: Result, again: Again, seconds: float = SECONDS, whole: bool = True) -> ProgramChain:
    """The steps of a result: laws are left out one after the other as long as the result costs the same. Regions are
    asked before the whole, which is larger: what none of them needs is left out there at once. First each region is
    asked which laws act there, then which of them it needs; not `whole`: no more than that."""
    until = time.monotonic() + seconds
    used = {*result.progress.matches, *result.progress.loaded}
    laws = [law.name for law in tensor_laws() if not law.axiom and (law.name in used or law.name in NEEDED)]
    rank = result.final.rank
    if rank == result.initial.rank:
        return ProgramChain((), True, tuple(map(ProgramStep, result.checked.regions)), result)
    regions = _Regions(result, again, until - seconds / 2 if whole else until)
    for check in result.checked.regions:
        regions.step(check, laws, False)
    steps = [regions.step(check, laws, True) for check in result.checked.regions]
    if not whole:
        return ProgramChain(tuple(laws), False, tuple(steps), result)
    needed = {name for step in steps for name in (laws if step.laws is None else step.laws)}
    fewer = [name for name in laws if name in needed or name in NEEDED]
    if len(fewer) < len(laws) and again(fewer, result.original, until - time.monotonic()).final.rank <= rank:
        laws = fewer
    found, least = _least(laws, result.original, again, rank, until)
    regions.until = until
    return ProgramChain(found, least, tuple(regions.step(c, found, True) for c in result.checked.regions), result)


def _least(
    laws: Sequence[str], program: Program, again: Again, rank: Any, until: float
) -> tuple[tuple[str, ...], bool]:
    """The laws without those that a result of this rank does not need; whether there was time for all."""
    kept = list(laws)
    for name in [n for n in laws if n not in NEEDED]:
        if time.monotonic() > until:
            return tuple(kept), False
        fewer = [n for n in kept if n != name]
        if again(fewer, program, until - time.monotonic()).final.rank <= rank:
            kept = fewer
    return tuple(kept), True


class _Regions:
    """The regions of a result, each with its laws; regions that look alike are asked once."""

    def __init__(self, result: Result, again: Again, until: float) -> None:
        self.result, self.again, self.until = result, again, until
        self.known: dict[str, ProgramStep] = {}
        self.parts: dict[RegionCheck, Program | None] = {}

    def step(self, check: RegionCheck, laws: Sequence[str], narrowed: bool) -> ProgramStep:
        """One region with those of some laws that act there by itself; narrowed: that it needs."""
        if check not in self.parts:
            self.parts[check] = part_of(self.result.original, self.result.nodes_of(check.before))
        part = self.parts[check]
        if part is None:
            return ProgramStep(check)
        key = _look(part)
        known = self.known.get(key)
        if known is None or known.laws is None or not set(known.laws) <= set(laws) or (narrowed and not known.least):
            asked = self.asked(check, part, laws, narrowed)
            known = known if known is not None and asked.laws is None else asked
            self.known[key] = known
        return replace(known, check=check)

    def asked(self, check: RegionCheck, part: Program, laws: Sequence[str], narrowed: bool) -> ProgramStep:
        """The laws of a region that was not asked before, and what they asked."""
        left = self.until - time.monotonic()
        if left < 0:
            return ProgramStep(check)
        alone = self.again(laws, part, left)
        gained = alone.final.rank < alone.initial.rank
        if alone.stopped and not gained:
            return ProgramStep(check)
        acted = {*alone.progress.matches, *alone.progress.loaded}
        found, least = tuple(n for n in laws if n in acted or n in NEEDED), False
        if gained and narrowed:
            found, least = _least(laws, part, self.again, alone.final.rank, self.until)
        obligations = tuple(o for o in alone.obligations if str(o.question).partition(":")[0] in found)
        return ProgramStep(check, tuple(n for n in found if n not in NEEDED) or found, obligations, least)


def part_of(program: Program, serials: Collection[int]) -> Program | None:
    """The nodes of a program that have these serials, as a program of its own: what they read from others are inputs,
    what others read of them outputs. None where there are none.

    >>> import eqsat as eq
    >>> y = eq.input("x", (2, 3), "float32").permute_dims((1, 0)).relu()
    >>> part_of(eq.Program([y.node.operands[0].node.operands[0]], {"y": y}), {y.node.serial}).inputs[0].shape
    (3, 2)
    """
    table: dict[tuple[int, int], Tensor] = {}
    inputs: list[Tensor] = []
    made: list[tuple[int, int]] = []
    read = {x.key for x in program.outputs.values()}
    for node in program.nodes():
        if node.serial not in serials:
            read |= {x.key for x in node.operands}
            continue
        for x in node.operands:
            if x.key not in table:
                table[x.key] = x if isinstance(x.node, Constant) else input(f"in{len(inputs)}", x.shape, x.dtype)
                if not isinstance(x.node, Constant):
                    inputs.append(table[x.key])
        new = with_operands(node, [table[x.key] for x in node.operands]) if node.operands else node
        for k in range(len(node.outputs)):
            table[node.serial, k] = Tensor(new, k)
            made.append((node.serial, k))
    outputs = {f"out{n}": table[key] for n, key in enumerate(k for k in made if k in read)}
    return Program(inputs, outputs) if outputs else None


def _look(program: Program) -> str:
    """A program as text, its values by the order in which they occur."""
    names: dict[str, str] = {}
    return re.sub(r"\bt\d+\b", lambda found: names.setdefault(found[0], f"v{len(names)}"), format_program(program))
