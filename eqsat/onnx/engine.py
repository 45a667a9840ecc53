"""Optimising ONNX models: read, search, write, check, and search again as long as that pays."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqsat.ir import clock
from eqsat.ir.cached import cached_property
from eqsat.ir.collector import rarely
from eqsat.ir.errors import EqsatError
from eqsat.ir.keywords import keywords
from eqsat.models.package import require
from eqsat.result import Measure, Result
from eqsat.rulebook.packages import ONE, Given, asked_for
from eqsat.telling import tell
from eqsat.workers.call import Preparation, prepare

if TYPE_CHECKING:
    from types import ModuleType

    from onnx import ModelProto

    from eqsat.checking.model_names import Names
    from eqsat.checking.verdict import Checked
    from eqsat.extraction.left import Move
    from eqsat.freezing.names import Freeze
    from eqsat.graph.search import Limits, Status
    from eqsat.ir.tensors.tensor import Tensor
    from eqsat.onnx.confirm import Confirmation
    from eqsat.onnx.read import ModelValues, OnnxProgram
    from eqsat.onnx.spelling import Spelling
    from eqsat.pricing.table import Table
    from eqsat.reporting.sides import Side
    from eqsat.reporting.summary import Report

    Known = tuple[OnnxProgram, ModelValues]
    """A model as it was read."""
    Searched = tuple[Result, Spelling]
    """What the engine found, and how it was spelled."""

PASSES = 3
"""How often a result is searched again, as long as that pays."""
LARGE, WORTH = 400, 0.25
"""E-nodes above which a further search takes as long again and rarely finds more, and the share of the time that one
must have gained before it."""
FURTHER = 0.7
"""The share of the time that is left in which a further search must be done: what there is has to be checked."""
NO_GAIN = "the best that was found takes no less {} once it is written as nodes"
FOR_ONNX = Preparation(("onnx", "eqsat.models.guarded", "eqsat.graph.egglog_bindings", "eqsat.graph.search"))
"""What a worker imports while this process reads a model."""


@dataclass(frozen=True, repr=False)
class OnnxResult(Result):
    """What `eqsat.onnx.optimize` found: a result with the optimised `model`, which is `source`, the model as given,
    where nothing was gained; `confirmation`: what runs of both said, if asked for; `file`: its name, if known."""

    model: ModelProto = field(kw_only=True)
    source: ModelProto = field(kw_only=True)
    confirmation: Confirmation | None = field(default=None, kw_only=True)
    file: str = field(default="", kw_only=True)
    parts: tuple[tuple[str, OnnxResult], ...] = field(default=(), kw_only=True)
    """What was found of the bodies of If, Loop and Scan, each a model of its own; costs are without them."""
    known: tuple[Known, Known] | None = field(default=None, kw_only=True, compare=False)
    """Both models as they were read while they were optimised; that does not travel to other processes."""

    @property
    def title(self) -> str:
        """The file or the name of the model, and what it was optimised for."""
        return f"{self.file or self.source.graph.name} for {self.target}"

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "known": None}

    def sides(self, texts: bool = True) -> tuple[Side, Side]:
        """Both models as they are shown: operators with what they move, take and read; texts: and what each does."""
        from eqsat.onnx.bytes import side_of_model

        before, after = self._known()
        one = side_of_model(self.source, *before, self.prices, texts)
        return one, one if self.model is self.source else side_of_model(self.model, *after, self.prices, texts)

    def _known(self) -> tuple[Known, Known]:
        from eqsat.onnx.read import read_with_types

        return self.known or (read_with_types(self.source), read_with_types(self.model))

    @property
    def left(self) -> tuple[Move, ...]:
        """The moves that are left in the model, by the names of its values, each with the reason."""
        from eqsat.extraction.left import moves_left

        program = self._known()[1][0]
        names = program.envelope.names
        nodes = {o: node.name for node in self.model.graph.node for o in node.output if o and node.name}
        called = {key: nodes.get(name, name) for key, name in names.items()}
        timed = self.final.picoseconds is not None
        own = moves_left(program, self.target, self.stopped, self.unproved, names, called, self.frozen, timed)
        inside = [
            replace(m, inside=f"{m.inside}, {part}" if m.inside else part) for part, x in self.parts for m in x.left
        ]
        return tuple(sorted([*own, *inside], key=lambda m: -m.moved))

    def reported(self, texts: bool = True, seconds: float = 0.0) -> Report:
        """The report, with those of bodies."""
        inside = [(part, x.reported(texts=False)) for part, x in self.parts]
        return replace(super().reported(texts, seconds), inside=inside)

    def nodes_of(self, names: Collection[str]) -> set[int]:
        """The serials of the nodes of `original` that these nodes of the model were read as."""
        from eqsat.checking.model_graph import shown_names
        from eqsat.onnx.bytes import owners_of
        from eqsat.onnx.read import OnnxProgram

        program, nodes = self.original, self.source.graph.node
        assert isinstance(program, OnnxProgram)
        made = {o: name for node, name in zip(nodes, shown_names(nodes), strict=True) for o in node.output if o}
        owners = owners_of(program, program.envelope.names)
        return {serial for serial, value in owners.items() if made.get(value) in names}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the optimised model."""
        from eqsat.onnx import save_model

        save_model(self.model, path)


