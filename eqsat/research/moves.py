"""Finding laws of layout moves: chains of pads, crops, rolls, flips, permutes and reshapes of tensors of any size.

A chain is run on numbers by numpy, which tells chains apart, and written as a formula of indices, of which equality is
proved for all sizes and all amounts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsat.engine import optimize
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError
from eqsat.ir.tensors.tensor import Tensor, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name
from eqsat.proving.prover import Portfolio
from eqsat.rules import tensor_laws

NOTHING = -1  # what stands in padding
N, M = t.sym("n", 1), t.sym("m", 1)
A, B = t.var("a"), t.var("b")
AXES = (t.var("i"), t.var("j"))
ZERO = t.index_const(0)
GIVEN = ((ZERO <= A, ZERO <= B, A + B <= N), (ZERO <= A, ZERO <= B, B <= A, A <= N))
NUMBERS = (
    {"n": 5, "m": 3, "a": 2, "b": 1},
    {"n": 8, "m": 2, "a": 5, "b": 3},
    {"n": 4, "m": 4, "a": 1, "b": 1},
    {"n": 7, "m": 3, "a": 3, "b": 0},
    {"n": 6, "m": 5, "a": 6, "b": 0},
    {"n": 9, "m": 1, "a": 1, "b": 4},
)
AMOUNTS: dict[str, Term] = {"a": A, "b": B, "a + b": A + B, "a - b": A - B, "n - a": N - A, "n - b": N - B, "-a": -A}
SHAPES: dict[str, tuple[Term, ...]] = {"n": (N,), "n, m": (N, M), "n*m": (N * M,)}


@dataclass(frozen=True)
class Moved:
    """A tensor as what it reads: its sizes, where it reads the source, and at which index."""

    sizes: tuple[Term, ...]
    inside: Term
    source: tuple[Term, ...]


@dataclass(frozen=True)
class Move:
    """A move: on arrays, as a map from its indices to those before, and as a method. amounts: whether it has one."""

    name: str
    amounts: bool
    on_array: Callable[[NDArray, int, Mapping[str, int]], NDArray | None]
    on_sizes: Callable[[tuple[Term, ...], Term], tuple[Term, ...] | None]
    on_index: Callable[[tuple[Term, ...], tuple[Term, ...], Term], tuple[Term, tuple[Term, ...]]]
    method: Callable[[Tensor, int, Mapping[str, int]], Tensor]


def _pair(amount: int, rank: int, front: bool) -> list[tuple[int, int]]:
    return [((amount, 0) if front else (0, amount)) if axis == 0 else (0, 0) for axis in range(rank)]


def _cut(x: Any, amount: int, front: bool) -> Any:
    size = x.shape[0] - amount
    start = [amount if front else 0] + [0] * (len(x.shape) - 1)
    return x.crop(start, [size, *x.shape[1:]]) if isinstance(x, Tensor) else x[start[0] : start[0] + size]


def _padding(name: str, front: bool) -> Move:
    def on_index(sizes: tuple[Term, ...], at: tuple[Term, ...], k: Term) -> tuple[Term, tuple[Term, ...]]:
        return (at[0] >= k, (at[0] - k, *at[1:])) if front else (at[0] < sizes[0], at)

    return Move(
        name, True,
        lambda x, k, _: None if k < 0 else np.pad(x, _pair(k, x.ndim, front), constant_values=NOTHING),
        lambda sizes, k: (sizes[0] + k, *sizes[1:]),
        on_index,
        lambda x, k, _: x.pad(_pair(k, len(x.shape), front)),
    )  # fmt: skip


def _cropping(name: str, front: bool) -> Move:
    def on_index(sizes: tuple[Term, ...], at: tuple[Term, ...], k: Term) -> tuple[Term, tuple[Term, ...]]:
        return t.TRUE, (at[0] + k, *at[1:]) if front else at

    return Move(
        name, True,
        lambda x, k, _: None if k < 0 or k > x.shape[0] else _cut(x, k, front),
        lambda sizes, k: (sizes[0] - k, *sizes[1:]),
        on_index,
        lambda x, k, _: _cut(x, k, front),
    )  # fmt: skip


def _factors(size: Term) -> tuple[Term, Term] | None:
    return (N, M) if size is N * M else None


MOVES = (
    Move(
        "roll", True,
        lambda x, k, _: np.roll(x, k, 0),
        lambda sizes, k: sizes if sizes[0].op == "sym" else None,
        lambda sizes, at, k: (t.TRUE, ((at[0] - k) % sizes[0], *at[1:])),
        lambda x, k, _: x.roll(k, 0),
    ),
    Move(
        "flip", False,
        lambda x, k, _: x[::-1],
        lambda sizes, k: sizes,
        lambda sizes, at, k: (t.TRUE, (sizes[0] - 1 - at[0], *at[1:])),
        lambda x, k, _: x.flip((0,)),
    ),
    _padding("pad_front", True), _padding("pad_end", False),
    _cropping("crop_front", True), _cropping("crop_end", False),
    Move(
        "transpose", False,
        lambda x, k, _: x.T if x.ndim == 2 else None,
        lambda sizes, k: (sizes[1], sizes[0]) if len(sizes) == 2 else None,
        lambda sizes, at, k: (t.TRUE, (at[1], at[0])),
        lambda x, k, _: x.permute_dims((1, 0)),
    ),
    Move(
        "merge", False,
        lambda x, k, _: x.reshape(-1) if x.ndim == 2 else None,
        lambda sizes, k: (sizes[0] * sizes[1],) if len(sizes) == 2 and sizes[1].op == "sym" else None,
        lambda sizes, at, k: (t.TRUE, (at[0] // sizes[1], at[0] % sizes[1])),
        lambda x, k, _: x.reshape((-1,)),
    ),
    Move(
        "split", False,
        lambda x, k, env: x.reshape(-1, env["m"]) if x.ndim == 1 and x.shape[0] == env["n"] * env["m"] else None,
        lambda sizes, k: _factors(sizes[0]) if len(sizes) == 1 else None,
        lambda sizes, at, k: (t.TRUE, (at[0] * M + at[1],)),
        lambda x, k, env: x.reshape((-1, env["m"])),
    ),
)  # fmt: skip

_AMOUNT_FREE = ""
Step = tuple[Move, str]  # a move, and its amount as a text of `AMOUNTS`


@dataclass(frozen=True)
class Chain:
    """Moves one after the other of a tensor of a shape of `SHAPES`."""

    shape: str
    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        return "".join(["x", *(f".{move.name}({amount})" for move, amount in self.steps)])

    @property
    def rank(self) -> tuple[int, int, str]:
        """The shorter, and the simpler its amounts, the earlier."""
        return len(self.steps), sum(len(amount) for _, amount in self.steps), str(self)

    def run(self, env: Mapping[str, int]) -> NDArray | None:
        """The numbers of the cells that it reads, padding as `NOTHING`; None where a move does not fit."""
        sizes = [_number(size, env) for size in SHAPES[self.shape]]
        x: NDArray | None = np.arange(int(np.prod(sizes))).reshape(sizes)
        for move, amount in self.steps:
            if x is None:
                return None
            x = move.on_array(x, _number(AMOUNTS[amount], env) if amount else 0, env)
        return x

    def moved(self) -> Moved | None:
        """What it reads, as formulas."""
        stages = [SHAPES[self.shape]]
        for move, amount in self.steps:
            sizes = move.on_sizes(stages[-1], AMOUNTS.get(amount, ZERO))
            if sizes is None:
                return None
            stages.append(sizes)
        at: tuple[Term, ...] = AXES[: len(stages[-1])]
        inside: Term = t.TRUE
        for (move, amount), before in zip(reversed(self.steps), reversed(stages[:-1]), strict=True):
            holds, at = move.on_index(before, at, AMOUNTS.get(amount, ZERO))
            inside = t.logical_and(holds, inside)
        return Moved(stages[-1], inside, at)

    def fits(self) -> list[Term]:
        """What has to hold for every move to have a meaning: no amount of a pad or crop below zero, none crops more
        than there is."""
        found: list[Term] = []
        sizes: tuple[Term, ...] | None = SHAPES[self.shape]
        for move, amount in self.steps:
            k = AMOUNTS.get(amount, ZERO)
            if move.name.startswith(("pad", "crop")):
                found.append(k >= ZERO)
            if move.name.startswith("crop") and sizes is not None:
                found.append(k <= sizes[0])
            sizes = None if sizes is None else move.on_sizes(sizes, k)
        return found

    def tensor(self, env: Mapping[str, int]) -> Tensor:
        """The chain as a program, for one size."""
        x = input("x", tuple(_number(size, env) for size in SHAPES[self.shape]), "int32")
        for move, amount in self.steps:
            x = move.method(x, _number(AMOUNTS[amount], env) if amount else 0, env)
        return x


def _number(term: Term, env: Mapping[str, int]) -> int:
    return int(value_at(term, env))


def value_at(term: Term, env: Mapping[str, int]) -> Any:
    """The value of a term of sizes and amounts at numbers."""
    return term.evaluate({leaf_name(leaf): env[leaf_name(leaf)] for leaf in _leaves(term)})


def _leaves(term: Term) -> list[Term]:
    return [term] if term.op in ("var", "sym") else [x for a in term.args for x in _leaves(a)]


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
            if any(v is None for v in values) or chain.moved() is None:
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
            if all(amount in ("", "a", "b") for _, amount in chain.steps) and len(group[0].steps) < len(chain.steps):
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


def prove_chains(left: Chain, right: Chain, given: Sequence[Term]) -> str | None:
    """How the chains are proved equal for all sizes, and the right one to fit where the left one does; None: not."""
    first, second = left.moved(), right.moved()
    if first is None or second is None or len(first.sizes) != len(second.sizes):
        return None
    portfolio = Portfolio()
    box = {AXES[k]: (0, None) for k in range(len(first.sizes))}
    all_given = t.logical_and(*given, *left.fits())
    known = t.logical_and(all_given, *(v < size for v, size in zip(box, first.sizes, strict=True)))
    inside = t.logical_and(known, first.inside)
    proofs = [portfolio.prove(condition, {}, all_given) for condition in right.fits()]
    proofs += [portfolio.equal(a, b, {}, all_given) for a, b in zip(first.sizes, second.sizes, strict=True)]
    for a, b in ((first.inside, second.inside), (second.inside, first.inside)):
        proofs.append(portfolio.prove(t.logical_or(t.logical_not(a), b), box, known))
    proofs += [portfolio.equal(a, b, box, inside) for a, b in zip(first.source, second.source, strict=True)]
    return "; ".join(dict.fromkeys(p.method for p in proofs)) if all(proofs) else None


def conditions_needed(left: Chain, right: Chain, given: Sequence[Term]) -> tuple[Term, ...]:
    """The conditions without those that the proof does without, where the left side has a value."""
    kept = list(given)
    for condition in given:
        rest = [c for c in kept if c is not condition]
        if prove_chains(left, right, rest) is not None:
            kept = rest
    return tuple(kept)


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
