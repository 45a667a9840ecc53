"""Optimising programs: the whole way from a program to a cheaper one that is never worse, with the reasons."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from eqsat.cost import layout_nodes, map_bytes, map_steps, pair_bytes, program_bytes
from eqsat.decode import Decoder
from eqsat.encode import Encoded, encode
from eqsat.extract import SCALE, alternatives, greedy
from eqsat.extract_exact import improve
from eqsat.forms import is_selection_node, operator_name
from eqsat.holes_search import assignments
from eqsat.ir.dtypes import itemsize
from eqsat.ir.errors import EqsatError
from eqsat.ir.size_terms import shape_size
from eqsat.ir.tensor import Compute, Constant, Program, Tensor, as_program
from eqsat.regions import Obligation
from eqsat.search import Limits, Progress, Snapshot, Status, task_of
from eqsat.tensor_graph import OPTIONAL_RULES
from eqsat.universe import Reindex
from eqsat.worker import search

TARGETS = ("c", "numpy", "onnx", "opencl")
EXACT_SECONDS = 5.0  # for choosing the cheapest program of a searched e-graph


@dataclass(frozen=True)
class Measure:
    """The layout operators of a program, and the bytes they move."""

    layout_ops: int
    bytes_moved: int
    nodes: int


@dataclass(frozen=True)
class Result:
    """What `optimize` found.

    `status` says why the search stopped, `gap` how far the cost can be from the e-graph's optimum (None: not known),
    `obligations` the side conditions met and their verdicts, `initial` the measure of the program as given.
    """

    program: Program
    initial: Measure
    final: Measure
    status: Status
    progress: Progress
    gap: float | None = None
    obligations: Sequence[Obligation] = field(default_factory=tuple[Obligation, ...])
    notes: Sequence[str] = field(default_factory=tuple[str, ...])

    @property
    def cost_before(self) -> int:
        """The cost of the program as given, in bytes moved."""
        return self.initial.bytes_moved

    @property
    def cost_after(self) -> int:
        """The cost of the result; never more than cost_before."""
        return self.final.bytes_moved

    @property
    def layout_ops(self) -> int:
        """How many layout operators the result has."""
        return self.final.layout_ops

    @property
    def bytes_moved(self) -> int:
        """The bytes that the layout operators of the result move."""
        return self.final.bytes_moved

    def explain(self) -> str:
        """Why the result is what it is: costs, the rules that fired, every side condition with its verdict."""
        from eqsat.explain import explain_result

        return explain_result(self)

    def to_html(self, path: str) -> None:
        """Write the explanation as a page."""
        from eqsat.explain import write_html

        write_html(self, path)


def measure(program: Program) -> Measure:
    """The layout operators of a program and the bytes they move."""
    nodes = layout_nodes(program)
    return Measure(len(nodes), sum(moved for _, moved in nodes), len(program.nodes()))


def optimize(
    program: Program | Tensor,
    target: str = "c",
    objective: str = "bytes",
    rules: Iterable[str] | None = None,
    freeze: Iterable[str] = (),
    limits: Limits | None = None,
) -> Result:
    """A program with the same meaning that moves fewer bytes; the program itself where none is found.

    >>> import eqsat as eq
    >>> x = eq.input("x", (1, 32, 8, 8), "float32")
    >>> y = x.layout_transform("NCHW", "NHWC").relu().layout_transform("NHWC", "NCHW")
    >>> optimize(y).bytes_moved
    0

    target: "c", "numpy", "opencl" or "onnx": the vocabulary in which the result must be spelled.
    rules: names of the graph's rules to use (`eqsat.tensor_graph.OPTIONAL_RULES`; default: all).
    freeze: names of operators (`conv2d`, `onnx:Conv`) that keep the layouts in which the program has them.
    Raises EqsatError for unknown targets and objectives; running into a limit is not an error, see `status`.
    """
    if target not in TARGETS:
        raise EqsatError(f"optimize for target {target!r}", "unknown target", f"one of {', '.join(TARGETS)}")
    if objective != "bytes":
        raise EqsatError(f"optimize for {objective!r}", "unknown objective", "'bytes' is the one there is")
    original = as_program(program)
    initial = measure(original)
    bound = limits or Limits()
    deadline = time.monotonic() + bound.seconds
    setup = _Setup(target, _rules(rules), _frozen(original, freeze))
    best: Result | None = None
    for candidate in assignments(original):
        left = max(0.5, deadline - time.monotonic())
        found = _one(candidate, setup, Limits(bound.nodes, left, bound.iterations, bound.memory_mb), initial)
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
    rules: frozenset[str] | None
    frozen: frozenset[str]


def _rules(rules: Iterable[str] | None) -> frozenset[str] | None:
    if rules is None:
        return None
    names = frozenset((rules,) if isinstance(rules, str) else rules)
    for name in names:
        if name not in OPTIONAL_RULES:
            known = ", ".join(OPTIONAL_RULES)
            raise EqsatError(f"rule {name!r}", "the tensor e-graph has no such rule", f"one of {known}")
    return names


def _frozen(program: Program, freeze: Iterable[str]) -> frozenset[str]:
    """The operator names to freeze; each must occur in the program."""
    names = frozenset((freeze,) if isinstance(freeze, str) else freeze)
    known = {operator_name(node) for node in program.nodes()}
    for name in names:
        if name not in known:
            raise EqsatError(
                f"freeze {name!r}", "no operator has that name", f"one of {', '.join(sorted(known - {''}))}"
            )
    return names


def _one(program: Program, setup: _Setup, limits: Limits, initial: Measure) -> Result:
    encoded = encode(program)
    task = task_of(encoded, setup.target, limits, setup.frozen, setup.rules)
    snapshot = search(task)
    notes: list[str] = []
    if encoded.cuts:
        notes.append(f"{encoded.cuts} layouts were kept as they are: no formula of their size composes them")
    if snapshot is None:
        return Result(program, initial, measure(program), "time-limit", Progress("time-limit"), notes=notes)
    if snapshot.progress.capped:
        notes.append("the number of layouts per operator was capped")
    left = max(0.5, min(EXACT_SECONDS, limits.seconds - snapshot.progress.seconds))
    decoded, gap = extract_program(encoded, snapshot, left)
    chosen = program if decoded is None else decoded
    return Result(
        chosen, initial, measure(chosen), snapshot.progress.status, snapshot.progress, gap, snapshot.obligations, notes
    )


def extract_program(encoded: Encoded, snapshot: Snapshot, seconds: float) -> tuple[Program | None, float | None]:
    """The cheapest program of a snapshot that is found in so many seconds, and its gap (None: not known); no program
    where an output cannot be built."""
    encoded.universe = snapshot.universe
    u = encoded.universe

    def view_cost(reindex: Reindex) -> int:
        return map_bytes(reindex) * SCALE + max(1, map_steps(reindex))

    def pair_cost(first: Reindex, second: Reindex) -> int | None:
        moved = pair_bytes(first, second)
        return None if moved is None else moved * SCALE + 1

    def form_cost(number: int) -> int:
        form = u.forms[number]
        node = encoded.nodes[form.origin if form.origin >= 0 else encoded.like(form.signed)]
        moved = 0
        if isinstance(node, Compute) and is_selection_node(node):
            shape, dtype = node.outputs[0]
            size = shape_size(shape)
            moved = 2 * (size if isinstance(size, int) else 1) * itemsize(dtype)
        return moved * SCALE + 1

    def constant(leaf: int) -> bool:
        return isinstance(encoded.leaves[leaf].node, Constant)

    table = alternatives(snapshot.nodes, u, view_cost, pair_cost, form_cost, constant)
    found = greedy(table, snapshot.roots)
    if found is None:
        return None, None
    exact = improve(table, snapshot.roots, found, seconds)
    chosen, gap = (found, None) if exact is None else (exact.extraction, exact.gap)
    return Decoder(encoded, dict(chosen.choices)).program(snapshot.roots), gap


__all__ = ["Limits", "Measure", "Result", "measure", "optimize", "program_bytes"]