def with_model(result: Result, model: ModelProto, source: ModelProto, remarks: Iterable[str] = ()) -> OnnxResult:
    """A result of the engine with the model that it was written as, and what else there is to say."""
    own: dict[str, Any] = {**result.__dict__, "notes": (*result.notes, *remarks)}
    return OnnxResult(**own, model=model, source=source)


@rarely()
@keywords
def optimize(
    model: ModelProto | str | os.PathLike[str],
    fold_inputs: bool = False,
    *,
    target: str = "onnx",
    objective: str | None = None,
    rules: Iterable[str | Given] | ModuleType | None = None,
    freeze: Freeze = (),
    limits: Limits | None = None,
    checked: bool = True,
    growth: float | None = None,
    prices: Table | None = None,
    confirm: bool = False,
    reached: Callable[[str], None] = lambda phase: None,
) -> OnnxResult:
    """Optimise a model: the result of `eqsat.optimize` with `.model`, the model itself where nothing was gained.

    model: a path, or a ModelProto. fold_inputs: inputs that have a default are constants. target: "onnx", or
    "onnxruntime", which may use the operators that this runtime adds. freeze: also by the name of a node or of a value
    of the model. confirm: run the input and the result in turns,
    for about a second, and give the input back where the result is not faster beyond noise (`.confirmation`). reached:
    hears of phases that are done ("read"). The other options are those of `eqsat.optimize`; limits hold from reading to
    checking.
    The output never costs more than the input under the objective, which is time unless `objective="bytes"` says
    otherwise. It is checked against the input, region by region (`.checked`), before it is returned.

    >>> from eqsat.nets import conv_chain
    >>> best = optimize(conv_chain())
    >>> best.initial.bytes_moved, best.bytes_moved, best.objective
    (10240, 4096, 'time')

    Raises FrontendError for models that cannot be read or written, EqsatError for unknown options.
    """
    require("onnx")
    if confirm:
        require("onnxruntime")
    prepare(FOR_ONNX)
    from eqsat.engine import GROWTH, Limits, check_options, table_for
    from eqsat.onnx.ops.custom import telling
    from eqsat.rulebook.admitted import told

    check_options(GROWTH if growth is None else growth, limits, rules)
    own = rules if rules is None or isinstance(rules, ONE) else tuple(asked_for(rules))
    operators, _ = told(own)
    table, allowed = table_for(target, objective, prices), GROWTH if growth is None else growth
    run = _Run(target, objective, own, freeze, limits or Limits(), checked, allowed, table, confirm)
    file = Path(model).name if isinstance(model, (str, os.PathLike)) else ""
    with telling(operators):
        found = run.whole(model, fold_inputs, reached)
    return replace(found, target=target, prices=table, seconds=run.seconds, file=file)


