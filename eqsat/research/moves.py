"""Chains of layout moves of tensors of any size: pads, crops, rolls, flips, permutes, reshapes, and reductions.

A chain is run on numbers by numpy, which tells chains apart, and written as formulas of indices, of which equality is
proved for all sizes and all amounts: where each cell of the result reads the source; where a chain reduces, in which
cell of the result each cell of the source counts, if in any. So what is proved of sums, whose padding is zero, holds of
every reduction by an operation that is associative and commutative, with its neutral element as the padding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors.tensor import Tensor, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name
from eqsat.proving.prover import Portfolio

NOTHING = 0  # what stands in padding: what sums do not count
N, M = t.sym("n", 1), t.sym("m", 1)
A, B = t.var("a"), t.var("b")
AXES = (t.var("i"), t.var("j"))
Cell = tuple[Term, ...]
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


@dataclass(frozen=True, eq=False)
class Moved(Record):
    """A chain as formulas: the sizes of its result; for each cell of a box of these sizes, whether and to which cell it
    leads: from the result to the source, or, where it reduces, from the source to the result."""

    sizes: tuple[Term, ...]
    box: tuple[Term, ...]
    inside: Term
    cell: Cell


@dataclass(frozen=True)
class Move:
    """A move: on arrays, on sizes, as a map from its cells to those before (None: it reduces) and from these to its
    own, each with whether there is one, and as a method. amounts: whether it has one."""

    name: str
    amounts: bool
    on_array: Callable[[NDArray, int, Mapping[str, int]], NDArray | None]
    on_sizes: Callable[[tuple[Term, ...], Term], tuple[Term, ...] | None]
    back: Callable[[tuple[Term, ...], Cell, Term], tuple[Term, Cell]] | None
    forth: Callable[[tuple[Term, ...], Cell, Term], tuple[Term, Cell]]
    method: Callable[[Tensor, int, Mapping[str, int]], Tensor]


def _pair(amount: int, rank: int, front: bool) -> list[tuple[int, int]]:
    return [((amount, 0) if front else (0, amount)) if axis == 0 else (0, 0) for axis in range(rank)]


def _cut(x: Any, amount: int, front: bool) -> Any:
    size = x.shape[0] - amount
    start = [amount if front else 0] + [0] * (len(x.shape) - 1)
    return x.crop(start, [size, *x.shape[1:]]) if isinstance(x, Tensor) else x[start[0] : start[0] + size]


def _padding(name: str, front: bool) -> Move:
    def back(sizes: tuple[Term, ...], at: Cell, k: Term) -> tuple[Term, Cell]:
        return (at[0] >= k, (at[0] - k, *at[1:])) if front else (at[0] < sizes[0], at)

    return Move(
        name, True,
        lambda x, k, _: None if k < 0 or not x.ndim else np.pad(x, _pair(k, x.ndim, front), constant_values=NOTHING),
        lambda sizes, k: (sizes[0] + k, *sizes[1:]) if sizes else None,
        back,
        lambda sizes, at, k: (t.TRUE, (at[0] + k, *at[1:]) if front else at),
        lambda x, k, _: x.pad(_pair(k, len(x.shape), front)),
    )  # fmt: skip


def _cropping(name: str, front: bool) -> Move:
    def back(sizes: tuple[Term, ...], at: Cell, k: Term) -> tuple[Term, Cell]:
        return t.TRUE, (at[0] + k, *at[1:]) if front else at

    def forth(sizes: tuple[Term, ...], at: Cell, k: Term) -> tuple[Term, Cell]:
        return (at[0] >= k, (at[0] - k, *at[1:])) if front else (at[0] < sizes[0] - k, at)

    return Move(
        name, True,
        lambda x, k, _: None if k < 0 or not x.ndim or k > x.shape[0] else _cut(x, k, front),
        lambda sizes, k: (sizes[0] - k, *sizes[1:]) if sizes else None,
        back,
        forth,
        lambda x, k, _: _cut(x, k, front),
    )  # fmt: skip


def _summing(name: str, last: bool) -> Move:
    """A sum over the first axis, or over the last one of two."""
    return Move(
        name, False,
        lambda x, k, _: None if x.ndim < 1 + last else np.asarray(x.sum(x.ndim - 1 if last else 0)),
        lambda sizes, k: None if len(sizes) < 1 + last else sizes[:-1] if last else sizes[1:],
        None,
        lambda sizes, at, k: (t.TRUE, at[:-1] if last else at[1:]),
        lambda x, k, _: x.sum(len(x.shape) - 1 if last else 0),
    )  # fmt: skip


def _factors(size: Term) -> tuple[Term, Term] | None:
    return (N, M) if size is N * M else None


MOVES = (
    Move(
        "roll", True,
        lambda x, k, _: np.roll(x, k, 0) if x.ndim else None,
        lambda sizes, k: sizes if sizes and sizes[0].op == "sym" else None,
        lambda sizes, at, k: (t.TRUE, ((at[0] - k) % sizes[0], *at[1:])),
        lambda sizes, at, k: (t.TRUE, ((at[0] + k) % sizes[0], *at[1:])),
        lambda x, k, _: x.roll(k, 0),
    ),
    Move(
        "flip", False,
        lambda x, k, _: x[::-1] if x.ndim else None,
        lambda sizes, k: sizes or None,
        lambda sizes, at, k: (t.TRUE, (sizes[0] - 1 - at[0], *at[1:])),
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
        lambda sizes, at, k: (t.TRUE, (at[1], at[0])),
        lambda x, k, _: x.permute_dims((1, 0)),
    ),
    Move(
        "merge", False,
        lambda x, k, _: x.reshape(-1) if x.ndim == 2 else None,
        lambda sizes, k: (sizes[0] * sizes[1],) if len(sizes) == 2 and sizes[1].op == "sym" else None,
        lambda sizes, at, k: (t.TRUE, (at[0] // sizes[1], at[0] % sizes[1])),
        lambda sizes, at, k: (t.TRUE, (at[0] * sizes[1] + at[1],)),
        lambda x, k, _: x.reshape((-1,)),
    ),
    Move(
        "split", False,
        lambda x, k, env: x.reshape(-1, env["m"]) if x.ndim == 1 and x.shape[0] == env["n"] * env["m"] else None,
        lambda sizes, k: _factors(sizes[0]) if len(sizes) == 1 else None,
        lambda sizes, at, k: (t.TRUE, (at[0] * M + at[1],)),
        lambda sizes, at, k: (t.TRUE, (at[0] // M, at[0] % M)),
        lambda x, k, env: x.reshape((-1, env["m"])),
    ),
    _summing("sum", False), _summing("sum_last", True),
)  # fmt: skip

Step = tuple[Move, str]  # a move, and its amount as a text of `AMOUNTS`


@dataclass(frozen=True)
class Chain:
    """Moves one after the other of a tensor of a shape of `SHAPES`."""

    shape: str
    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        return "".join(["x", *(f".{move.name}({amount})" for move, amount in self.steps)])

    @property
    def size(self) -> tuple[int, int]:
        """The number of moves, and how many come before the last reduction: these move what is not yet reduced."""
        reducing = [n for n, (move, _) in enumerate(self.steps) if move.back is None]
        return len(self.steps), max(reducing, default=0)

    @property
    def reduces(self) -> bool:
        """Whether a move of it reduces."""
        return any(move.back is None for move, _ in self.steps)

    @property
    def rank(self) -> tuple[tuple[int, int], int, str]:
        """The smaller, and the simpler its amounts, the earlier."""
        return self.size, sum(len(amount) for _, amount in self.steps), str(self)

    def run(self, env: Mapping[str, int]) -> NDArray | None:
        """The chain on cells of which no two sums are alike, by all odds; None where a move does not fit."""
        sizes = [_number(size, env) for size in SHAPES[self.shape]]
        x: NDArray | None = np.random.default_rng(0).integers(1, 1 << 40, sizes)
        for move, amount in self.steps:
            if x is None:
                return None
            x = move.on_array(x, _number(AMOUNTS[amount], env) if amount else 0, env)
        return x

    def stages(self) -> list[tuple[Term, ...]] | None:
        """The sizes before each move, and of the result; None where a move does not fit."""
        found = [SHAPES[self.shape]]
        for move, amount in self.steps:
            sizes = move.on_sizes(found[-1], AMOUNTS.get(amount, ZERO))
            if sizes is None:
                return None
            found.append(sizes)
        return found

    def moved(self, forth: bool = False) -> Moved | None:
        """The chain as formulas from the result to the source, or `forth`; None where there are none."""
        stages = self.stages()
        if stages is None:
            return None
        box = stages[0] if forth else stages[-1]
        at: Cell = AXES[: len(box)]
        inside: Term = t.TRUE
        steps = list(zip(self.steps, stages[:-1], strict=True))
        for (move, amount), before in steps if forth else steps[::-1]:
            way = move.forth if forth else move.back
            if way is None:
                return None
            holds, at = way(before, at, AMOUNTS.get(amount, ZERO))
            inside = t.logical_and(inside, holds) if forth else t.logical_and(holds, inside)
        return Moved(stages[-1], box, inside, at)

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


def both_moved(left: Chain, right: Chain) -> tuple[Moved | None, Moved | None]:
    """Two chains as formulas in the same direction."""
    forth = left.reduces or right.reduces
    return left.moved(forth), right.moved(forth)


def prove_chains(left: Chain, right: Chain, given: Sequence[Term]) -> str | None:
    """How the chains are proved equal for all sizes, and the right one to fit where the left one does; None: not."""
    first, second = both_moved(left, right)
    if first is None or second is None or len(first.sizes) != len(second.sizes):
        return None
    portfolio = Portfolio()
    box = {AXES[k]: (0, None) for k in range(len(first.box))}
    all_given = t.logical_and(*given, *left.fits())
    known = t.logical_and(all_given, *(v < size for v, size in zip(box, first.box, strict=True)))
    inside = t.logical_and(known, first.inside)
    proofs = [portfolio.prove(condition, {}, all_given) for condition in right.fits()]
    proofs += [portfolio.equal(a, b, {}, all_given) for a, b in zip(first.sizes, second.sizes, strict=True)]
    for a, b in ((first.inside, second.inside), (second.inside, first.inside)):
        proofs.append(portfolio.prove(t.logical_or(t.logical_not(a), b), box, known))
    proofs += [portfolio.equal(a, b, box, inside) for a, b in zip(first.cell, second.cell, strict=True)]
    return "; ".join(dict.fromkeys(p.method for p in proofs)) if all(proofs) else None


def conditions_needed(left: Chain, right: Chain, given: Sequence[Term]) -> tuple[Term, ...]:
    """The conditions without those that the proof does without, where the left side has a value."""
    kept = list(given)
    for condition in given:
        rest = [c for c in kept if c is not condition]
        if prove_chains(left, right, rest) is not None:
            kept = rest
    return tuple(kept)
