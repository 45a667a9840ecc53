"""The order of a check: plan regions, run the cheap ones first, and let regions grow where one differs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from eqsat.checking.graph import Graph
from eqsat.checking.part import Impossible
from eqsat.checking.plan import Planner, Region
from eqsat.checking.verdict import Checked, Difference, RegionCheck, Verdict, now

ATTEMPTS = 24
LEAST = 0.03
"""Seconds for the regions, however long it took to find them."""
PATIENCE = 4.0
"""After so many times the seconds the whole is run, before regions grow further: of many equal blocks, each may differ
where it is cut, one after the other."""
GRACE = 4.0
"""Seconds to find out whether a difference of a region is one of the whole."""


@dataclass(frozen=True)
class RegionRun:
    """What running a region showed: `problems` are the pairs that differ, by number, and how."""

    verdict: Verdict
    reason: str
    problems: dict[int, str] = field(default_factory=dict[int, str])


@dataclass(frozen=True)
class Sides:
    """Two graphs, and what is done with their regions.

    run: runs a region until a moment (of `now`); cost: what that will take, in any unit; describe: the region
    as plain data without values.
    """

    before: Graph
    after: Graph
    run: Callable[[Region, float], RegionRun]
    cost: Callable[[Region], float]
    describe: Callable[[Region], dict[str, Any]]


def drive(sides: Sides, seconds: float, attempts: int = ATTEMPTS) -> tuple[Checked, Planner]:
    """Check all regions within so many seconds; a difference may take longer to be certain of, and that many plans.
    With what was taken for equal in the end."""
    begun = now()
    planner = Planner(sides.before, sides.after)
    before, after = sides.before.impure(), sides.after.impure()
    if before != after:  # regions are run alone: they cannot tell one random operator that is used twice from two
        text = f"{after.total()} operators whose runs differ, where {before.total()} are expected"
        return Checked((), now() - begun, Difference("random operators", text)), planner
    deadline = begun + max(LEAST, seconds)
    known: dict[Hashable, RegionRun] = {}
    dropped: set[int] = set()
    first: tuple[Region, RegionRun] | None = None
    patient = True
    for _ in range(attempts):
        regions = planner.plan(dropped)
        found, failed = _attempt(sides, planner, regions, known, deadline)
        if not failed:
            return Checked(tuple(found), now() - begun), planner
        first = first or failed[0]
        deadline = max(deadline, now() + seconds)  # what differed deserves a closer look
        # What was not run for want of time may be run when there is more.
        known = {key: o for key, o in known.items() if o.verdict != "neither"}
        more = planner.widened([(region, outcome.problems) for region, outcome in failed])
        if not more:
            break
        dropped |= more
        if patient and now() - begun > PATIENCE * seconds:
            patient = False
            whole = _whole(sides, planner, first, begun)
            if whole.regions[-1].verdict != "neither":
                return whole, planner
    assert first is not None
    return _whole(sides, planner, first, begun), planner


def _attempt(
    sides: Sides, planner: Planner, regions: Sequence[Region], known: dict[Hashable, RegionRun], deadline: float
) -> tuple[list[RegionCheck], list[tuple[Region, RegionRun]]]:
    """The checks of some regions, and those that differ."""
    found: list[RegionCheck] = []
    failed: list[tuple[Region, RegionRun]] = []
    waiting = sorted(regions, key=sides.cost, reverse=True)
    while waiting:
        region = waiting.pop()
        begun = now()
        outcome = known.get(region.key)
        if outcome is None:
            outcome = known[region.key] = _outcome(sides, region, deadline)
        if outcome.problems and region.free:
            bound = planner.with_numbers(region)
            again = known.get(bound.key) or _outcome(sides, bound, deadline)
            known[bound.key] = again
            if again.verdict != "neither":
                outcome = again
        if outcome.problems:
            failed.append((region, outcome))
            continue
        parts = planner.split(region) if outcome.verdict == "neither" and begun < deadline else []
        if parts:  # too much at once: one pair at a time
            waiting.extend(sorted(parts, key=sides.cost, reverse=True))
            continue
        found.append(RegionCheck(outcome.verdict, outcome.reason, now() - begun, *_names(sides, region)))
    return found, failed


def _outcome(sides: Sides, region: Region, deadline: float) -> RegionRun:
    if now() > deadline:
        return RegionRun("neither", "the time for checking is over")
    try:
        return sides.run(region, deadline)
    except Impossible as error:
        return RegionRun("neither", str(error))


def _names(sides: Sides, region: Region) -> tuple[tuple[str, ...], tuple[str, ...]]:
    before, after = sides.before.vertices, sides.after.vertices
    return (
        tuple(before[n].name for n in region.before if not before[n].leaf),
        tuple(after[n].name for n in region.after if not after[n].leaf and not after[n].added),
    )


def _whole(sides: Sides, planner: Planner, first: tuple[Region, RegionRun], begun: float) -> Checked:
    """Whether what differs in a region does so for values that it has: from the inputs on."""
    found: list[RegionCheck] = []
    difference: Difference | None = None
    for region in planner.plan(whole=True):
        start = now()
        try:
            outcome = sides.run(region, start + GRACE)
        except Impossible as error:
            outcome = RegionRun("neither", str(error))
        if outcome.problems:
            difference = _difference(sides, region, outcome, first[0])
        elif outcome.verdict == "neither":
            # On arbitrary values a part of it differs, and nothing shows that the whole does not.
            difference = _difference(sides, *first, first[0])
        found.append(RegionCheck(outcome.verdict, outcome.reason, now() - start, *_names(sides, region)))
        if difference is not None:
            break
    return Checked(tuple(found), now() - begun, difference)


def _difference(sides: Sides, region: Region, outcome: RegionRun, smallest: Region) -> Difference:
    number, problem = next(iter(outcome.problems.items()))
    value = region.pairs[number][0]
    names = [name for name, v in sides.before.outputs.items() if v == value]
    what = f"output {names[0]!r}" if names else f"the operand {sides.before.at(value).name}"
    return Difference(what, problem, sides.describe(smallest))