@dataclass(frozen=True)
class _Run:
    """The options of a run, and when it began."""

    target: str
    objective: str | None
    rules: str | Given | tuple[str | Given, ...] | None
    freeze: Freeze
    limits: Limits
    checked: bool
    growth: float
    table: Table | None
    confirm: bool
    inside: bool = False
    """Whether the model is the body of an If, Loop or Scan."""
    alone: bool = False
    """Whether bodies of If, Loop and Scan stay as they are."""
    begun: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """What the run took until now."""
        return time.monotonic() - self.begun

    def whole(
        self, model: ModelProto | str | os.PathLike[str], fold_inputs: bool, reached: Callable[[str], None]
    ) -> OnnxResult:
        """The result within the limits; the model itself where they are hit."""
        from eqsat.engine import OUT_OF_MEMORY, OUT_OF_TIME
        from eqsat.onnx.frozen import laid, occurring
        from eqsat.onnx.parts.defaults import read_within, with_shapes, without_defaults
        from eqsat.onnx.parts.every import optimizers
        from eqsat.onnx.parts.functions import unfolded
        from eqsat.onnx.read import read_with_types

        given, program, values = read_within(self.limits.seconds, model, fold_inputs)
        given = given if self.inside else with_shapes(given, values)
        before, own = without_defaults(given) if fold_inputs else given, (program, values)
        reached("read")
        try:
            with clock.at_most(self.limits.seconds - self.seconds):
                before, program, values, said = unfolded((before, program, values), self.freeze)
                remarks, folded, whole, unlaid = [*said], before, before, None
                inside: dict[str, OnnxResult] = {}
                for part in optimizers(self.body, self.alone, self.freeze):
                    found = part(before, values, self.limits)
                    remarks += found.remarks
                    for name, x in found.results:
                        inside[name] = replace(x, initial=inside[name].initial) if name in inside else x
                    if found.changed:
                        unlaid = unlaid or ((before, program, values) if found.around else None)
                        before = found.model
                        program, values = read_with_types(before, fold_inputs)
                freeze = occurring(self.freeze, program, given, self.inside)
                known = before, program, values
                before, program, values, frozen = laid(*known, freeze, self.spelling(program), self.target)
                source = _Source(given, before, program, values, self.table, own)
                best = self.best(source, frozen, tuple(remarks))
                if before is not known[0] or unlaid is not None:
                    best = _since(best, source.measure(*(unlaid or known)), before is not known[0])
                best = replace(best, model=given) if best.model is folded else best
                others = best.model is given and known[0] is not whole  # bodies of a model that was not taken
                return best if others else replace(best, parts=tuple(inside.items()))
        except MemoryError:
            return self.late(given, program, "memory-limit", OUT_OF_MEMORY)
        except clock.OutOfTime:
            clock.check()  # an outer limit is for its owner to answer
            return self.late(given, program, "time-limit", OUT_OF_TIME.format(self.limits.seconds))

    def best(self, source: _Source, frozen: Sequence[Tensor], remarks: tuple[str, ...]) -> OnnxResult:
        """The result with some frozen operators; where it computes in floats what is computed on quantised numbers, the
        one in which these operators keep their layouts."""
        from eqsat.onnx.frozen import making
        from eqsat.onnx.quantised import KEPT, Lost, values_on_numbers

        program, begun = source.program, self.begun if self.checked else None

        def judged(kept: Sequence[Tensor], last: bool) -> OnnxResult:
            engine = self.engine(program, kept)
            own = replace(source, frozen=frozenset(x.node.serial for x in kept), last=last)
            return _judged(own, engine(program), engine, begun, self.confirm, remarks)

        try:
            return judged(frozen, False)
        except Lost:
            tell("searching with quantised operators as they are")
            found = judged([*frozen, *making(program, values_on_numbers(source.model))], True)
            return replace(found, notes=(*found.notes, KEPT)) if found.model is not source.given else found

    def spelling(self, program: OnnxProgram) -> Spelling:
        """What writes programs that come of one."""
        from eqsat.backends.targets import target_named
        from eqsat.onnx.spelling import Spelling

        return Spelling(program, target_named(self.target).domains, self.table)

    def engine(self, first: OnnxProgram, frozen: Sequence[Tensor]) -> Callable[[OnnxProgram], Searched]:
        """What searches a program that was read from the model, with some frozen operators, and what has come of it."""
        from eqsat.engine import optimize as search
        from eqsat.onnx.frozen import frozen_in

        last: list[Searched] = []

        def searched(current: OnnxProgram) -> Searched:
            spelling, kept = self.spelling(current), frozen
            if last:
                before, spelled = last.pop()
                kept = frozen_in(spelled.of(before.program), before.frozen)
            asked: dict[str, Any] = {
                "growth": self.growth if current is first else 0.0,  # of what has grown already
                "beyond": spelling.beyond,
                "prices": self.table,
                "limits": self.limits,
            }
            asked |= {"rules": self.rules, "freeze": kept, "checked": False}
            last.append((search(current, self.target, self.objective, **asked), spelling))
            return last[0]

        return searched

    def body(self, model: ModelProto, limits: Limits, alone: bool = False) -> OnnxResult:
        """The body of an If, Loop or Scan, optimised in the same way; alone: without its own bodies."""
        inner = replace(self, limits=limits, confirm=False, inside=True, alone=alone, begun=time.monotonic())
        found = inner.whole(model, False, lambda phase: None)
        return replace(found, target=self.target, prices=self.table, seconds=inner.seconds)

    def late(self, given: ModelProto, program: OnnxProgram, status: Status, reason: str) -> OnnxResult:
        """The model as it is, where a limit was hit."""
        from eqsat.engine import given_back, measure

        unchanged = given_back(program, [reason], status=status, own=measure(program, self.table))
        return with_model(unchanged, given, given)


