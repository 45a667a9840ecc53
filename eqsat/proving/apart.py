"""Asking a solver in a worker process that can be ended.

Some steps of Z3 on products of unknowns (factoring, greatest common divisors, resultants), and of isl on many unknowns,
look at neither budget nor clock, and a deep formula may end its process. What is tame is asked in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat.ir import clock
from eqsat.ir.dtypes import INDEX
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder
from eqsat.proving.points import Answer
from eqsat.proving.question import LEAVES, Question, Variable

MEMORY_MB = 4096
MOST_SECONDS = 120.0  # of one call, where the caller sets no clock
GRACE = 0.2  # seconds after the clock in which Z3 may still end by itself
TAME_DEGREE = 3
TAME_RLIMIT = 400_000
TAME_PRODUCTS = 12
TAME_NODES = 2000
_DIVISIONS = ("floordiv", "mod", "truncdiv", "truncmod")
_HARD_DATA = ("mul", "div", "floordiv", "mod", "truncdiv", "truncmod", "sqrt", "pow")


def is_tame(roots: Sequence[Term], rlimit: int) -> bool:
    """Whether Z3 keeps to its budget: where nothing unknown is multiplied, or little of it, of low degree.

    >>> from eqsat.ir.terms.text import parse_expr
    >>> is_tame([parse_expr("x // 3 * 3 <= x")], 10**9), is_tame([parse_expr("x*x*x*x == 16")], 1000)
    (True, False)
    """
    degrees: dict[Term, int] = {}
    products = data = 0
    for node in postorder(*roots):
        below = [degrees[a] for a in node.args]
        degree = max(below, default=0)
        if node.op in LEAVES or node.op in ("load", "hole"):
            degree = 1
        elif node.dtype == INDEX and (node.op == "prod" or (node.op in _DIVISIONS and node.args[1].op != "const")):
            degree, products = sum(below), products + 1
        elif node.dtype != INDEX:
            data += node.op in _HARD_DATA
            degree = 0 if node.op not in ("and", "or", "not", "where", *t.COMPARE) else degree
        degrees[node] = degree
    if len(degrees) > TAME_NODES or data > TAME_PRODUCTS:
        return False
    worst = max(degrees.values(), default=0)
    return not products or (rlimit <= TAME_RLIMIT and products <= TAME_PRODUCTS and worst <= TAME_DEGREE)


@dataclass(frozen=True)
class Packed:
    """A question and further terms as one table of nodes, so that what they share is sent once."""

    nodes: tuple[tuple[str, tuple[int, ...], Any, str], ...]
    variables: tuple[tuple[int, int | None, int | None, int], ...]
    facts: tuple[int, ...]
    goal: int
    outputs: tuple[int, ...]
    hints: tuple[int, ...]
    finite: bool
    more: tuple[int, ...]


def pack(question: Question, more: Sequence[Term] = ()) -> Packed:
    """The portable form of a question and of more terms over its variables."""
    place: dict[Term, int] = {}
    nodes: list[tuple[str, tuple[int, ...], Any, str]] = []
    for node in postorder(*(v.leaf for v in question.variables), *question.roots, *more):
        place[node] = len(nodes)
        nodes.append((node.op, tuple(place[a] for a in node.args), node.payload, node.dtype))
    return Packed(
        tuple(nodes),
        tuple((place[v.leaf], v.start, v.stop, v.multiple_of) for v in question.variables),
        tuple(place[f] for f in question.facts),
        place[question.goal],
        tuple(place[o] for o in question.outputs),
        tuple(place[h] for h in question.hints),
        question.finite,
        tuple(place[x] for x in more),
    )


def unpack(packed: Packed) -> tuple[Question, tuple[Term, ...]]:
    """The question and the further terms."""
    known: list[Term] = []
    for op, args, payload, dtype in packed.nodes:
        known.append(t.make(op, tuple(known[k] for k in args), payload, dtype))
    variables = tuple(Variable(known[k], start, stop, multiple) for k, start, stop, multiple in packed.variables)
    facts, outputs, hints, more = (
        tuple(known[k] for k in group) for group in (packed.facts, packed.outputs, packed.hints, packed.more)
    )
    return Question(variables, facts, known[packed.goal], outputs, packed.finite, hints), more


def apart(job: str, argument: Any, solver: str) -> Any:
    """The answer of a job of the prover in a worker, or an unknown Answer where it had to be ended."""
    from eqsat.workers.call import WorkerFailure, WorkerMemoryLimit, WorkerTimeLimit, call  # most questions need none

    clock.check()
    seconds = min(clock.left(), MOST_SECONDS)
    try:
        return call(job, (seconds, argument), seconds=seconds + GRACE, memory_mb=MEMORY_MB)
    except WorkerTimeLimit:
        return Answer("unknown", solver, note=f"{solver}: clock")
    except WorkerMemoryLimit:
        return Answer("unknown", solver, note=f"{solver}: memory spent")
    except WorkerFailure as failure:
        if "worker ended" not in failure.problem:
            raise  # an exception of ours
        return Answer("unknown", solver, note=f"{solver}: ended by itself")


def timed(argument: tuple[float, Any], work: Callable[[Any], Any]) -> Any:
    """A job's side of `apart`: the same clock runs on."""
    seconds, rest = argument
    try:
        with clock.at_most(seconds):
            return work(rest)
    except clock.OutOfTime:
        return Answer("unknown", "worker", note="clock: before the solver had ended")
