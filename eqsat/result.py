"""What `optimize` answers, and what the search did and why, in words."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from eqsat.checking.programs import name_of
from eqsat.checking.verdict import Checked
from eqsat.extraction.left import Move, moves_left
from eqsat.files import write_whole
from eqsat.freezing.prepack import prepacked
from eqsat.graph.search import Progress, Status
from eqsat.ir.errors import EqsatError
from eqsat.ir.keywords import keyword_methods
from eqsat.ir.shown import card
from eqsat.ir.tensors.program_text import format_program
from eqsat.ir.tensors.tensor import Program
from eqsat.laws.conditions import Obligation
from eqsat.pricing.table import Table
from eqsat.reporting.page import page
from eqsat.reporting.sides import Side, side_of_program
from eqsat.reporting.summary import Report, Taken
from eqsat.rules import tensor_laws

LAW_SECONDS = 10.0
"""For finding the laws of regions, at most."""


PRICE_ERROR = 1e-3
"""The share of a program's time that prices do not tell from nothing, where more bytes are moved for it."""


@dataclass(frozen=True)
class Measure:
    """The layout operators of a program, the bytes they move, and, where the objective is time, the estimated
    picoseconds of the program."""

    layout_ops: int
    bytes_moved: int
    nodes: int
    picoseconds: int | None = None

    @property
    def cost(self) -> int:
        """What the objective counts: picoseconds where that is time, else bytes."""
        return self.bytes_moved if self.picoseconds is None else self.picoseconds

    @property
    def rank(self) -> tuple[int, int, int]:
        """What is compared: time where that is the objective, then bytes, then nodes."""
        return self.picoseconds or 0, self.bytes_moved, self.nodes

    def trades(self, other: Measure) -> bool:
        """Whether it moves more bytes than another one, for less time than prices can tell from nothing.

        >>> before = Measure(3, 30 << 20, 29, 24_134_600_000)
        >>> Measure(6, 60 << 20, 37, 24_134_100_000).trades(before)
        True
        >>> Measure(2, 20 << 20, 28, 24_134_100_000).trades(before)
        False
        """
        if self.picoseconds is None or other.picoseconds is None:
            return False
        gained = other.picoseconds - self.picoseconds
        return self.bytes_moved > other.bytes_moved and gained < PRICE_ERROR * other.picoseconds


class RegionLaws(Protocol):
    """The laws by which a region alone becomes as cheap (None: not known); `least`: with none of them left out."""

    @property
    def laws(self) -> tuple[str, ...] | None: ...

    @property
    def least(self) -> bool: ...

    @property
    def obligations(self) -> tuple[Obligation, ...]: ...


class Needed(Protocol):
    """The laws with which alone a result costs the same; `least`: with none of them left out. The same of each region
    that was changed."""

    @property
    def laws(self) -> tuple[str, ...]: ...

    @property
    def least(self) -> bool: ...

    @property
    def steps(self) -> Sequence[RegionLaws]: ...

    def latex(self) -> str:
        """The regions as LaTeX."""
        ...


class Steps(Protocol):
    """What finds the steps of a result in so many seconds; not `whole`: those of regions alone."""

    def __call__(self, result: Result, /, *, seconds: float = ..., whole: bool = ...) -> Needed: ...