def _since(best: OnnxResult, initial: Measure, laid: bool) -> OnnxResult:
    """The result with what the model cost before its parts changed, and before operators were given other layouts."""
    final = initial if best.model is best.source else best.final
    return replace(best, laid=best.initial if laid else None, initial=initial, final=final)


def _judged(
    source: _Source,
    first: Searched,
    engine: Callable[[OnnxProgram], Searched],
    begun: float | None,
    confirm: bool,
    remarks: tuple[str, ...],
) -> OnnxResult:
    """The result with its model; the model as it was where writing or checking fails."""
    from eqsat.checking.guard import failed
    from eqsat.engine import given_back
    from eqsat.onnx.quantised import Lost

    before, program = source.model, source.program
    try:
        found = _written(source, first, engine, begun)
        from eqsat.onnx.bytes import carried

        found = replace(found, notes=(*found.notes, *remarks, *carried(before, source.values)))
        return _confirmed(found, source.given, program) if confirm and found.model is not source.given else found
    except (clock.OutOfTime, MemoryError, Lost):
        raise
    except BaseException as error:
        unchanged = given_back(program, first[0].notes, own=source.initial)
        return with_model(unchanged, before, source.given, [failed("the model", error)])


def _confirmed(found: OnnxResult, before: ModelProto, program: OnnxProgram) -> OnnxResult:
    """The result, or the model as it was given where running both shows no gain."""
    from eqsat.onnx.confirm import gain

    done, why = gain(before, found.model)
    if not why:
        return replace(found, confirmation=done)
    notes = (*found.notes, f"the model is unchanged: {why}")
    same = replace(found, program=program, final=found.initial, model=before, notes=notes)
    return replace(same, refused=why, confirmation=done, known=None)


@dataclass(frozen=True)
class _Source:
    """A model as it was `given`, with the best bodies (`model`), and the prices by which results are judged (None: by
    bytes)."""

    given: ModelProto
    model: ModelProto
    program: OnnxProgram
    values: ModelValues
    table: Table | None
    own: Known
    """The model as it was given, as it was read."""
    frozen: frozenset[int] = frozenset()
    """The frozen nodes of the program, by their serials."""
    last: bool = True
    """Whether nothing else is tried where a result computes in floats what is computed on quantised numbers."""

    @cached_property
    def initial(self) -> Measure:
        """What the model costs as it was given."""
        return self.measure(self.model, self.program, self.values)

    def measure(self, model: ModelProto, program: OnnxProgram, values: ModelValues) -> Measure:
        """What a model costs as it stands."""
        from eqsat.engine import measure
        from eqsat.onnx.bytes import bytes_moved, time_of

        taken = None if self.table is None else time_of(model, program, values, self.table)
        return replace(measure(program), bytes_moved=bytes_moved(model, values=values).total, picoseconds=taken)


