"""Finding laws of layout moves: chains with the same values on numbers, proved equal for all sizes and amounts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat.engine import optimize
from eqsat.ir.errors import EqsatError
from eqsat.ir.terms.term import Term
from eqsat.research.moves import (
    AMOUNTS,
    GIVEN,
    MOVES,
    NUMBERS,
    SHAPES,
    Chain,
    Step,
    conditions_needed,
    prove_chains,
    value_at,
)
from eqsat.rules import tensor_laws

_AMOUNT_FREE = ""


@dataclass(frozen=True)
class MoveLaw:
    """Two chains that are equal for all sizes and amounts for which the conditions hold, all of which are needed.

    by: the laws of eqsat that make the left side as cheap as the right one at some sizes; None: they do not.
    """

    left: Chain
    right: Chain
    conditions: tuple[Term, ...]
    method: str
    by: tuple[str, ...] | None

    def __str__(self) -> str:
        follows = "new" if self.by is None else f"follows: {', '.join(self.by)}"
        given = f", when {', '.join(map(str, self.conditions))}" if self.conditions else ""
        return f"{self.left} = {self.right}  for x of ({self.left.shape}){given}  # {follows} [{self.method}]"


@dataclass(frozen=True)
class MoveLaws:
    """The laws that were found, the shortest first, and how many pairs came to what."""

    laws: tuple[MoveLaw, ...]
    chains: int
    pairs: int
    unknown: int
    seconds: float
    complete: bool

    def data(self) -> dict[str, Any]:
        """The laws as plain data."""
        rows = [
            {
                "left": str(w.left),
                "right": str(w.right),
                "shape": w.left.shape,
                "conditions": [str(c) for c in w.conditions],
                "by": w.by,
            }
            for w in self.laws
        ]
        return {"laws": rows, "chains": self.chains, "pairs": self.pairs, "unknown": self.unknown,
                "complete": self.complete, "seconds": round(self.seconds, 2)}  # fmt: skip

    def to_json(self) -> str:
        """The laws as JSON."""
        return json.dumps(self.data(), indent=1)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.laws), self.tail])

    @property
    def tail(self) -> str:
        """How many were looked at, as a comment."""
        end = "" if self.complete else " (the time was over before all were looked at)"
        return f"# {self.pairs} pairs of {self.chains} chains: {len(self.laws)} laws, {self.unknown} unknown{end}"


def discover_moves(
    longest: int = 2,
    seconds: float = 60.0,
    shapes: Sequence[str] = tuple(SHAPES),
    progress: Callable[[str], None] | None = None,
) -> MoveLaws:
    """Laws of chains of moves of tensors of these shapes (of `SHAPES`), true for all sizes and amounts.

    longest: moves of a chain; one that has a part to which a law applies is left out. seconds: in all.

    >>> discover_moves(1).laws
    ()
    """
    begun = time.monotonic()
    found: list[MoveLaw] = []
    chains = pairs = unknown = 0
    complete = True
    for given in GIVEN:
        for shape in shapes:
            classes = _classes(shape, longest, given)
            chains += sum(len(group) for group in classes)
            for left, right in sorted(_pairs(classes), key=lambda p: (p[0].rank, p[1].rank)):
                if time.monotonic() - begun > seconds:
                    complete = False
                    break
                if any(_within(law.left.steps, left.steps) for law in found):
                    continue
                pairs += 1
                if progress is not None:
                    progress(f"{left} = {right}, {len(found)} laws")
                method = prove_chains(left, right, given)
                if method is None:
                    unknown += 1
                    continue
                needed = conditions_needed(left, right, given)
                found.append(MoveLaw(left, right, needed, method, _reached(left, right, given)))
    return MoveLaws(tuple(found), chains, pairs, unknown, time.monotonic() - begun, complete)


def _fitting(given: Sequence[Term]) -> list[Mapping[str, int]]:
    """Numbers for which conditions hold."""
    return [env for env in NUMBERS if all(value_at(c, env) for c in given)]


def _classes(shape: str, longest: int, given: Sequence[Term]) -> list[list[Chain]]:
    """Chains with the same values at all numbers, the simplest of each class first."""
    envs = _fitting(given)
    groups: dict[tuple[Any, ...], list[Chain]] = {}
    level = [Chain(shape)]
    for length in range(longest + 1):
        grown: list[Chain] = []
        for chain in level:
            values = [chain.run(env) for env in envs]
            if any(v is None for v in values) or chain.stages() is None:
                continue
            key = tuple((v.shape, v.tobytes()) for v in values if v is not None)
            groups.setdefault(key, []).append(chain)
            if length < longest:
                amounts = AMOUNTS if length + 1 < longest or longest == 1 else ("a", "b")
                grown += [Chain(shape, (*chain.steps, step)) for step in _steps(amounts)]
        level = grown
    return [sorted(group, key=lambda c: c.rank) for group in groups.values()]


def _steps(amounts: Sequence[str] | Mapping[str, Term]) -> Iterator[Step]:
    for move in MOVES:
        yield from ((move, amount) for amount in (amounts if move.amounts else (_AMOUNT_FREE,)))


def _pairs(classes: Sequence[Sequence[Chain]]) -> Iterator[tuple[Chain, Chain]]:
    """Each chain with plain amounts, and the simplest with the same values."""
    for group in classes:
        for chain in group[1:]:
            if all(amount in ("", "a", "b") for _, amount in chain.steps) and group[0].size < chain.size:
                yield chain, group[0]


def _within(pattern: Sequence[Step], steps: Sequence[Step]) -> bool:
    """Whether some of the steps in a row are those of a pattern, whatever its amounts are called."""
    for k in range(len(steps) - len(pattern) + 1):
        names: dict[str, str] = {}
        window = steps[k : k + len(pattern)]
        same = all(p is q for (p, _), (q, _) in zip(pattern, window, strict=True))
        if same and all(names.setdefault(x, y) == y for (_, x), (_, y) in zip(pattern, window, strict=True)):
            return True
    return False


def _reached(left: Chain, right: Chain, given: Sequence[Term]) -> tuple[str, ...] | None:
    """The laws by which eqsat makes the left side as cheap as the right one, at the first numbers that fit."""
    env = _fitting(given)[0]
    try:
        result, goal = optimize(left.tensor(env)), optimize(right.tensor(env))
    except EqsatError:
        return None
    if result.cost_after > goal.cost_after:
        return None
    used = {*result.progress.matches, *result.progress.loaded}
    return tuple(law.name for law in tensor_laws() if law.name in used)