@keyword_methods
@dataclass(frozen=True, repr=False)
class Result:
    """What `optimize` found: `program`, made of `original`.

    `cost_before` and `cost_after` are what the objective counts, `initial` and `final` all measures of both programs.
    `status` says why the search stopped, `gap` how far the cost can be from the e-graph's optimum (None: not known),
    `obligations` the side conditions met and their verdicts, `checked` for each region that was changed whether it was
    proved equal, run on inputs, or neither.
    """

    program: Program
    original: Program
    initial: Measure
    final: Measure
    status: Status
    progress: Progress
    gap: float | None = None
    obligations: Sequence[Obligation] = field(default_factory=tuple[Obligation, ...])
    notes: Sequence[str] = field(default_factory=tuple[str, ...])
    checked: Checked = field(default_factory=Checked)
    refused: str = ""
    """Why a better result that was found is not taken; '' where none is refused."""
    assumptions: tuple[str, ...] = ()
    """What the result relies on without a proof: what the program says of its inputs (`cropped_value=`), and signatures
    that were told (`eq.operator`)."""
    target: str = "c"
    prices: Table | None = None
    """The prices of time, where that is the objective."""
    seconds: float = 0.0
    """What the whole run took."""
    frozen: frozenset[int] = frozenset()
    """The frozen nodes of `program`, by their serials."""
    laid: Measure | None = None
    """What the program would cost with a change of layout at each edge of the operators that were given other layouts,
    from where the search began; None where none were given."""
    steps: Steps | None = field(default=None, repr=False, compare=False)
    """What finds the steps of this result; it does not travel to other processes."""

    def __repr__(self) -> str:
        unit = "bytes" if self.objective == "bytes" else "ps"
        return f"<{type(self).__name__}: {self.cost_before} -> {self.cost_after} {unit}, {self.status}>"

    def _repr_html_(self) -> str:
        first, _, rest = self.summary().partition("\n")
        return card(first, rest)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "steps": None}

    def prepack(self) -> tuple[Program, Program]:
        """The program as two, for inputs that are parameters (`eq.input(..., parameter=True)`): what is computed from
        these alone, to be run once, and the rest, which takes the results of that by their names.

        >>> import eqsat as eq
        >>> x, w = eq.input("x", (4, 2), "float32"), eq.input("w", (2, 3), "float32", parameter=True)
        >>> r = eq.optimize(eq.Program([x, w], {"y": eq.matmul(x, w)}), freeze={"matmul": [None, "i, j -> j, i", None]})
        >>> ahead, main = r.prepack()
        >>> list(ahead.outputs), [x.name for x in main.inputs]
        (['w_packed'], ['x', 'w_packed'])
        """
        return prepacked(self.program)

    @property
    def left(self) -> tuple[Move, ...]:
        """The moves that are left, those of the most bytes first, each with the reason why it was not removed."""
        timed = self.final.picoseconds is not None
        return tuple(
            moves_left(self.program, self.target, self.stopped, self.unproved, frozen=self.frozen, timed=timed)
        )

    @property
    def unproved(self) -> tuple[str, ...]:
        """The side conditions of laws that were not proved, or are wrong."""
        return tuple(str(o.question) for o in self.obligations if not o.proof)

    @property
    def stopped(self) -> str:
        """The limit that ended the search; '' where it was searched to the end."""
        if self.status != "saturated":
            return self.status
        return "limit on the layouts of an operator" if self.progress.capped else ""

    @property
    def objective(self) -> Literal["time", "bytes"]:
        """What was made less, and what `cost_before` and `cost_after` count: estimated time, or bytes moved."""
        return "bytes" if self.initial.picoseconds is None else "time"

    @property
    def cost_before(self) -> int:
        """The cost of the program as given: picoseconds where the objective is time, else bytes moved."""
        return self.initial.cost

    @property
    def cost_after(self) -> int:
        """The cost of the result, as `cost_before`, and never more, unless operators were given other layouts;
        `bytes_moved` are bytes, which may grow where the objective is time."""
        return self.final.cost

    @property
    def layout_ops(self) -> int:
        """How many layout operators the result has."""
        return self.final.layout_ops

    @property
    def bytes_moved(self) -> int:
        """The bytes that the layout operators of the result move."""
        return self.final.bytes_moved

    def sides(self, texts: bool = True) -> tuple[Side, Side]:
        """Both programs as they are shown: operators with what they move, take and read; texts: and what each does."""
        before = side_of_program(self.original, self.prices, texts)
        return before, before if self.program is self.original else side_of_program(self.program, self.prices, texts)

    @property
    def report(self) -> Report:
        """Everything that is said of this result, as data."""
        return self.reported()

    def nodes_of(self, names: Collection[str]) -> set[int]:
        """The serials of the nodes of `original` that checks call by these names."""
        return {node.serial for node in self.original.nodes() if name_of(node) in names}

    def reported(self, texts: bool = True, seconds: float = 0.0) -> Report:
        """The report; texts: with what each operator does to indices, which the page shows; seconds: to find the laws
        of each region that was changed."""
        before, after = self.sides(texts)
        chain = self.steps(self, seconds=seconds, whole=False) if self.steps is not None and seconds > 0 else None
        return Report(
            objective=self.objective,
            costs=(self.cost_before, self.cost_after),
            before=before,
            after=after,
            status=self.status,
            stopped=self.stopped,
            gap=self.gap,
            seconds=self.seconds,
            iterations=self.progress.iterations,
            e_nodes=self.progress.nodes,
            left=self.left,
            checked=self.checked,
            notes=self.notes,
            conditions=[(str(o.question), o.proof.verdict, o.proof.method) for o in self.obligations],
            rules=self.matched,
            prices="" if self.prices is None else self.prices.source,
            history=self.progress.history,
            laws=self._laws(),
            taken=() if chain is None else taken_of(chain),
            same=self.final.rank == self.initial.rank,
            refused=self.refused,
        )

    def _laws(self) -> list[tuple[str, str, str, str, int]]:
        """The laws of eqsat that acted."""
        counts = Counter(self.matched)
        counts.update(self.progress.loaded)
        return [
            (
                law.name,
                str(law).partition(": ")[2],
                " ".join(law.doc.split()),
                "axiom" if law.axiom else "proved",
                counts[law.name],
            )
            for law in tensor_laws()
            if counts[law.name]
        ]

    @property
    def matched(self) -> dict[str, int]:
        """How often each rule matched, the most frequent first; questions to the index level are not rules."""
        found = {n: c for n, c in self.progress.matches.items() if c and not n.startswith("ask")}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def summary(self, verbose: bool = False) -> str:
        """What was gained, by operator; what is left and why; what was checked; what to do next.

        >>> import eqsat as eq
        >>> x = eq.input("x", (1, 32, 8, 8), "float32")
        >>> y = x.layout_transform("NCHW", "NHWC").relu().layout_transform("NHWC", "NCHW")
        >>> print(eq.optimize(y).summary().splitlines()[0])
        no bytes are moved any more: 2 of 2 moves gone

        verbose: also the laws by which each move went, as far as they are found in the time that the run took (at most
        ten seconds), the rules that matched, and each side condition with its verdict.
        """
        return self.reported(texts=False, seconds=self._spare if verbose else 0.0).text(verbose=verbose)

    @property
    def _spare(self) -> float:
        """Seconds for finding the laws of regions."""
        return max(1.0, min(LAW_SECONDS, self.seconds))

    def explain(self, steps: bool = False, latex: bool = False) -> str:
        """Why the result is what it is: costs, the rules that fired, every side condition with its verdict.

        steps: instead, the laws that are needed (found by optimising again without one after the other) and each
        region that was changed, with the check of it by itself. latex: the steps as LaTeX, with what each value of a
        region is by its indices, before and after.
        """
        if latex and not steps:
            raise EqsatError(
                "explain(latex=True)", "only the steps of a result are LaTeX", "explain(steps=True, latex=True)"
            )
        if latex:
            return self._chain().latex()
        return str(self._chain()) if steps else explain_result(self)

    def _chain(self) -> Needed:
        """The laws that are needed, and the regions that were changed."""
        if self.steps is None:
            raise EqsatError("the steps of a result", "it was not made by eq.optimize in this process")
        return self.steps(self)

    def to_html(self, path: str | os.PathLike[str], steps: bool = False) -> None:
        """Write a page that explains the result and loads nothing: both programs as pictures, costs by operator, each
        move that was removed with its check, what is left and why, laws, side conditions, the search.

        For each move that was removed, the page names the laws of its region, as far as they are found in the time that
        the run took (at most ten seconds). steps: take up to half a minute for that, and find the laws that the whole
        needs, by optimising again without one after the other; the page then names these alone.
        Raises EqsatError where it cannot be written; it appears whole or not at all.
        """
        report = self.reported(seconds=0.0 if steps else self._spare)
        if steps:
            chain = self._chain()
            needed = [law for law in report.laws if law[0] in chain.laws]
            report = replace(report, laws=needed, needed="least" if chain.least else "some", taken=taken_of(chain))
        self.write_page(path, report)

    def write_page(self, path: str | os.PathLike[str], report: Report) -> None:
        """Write the page of a report of this result; EqsatError where it cannot be written."""
        try:
            write_whole(path, page(report, self.title, format_program(self.program)))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise EqsatError(
                f"report {path}", f"cannot be written: {reason}", "choose another name or folder"
            ) from error

    @property
    def title(self) -> str:
        """What was optimised, and for what."""
        return f"{self.original.name} for {self.target}"