def _written(
    source: _Source, first: Searched, engine: Callable[[OnnxProgram], Searched], begun: float | None
) -> OnnxResult:
    """The result with its model, checked against the original; that itself where it does not pay or differs."""
    from eqsat.checking.guard import budget, differs, unchecked
    from eqsat.checking.model_names import unchecked_names
    from eqsat.checking.models import check_and_names
    from eqsat.checking.verdict import Checked, CheckFailure, Difference
    from eqsat.engine import given_back
    from eqsat.onnx.quantised import Lost, between_floats, keep_on_numbers
    from eqsat.onnx.stand_ins import compared_with_stand_ins
    from eqsat.polynomials import without_size_notes

    before, program = source.model, source.program
    try:
        result, after, found = _repeated(source, first, engine)
        keep_on_numbers(before, after)
        after = after if after is before else between_floats(after)
        remark = ""
    except CheckFailure as error:
        wrong = Difference(error.operation, error.problem)
        unchanged = given_back(program, first[0].notes, Checked((), 0.0, wrong), own=source.initial)
        return with_model(unchanged, before, source.given, [differs("the model", wrong)])
    except EqsatError as error:
        if isinstance(error, Lost) and not source.last:
            raise
        result, after, found = (
            replace(first[0], initial=source.initial, refused=str(error)),
            before,
            (program, source.values),
        )
        remark = f"the model is unchanged: {error}"
    if after is before:
        notes = without_size_notes(first[0].notes, first[0].original, first[0].program)
        result = replace(result, program=program, final=result.initial, frozen=source.frozen, notes=notes)
        same = with_model(result, before, source.given, [remark] if remark else [])
        return replace(same, known=(source.own, found))
    if begun is None:
        return _named(source, result, after, found, unchecked_names(before, after), result.checked)
    tell("checking")
    done, names = check_and_names(before, after, budget(begun))
    done, seen = compared_with_stand_ins(done, program, found[0], budget(begun))
    if done.difference is not None:
        note = differs("the model", done.difference)
        unchanged = given_back(program, result.notes, done, own=source.initial)
        return with_model(unchanged, before, source.given, [note])
    best = _named(source, result, after, found, names, done)
    return replace(best, notes=(*best.notes, *unchecked(done), *seen))


def _named(
    source: _Source, result: Result, after: ModelProto, found: Known, names: Names, checked: Checked
) -> OnnxResult:
    """The result with its model, in which what is kept has the names that it had."""
    from eqsat.onnx.names import checked_as, read_as, with_names

    model, table = with_names(after, source.model, names)
    known = source.own, read_as(*found, table)
    return replace(with_model(result, model, source.given), known=known, checked=checked_as(checked, after, model))


def _repeated(
    source: _Source, first: Searched, engine: Callable[[OnnxProgram], Searched]
) -> tuple[Result, ModelProto, Known]:
    """The result that a further search does not better, with its model: the one given where nothing pays.

    What is written has other shapes and nodes than what was searched, from which a search may go on.
    """
    from eqsat.checking.guard import debugging
    from eqsat.onnx.bytes import price
    from eqsat.onnx.frozen import frozen_in

    model, current, result = source.model, source.program, replace(first[0], initial=source.initial)
    best, final, values = price(model, source.values), source.initial, source.values
    start = time.monotonic() - first[0].seconds
    for attempt in range(PASSES):
        try:
            with clock.at_most(FURTHER * clock.left() if attempt else inf):
                found, spelling = engine(current) if attempt else first
                if attempt and found.program is current:
                    break  # the first program was read from a model that may be longer than what it says
                spelled = spelling.of(found.program)
                cost = price(spelled.model, spelled.values)
                after = source.measure(spelled.model, spelled.program, spelled.values)
        except clock.OutOfTime:
            clock.check()  # an outer limit is for its owner to answer
            break  # there is time to check what there is
        except EqsatError:
            if attempt == 0 or debugging():
                raise
            break  # what there is is right
        if after.cost > final.cost or (after.picoseconds or 0, cost) >= (final.picoseconds or 0, best):
            if attempt == 0 and found.program is not current and found.final.rank < found.initial.rank:
                result = replace(result, refused=NO_GAIN.format("time" if source.table is not None else "bytes"))
            break
        if after.trades(final):
            break
        worth = source.table is None or found.progress.nodes < LARGE or after.cost <= (1 - WORTH) * final.cost
        model, current, best, final = spelled.model, spelled.program, cost, after
        values = spelled.values
        tell(_best(source.initial, final))
        notes = list(dict.fromkeys([*first[0].notes, *found.notes]))
        frozen = frozenset(x.node.serial for x in frozen_in(spelled, found.frozen))
        result = replace(
            found,
            original=source.program,
            initial=source.initial,
            final=final,
            progress=first[0].progress,
            notes=notes,
            frozen=frozen,
        )
        if not worth or clock.left() < (time.monotonic() - start) / (attempt + 1):
            break
    return result, model, (current, values)


def _best(initial: Measure, final: Measure) -> str:
    """The best so far, for who waits."""
    less = 100 * (1 - final.cost / initial.cost) if initial.cost else 0.0
    return f"best so far: {less:.0f} % less {'bytes' if final.picoseconds is None else 'estimated time'}"
