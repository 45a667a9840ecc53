"""Optimising programs: the whole way from a program to a cheaper one that is never worse, with the reasons."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from eqsat.backends.targets import TARGETS
from eqsat.checking.guard import budget, differs, failed, unchecked
from eqsat.checking.programs import check_programs
from eqsat.checking.verdict import Checked
from eqsat.extraction.cheapest import cheapest
from eqsat.extraction.cost import layout_nodes, program_bytes, sample_notes
from eqsat.extraction.decode import Decoder
from eqsat.extraction.extract import Alternatives
from eqsat.extraction.prices import prices
from eqsat.graph.encode import Encoded, encode
from eqsat.graph.holes_search import assignments
from eqsat.graph.search import Limits, Progress, Snapshot, Status, task_of
from eqsat.graph.search_worker import search, status_of
from eqsat.ir import clock
from eqsat.ir.errors import EqsatError
from eqsat.ir.law import Law
from eqsat.ir.rule import Rule
from eqsat.ir.tensors.tensor import Constant, Program, Tensor, as_program
from eqsat.operators.forms import operator_name
from eqsat.result import Measure, Result
from eqsat.rulebook.admitted import admitted
from eqsat.workers.call import WorkerLimit

EXACT_SECONDS = 5.0  # for choosing the cheapest program of a searched e-graph
SEARCH_SHARE = 0.6  # of the time that is left; the rest is for choosing, spelling and checking what was found
OUT_OF_MEMORY = "memory was over before a result could be made"
OUT_OF_TIME = "the {:g} s were over before a result could be made"


def measure(program: Program) -> Measure:
    """The layout operators of a program and the bytes they move."""
    nodes = layout_nodes(program)
    return Measure(len(nodes), sum(moved for _, moved in nodes), len(program.nodes()))


def optimize(
    program: Program | Tensor,
    target: str = "c",
    objective: str = "bytes",
    rules: Iterable[str | Law | Rule] | None = None,
    freeze: Iterable[str] = (),
    limits: Limits | None = None,
    *,
    checked: bool = True,
) -> Result:
    """A program with the same meaning that moves fewer bytes; the program itself where none is found.

    >>> import eqsat as eq
    >>> x = eq.input("x", (1, 32, 8, 8), "float32")
    >>> y = x.layout_transform("NCHW", "NHWC").relu().layout_transform("NHWC", "NCHW")
    >>> optimize(y).bytes_moved
    0

    target: "c", "numpy", "opencl" or "onnx": the vocabulary in which the result must be spelled.
    rules: laws and rules of one's own (`eq.law`, `eq.rule`) to use beside all others, or names of laws to choose from
    ours (default: all; `eqsat rules list` names them). What is not proved is refused, with the witness.
    freeze: names of operators (`conv2d`, `onnx:Conv`) that keep the layouts in which the program has them; layouts of
    one's own cannot be given.
    checked: compare the result with the program before it is returned; a result that differs, or a failure on the way,
    gives the program back with a note (EQSAT_DEBUG=1 raises instead).
    Raises EqsatError for unknown targets and objectives; running into a limit is not an error, see `status`.
    """
    if target not in TARGETS:
        raise EqsatError(f"optimize for target {target!r}", "unknown target", f"one of {', '.join(sorted(TARGETS))}")
    if objective != "bytes":
        raise EqsatError(f"optimize for {objective!r}", "unknown objective", "'bytes' is the one there is")
    original = as_program(program)
    initial = measure(original)
    setup = _Setup(target, *admitted(rules), _frozen(original, freeze))
    begun, bound = time.monotonic(), limits or Limits()
    try:
        with clock.at_most(bound.seconds):
            found = _best(original, setup, bound, initial)
            return compared(original, found, begun) if checked else found
    except clock.OutOfTime:
        clock.check()  # an outer limit is for its owner to answer
        return given_back(original, [OUT_OF_TIME.format(bound.seconds)], status="time-limit")
    except MemoryError:
        return given_back(original, [OUT_OF_MEMORY], status="memory-limit")
    except BaseException as error:
        return given_back(original, [failed("the program", error)])


def given_back(
    program: Program, notes: Sequence[str], checked: Checked | None = None, status: Status = "iteration-limit"
) -> Result:
    """The result that is the program itself, with the reasons."""
    own, progress = measure(program), Progress(status)
    done = Checked() if checked is None else checked
    return Result(program, own, own, progress.status, progress, None, (), notes, done)


def compared(original: Program, found: Result, begun: float) -> Result:
    """The result with its check, or the program itself where the check finds a difference."""
    done = check_programs(original, found.program, budget(begun))
    if done.difference is not None:
        return given_back(original, [*found.notes, differs("the program", done.difference)], done)
    return replace(found, checked=done, notes=[*found.notes, *unchecked(done)])


def _best(original: Program, setup: _Setup, bound: Limits, initial: Measure) -> Result:
    """The best result over the fillings of holes; the program itself where nothing is gained."""
    best: Result | None = None
    for candidate in assignments(original):
        try:
            found = _one(candidate, setup, bound, initial)
        except clock.OutOfTime:
            if best is None:
                raise
            break
        if best is None or _rank(found) < _rank(best):
            best = found
        if best.final.bytes_moved == 0 and best.final.layout_ops == 0:
            break
    assert best is not None
    if (best.final.bytes_moved, best.final.nodes) >= (initial.bytes_moved, initial.nodes):
        return Result(original, initial, initial, best.status, best.progress, best.gap, best.obligations, best.notes)
    return best


def _rank(result: Result) -> tuple[int, int]:
    return result.final.bytes_moved, result.final.nodes


@dataclass(frozen=True)
class _Setup:
    """The options of a search, checked."""

    target: str
    laws: tuple[Law, ...]
    rules: tuple[Rule, ...]
    frozen: frozenset[str]


def _frozen(program: Program, freeze: Iterable[str]) -> frozenset[str]:
    """The operator names to freeze; each must occur in the program."""
    if isinstance(freeze, Mapping):
        given = ", ".join(map(str, cast("Mapping[object, object]", freeze)))
        fix = f"freeze=[{', '.join(repr(str(name)) for name in cast('Mapping[object, object]', freeze))}]"
        raise EqsatError(
            f"freeze with layouts for {given}", "names alone can be frozen, in the layouts that the program has", fix
        )
    names = frozenset((freeze,) if isinstance(freeze, str) else freeze)
    known = {operator_name(node) for node in program.nodes()}
    for name in names:
        if name not in known:
            raise EqsatError(
                f"freeze {name!r}", "no operator has that name", f"one of {', '.join(sorted(known - {''}))}"
            )
    return names


def _one(program: Program, setup: _Setup, limits: Limits, initial: Measure) -> Result:
    encoded = encode(program, setup.laws, setup.rules)
    task = task_of(encoded, setup.target, _share(limits, SEARCH_SHARE), setup.frozen, setup.laws)
    notes = sample_notes(program)
    if encoded.cuts:
        notes.append(f"{encoded.cuts} layouts were kept as they are: no formula of their size composes them")
    try:
        snapshot = search(task)
    except WorkerLimit as limit:
        status = status_of(limit)
        return Result(program, initial, measure(program), status, Progress(status), notes=notes)
    snapshot.progress.loaded = encoded.laws
    if snapshot.progress.capped:
        notes.append("the number of layouts per operator was capped")
    decoded, gap = extract_program(encoded, snapshot, setup.target, min(EXACT_SECONDS, clock.left() / 2))
    chosen = program if decoded is None else decoded
    return Result(
        chosen, initial, measure(chosen), snapshot.progress.status, snapshot.progress, gap, snapshot.obligations, notes
    )


def _share(limits: Limits, share: float) -> Limits:
    """The limits with a share of the time that is left."""
    return replace(limits, seconds=min(limits.seconds, clock.left()) * share)


def extract_program(
    encoded: Encoded, snapshot: Snapshot, target: str, seconds: float
) -> tuple[Program | None, float | None]:
    """The cheapest program of a snapshot that is found in so many seconds, and its gap (None: not known); no program
    where an output cannot be built."""
    encoded.universe = snapshot.universe

    def constant(leaf: int) -> bool:
        return isinstance(encoded.leaves[leaf].node, Constant)

    ways = Alternatives(snapshot.nodes, encoded.universe, prices(encoded, target), constant)
    found = cheapest(ways.table(snapshot.roots), snapshot.roots, seconds)
    if found is None:
        return None, None
    return Decoder(encoded, snapshot, dict(found.choices)).program(snapshot.roots), found.gap


__all__ = ["Limits", "Measure", "Result", "measure", "optimize", "program_bytes"]