def taken_of(chain: Needed) -> tuple[Taken, ...]:
    """The laws of regions as they are told."""
    return tuple(
        Taken(s.laws, s.least, [(str(o.question), o.proof.verdict, o.proof.method) for o in s.obligations])
        for s in chain.steps
    )


def explain_result(result: Result) -> str:
    """Costs, why the search stopped, the rules that matched, the side conditions, and what layout work is left."""
    lines = [
        f"bytes moved by layout operators: {result.initial.bytes_moved} before, {result.bytes_moved} after",
        *_times(result),
        f"layout operators: {result.initial.layout_ops} before, {result.layout_ops} after",
        f"search: {result.status} after {result.progress.iterations} iterations, {result.progress.nodes} e-nodes, "
        f"{result.progress.seconds:.2f} s",
        f"laws used while loading: {', '.join(f'{n} {c}' for n, c in result.progress.loaded.items()) or 'none'}",
        "rules that matched:",
    ]
    lines += [f"  {name}: {count}" for name, count in result.matched.items()]
    lines.append(f"side conditions: {len(result.obligations)}")
    lines += [f"  {o.proof.verdict} ({o.proof.method}): {o.question}" for o in result.obligations]
    lines.append(f"checked: {result.checked.summary()}")
    lines += [f"  {r.verdict}: {_named(r.before)} -> {_named(r.after)} ({r.reason})" for r in result.checked]
    lines += [f"note: {note}" for note in result.notes]
    lines += [f"left: {move}" for move in result.left]
    return "\n".join(lines)


def _times(result: Result) -> list[str]:
    before, after = result.initial.picoseconds, result.final.picoseconds
    if before is None or after is None:
        return []
    return [f"estimated time: {before / 1e6:.1f} us before, {after / 1e6:.1f} us after"]


def _named(nodes: tuple[str, ...]) -> str:
    """The first nodes of a region."""
    return ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "") or "nothing"
