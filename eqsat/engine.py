"""Optimising programs: the whole way from a program to a cheaper one that is never worse, with the reasons."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import ceil
from types import ModuleType

from eqsat.checking.guard import budget, differs, failed, unchecked
from eqsat.checking.programs import check_programs
from eqsat.checking.verdict import Checked
from eqsat.explaining.programs import program_chain
from eqsat.extraction.cheapest import WORK, cheapest
from eqsat.extraction.cost import layout_nodes, program_bytes
from eqsat.extraction.decode import Decoder, NoSpelling
from eqsat.extraction.extract import Alternatives, Choice, Prices
from eqsat.extraction.flattened import Flattened
from eqsat.extraction.prices import BYTE, NODE
from eqsat.extraction.prices import prices as prices_of
from eqsat.extraction.slots import Slots
from eqsat.freezing.formulas import Formulas, with_formulas
from eqsat.freezing.names import Freeze, frozen_items
from eqsat.freezing.relay import Freezing, freezing
from eqsat.freezing.signed import relied_on, with_signatures
from eqsat.graph.assumed import assumptions
from eqsat.graph.encode import Encoded, encode
from eqsat.graph.fill_holes import assignments
from eqsat.graph.limits import GROWTH, Limits
from eqsat.graph.nodes import ClassId
from eqsat.graph.search import Progress, Snapshot, Status, task_of
from eqsat.graph.search_worker import search, status_of
from eqsat.ir import clock
from eqsat.ir.collector import rarely
from eqsat.ir.errors import EqsatError
from eqsat.ir.keywords import keywords
from eqsat.ir.law import Law
from eqsat.ir.rule import Rule
from eqsat.ir.tensors.tensor import Program, Tensor, View, as_program, is_ahead
from eqsat.ir.terms.shape import Shape
from eqsat.ir.terms.term import Term
from eqsat.operators.interned import Reindex
from eqsat.operators.permutable import look_at
from eqsat.polynomials import size_notes
from eqsat.pricing.objective import table_for
from eqsat.pricing.operators import Origin
from eqsat.pricing.programs import program_price
from eqsat.pricing.table import Table
from eqsat.pricing.views import is_reshape
from eqsat.repeats.fewer import Fewer, with_fewer_blocks
from eqsat.result import Measure, Result
from eqsat.rulebook.admitted import admitted, not_ours, told
from eqsat.rulebook.packages import ONE, Given, asked_for
from eqsat.telling import tell
from eqsat.workers.call import WorkerLimit

EXACT_SECONDS = 120.0  # for choosing the cheapest program, whose own count of steps ends it before
LEAST_SECONDS = 0.5  # for a search that is to tell which laws act
RETRIES = 4  # of choosing, where a spelling moves more than was claimed
CHOOSING_SHARE = 0.4  # of the time that is left then
LEFT = 2  # times what one choice took must be left for another: what there is has to be checked
PRICING_SHARE = 0.3  # of the time that is left after the search; then views are priced roughly
FORMULAS_SHARE = 0.1  # of the time, for operators that may be formulas
FEWER_SHARE = 0.25  # of the time that is left, for the program with fewer blocks; writing and checking see all of them
NEAR = 0.05  # the gap of its choice up to which the other blocks are as these; beyond it, all are searched as well
CHOOSING_NEXT = 0.5  # of the time that is left then
CHOOSING_FEWER = 0.8  # of the time that is left then
SEARCH_SHARE = 0.4  # of the time that is left; the rest is for choosing, spelling and checking what was found
OUT_OF_MEMORY = "memory was over before a result could be made"
OUT_OF_TIME = "the {:g} s were over before a result could be made"

Beyond = Callable[[Program], Mapping[int, int]]
"""The nodes of a program, by their serials, that cost more as a target spells them than as they stand, in bytes, or in
picoseconds where programs are chosen by time; UNSPELLED: those that it cannot spell."""
UNSPELLED = 1 << 50
"""More than any node costs."""


def measure(program: Program, table: Table | None = None) -> Measure:
    """The layout operators of a program and the bytes they move; the time that a table of prices gives them, too."""
    nodes = layout_nodes(program)
    time_taken = None if table is None else program_price(program, table)
    return Measure(len(nodes), sum(moved for _, moved in nodes), len(program.nodes()), time_taken)


@rarely()
@keywords
def optimize(
    program: Program | Tensor | Term,
    target: str = "c",
    objective: str | None = None,
    rules: Iterable[str | Given] | ModuleType | None = None,
    freeze: Freeze = (),
    limits: Limits | None = None,
    *,
    checked: bool = True,
    growth: float = GROWTH,
    beyond: Beyond | None = None,
    prices: Table | None = None,
) -> Result:
    """A program of the same meaning that moves fewer bytes, or takes less time; itself where none is found.

    >>> import eqsat as eq
    >>> x = eq.input("x", (1, 32, 8, 8), "float32")
    >>> y = x.layout_transform("NCHW", "NHWC").relu().layout_transform("NHWC", "NCHW")
    >>> optimize(y).bytes_moved
    0

    target: "c", "numpy", "opencl", "onnx" or "onnxruntime" (ONNX and the product that onnxruntime adds to it): the
    vocabulary in which the result must be spelled.
    objective: "bytes", which layout operators move, or "time", which is estimated by a table of measured prices
    (`prices`, else those of this machine that `eqsat calibrate` keeps, else the package's). Default: time for ONNX,
    else bytes.
    rules: laws and rules of one's own (`eq.law`, `eq.rule`) to use beside all others, or names of laws to choose from
    ours (default: all; `eqsat rules list` names them); a module stands for all that it declares. What is not proved is
    refused, with the witness. Also signatures (`eq.operator`; see `.assumptions`), and padding to try (`eq.pad_value`).
    freeze: operators that keep their layouts, by the name of the operator (`conv2d`), an output or a node of a model,
    or by a tensor that they make. In a mapping they get others, `{"relu": "NCHW -> NHWC"}`: one for the result (what
    `layout_transform` takes), or one for each operand and result; `laid` counts views at all their edges.
    checked: compare the result with the program before it is returned; a result that differs, or a failure on the way,
    gives the program back with a note (EQSAT_DEBUG=1 raises instead).
    growth: the share by which constants in further layouts may enlarge a graph; beyond it, views of them stay.
    beyond: asked of each result; what it names costs that much more from then on, and the choice is made again.
    Raises EqsatError for unknown targets, objectives and names, and for layouts that an operator cannot have; running
    into a limit is not an error, see `status`.
    """
    table = table_for(target, objective, prices)
    check_options(growth, limits, rules)
    given = rules if rules is None or isinstance(rules, ONE) else asked_for(rules)
    operators, numbers = told(given)
    bound, own = limits or Limits(), not_ours(given)
    formulas = _calls_as_formulas(*with_signatures(as_program(program), operators, freeze), bound)
    frozen = freezing(formulas.program, formulas.freeze, target)
    initial = measure(frozen.program, table)
    setup = _Setup(target, *admitted(given), frozen, table, growth, beyond, pad_values=numbers)

    def again(names: Sequence[str], part: Program, seconds: float) -> Result:
        limits = replace(bound, seconds=min(bound.seconds, max(seconds, LEAST_SECONDS)))
        free = replace(setup, laws=admitted([*names, *own])[0], frozen=Freezing(part))
        return _limited(part, free, limits, measure(part, table), False)

    begun = time.monotonic()
    found = _settled(_limited(formulas.program, setup, bound, initial, checked), formulas, frozen, target, table)
    if frozen.program is not formulas.program and any(layouts is not None for _, layouts in frozen_items(freeze)):
        found = replace(found, laid=found.initial, initial=measure(found.original, table))
    found = _relying(found, *relied_on(found.original, operators)) if operators else found
    return replace(found, seconds=time.monotonic() - begun, steps=partial(program_chain, again=again))


def _calls_as_formulas(program: Program, freeze: Freeze, limits: Limits) -> Formulas:
    """The program with operators that are known to be formulas as these, where a share of the time is enough."""
    try:
        with clock.at_most(FORMULAS_SHARE * limits.seconds):
            return with_formulas(program, freeze)
    except clock.OutOfTime:
        clock.check()  # an outer limit is for its owner to answer
        return Formulas(program, freeze, program, freeze)


def _settled(found: Result, formulas: Formulas, frozen: Freezing, target: str, table: Table | None) -> Result:
    """The result with what it was made of. Where nothing was gained from taking calls as formulas, they are called."""
    original = formulas.program
    if found.program is not frozen.program and found.program is not original:
        found = replace(found, notes=[*formulas.notes, *found.notes])
    elif formulas.notes:
        called = freezing(formulas.called, formulas.called_freeze, target)
        own = measure(called.program, table)
        if found.final.rank < own.rank:
            found = replace(found, initial=own, notes=[*formulas.notes, *found.notes])
        else:
            original, frozen = formulas.called, called
            found = replace(found, program=frozen.program, initial=own, final=own)
    kept = frozen.nodes if found.program is frozen.program else found.frozen
    return replace(found, original=original, target=target, prices=table, frozen=kept)


def _relying(found: Result, assumed: tuple[str, ...], idle: tuple[str, ...]) -> Result:
    """The result with what it relies on of signatures, where it is another program, and with those told in vain."""
    assumed = () if found.program is found.original else assumed
    notes = [*(f"assumed: {a}" for a in assumed), *found.notes, *idle]
    return replace(found, assumptions=(*found.assumptions, *assumed), notes=notes)


def check_options(growth: object, limits: object, rules: object) -> None:
    """Refuse options of a type or value that they cannot have."""
    if not isinstance(growth, (int, float)) or not growth >= 0:
        raise EqsatError(f"growth={growth}", "is not a share of a model's size", "0.05 allows five per cent")
    if limits is not None and not isinstance(limits, Limits):
        raise EqsatError(f"limits={limits!r}", "are no eq.Limits", "limits=eq.Limits(seconds=10)")
    if rules is not None and not isinstance(rules, (*ONE, ModuleType, Iterable)):
        raise EqsatError(f"rules={rules!r}", "is no rule, law or name", "rules=['compose'] names those to use")


def _limited(original: Program, setup: _Setup, bound: Limits, initial: Measure, checked: bool) -> Result:
    """The best result within the limits, compared with the program if wanted; the program itself where all fails."""
    begun, program = time.monotonic(), setup.frozen.program
    try:
        with clock.at_most(bound.seconds):
            found = _best(setup, bound, initial)
            return compared(original, found, begun) if checked else found
    except clock.OutOfTime:
        clock.check()  # an outer limit is for its owner to answer
        return given_back(program, [OUT_OF_TIME.format(bound.seconds)], status="time-limit", own=initial)
    except MemoryError:
        return given_back(program, [OUT_OF_MEMORY], status="memory-limit", own=initial)
    except BaseException as error:
        return given_back(program, [failed("the program", error)], own=initial)


def given_back(
    program: Program,
    notes: Sequence[str],
    checked: Checked | None = None,
    status: Status = "iteration-limit",
    own: Measure | None = None,
) -> Result:
    """The result that is the program itself, with the reasons."""
    own, progress = own or measure(program), Progress(status)
    done = Checked() if checked is None else checked
    return Result(program, program, own, own, progress.status, progress, None, (), notes, done)


def compared(original: Program, found: Result, begun: float) -> Result:
    """The result with its check, or the program itself where the check finds a difference."""
    tell("checking")
    done = check_programs(original, found.program, budget(begun))
    if done.difference is not None:
        return given_back(original, [*found.notes, differs("the program", done.difference)], done, own=found.initial)
    return replace(found, checked=done, notes=[*found.notes, *unchecked(done)])


def _best(setup: _Setup, bound: Limits, initial: Measure) -> Result:
    """The best result over the fillings of holes; the program itself where nothing is gained."""
    best: Result | None = None
    original = setup.frozen.program
    hints = assumptions(original)
    for (candidate, table), assumed in product(assignments(original), (False, True) if hints else (False,)):
        try:
            own = replace(setup, frozen=setup.frozen.moved(candidate, table), assumed=assumed)
            found = _one(own, bound, initial)
        except clock.OutOfTime:
            if best is None:
                raise
            break
        if best is None or found.final.rank < best.final.rank:
            best = replace(found, assumptions=hints if assumed else ())
        if setup.table is None and best.final.bytes_moved == 0 and best.final.layout_ops == 0:
            break
    assert best is not None
    if best.final.rank >= initial.rank or best.final.trades(initial):
        notes = [*setup.frozen.notes, *size_notes(original), *best.notes]
        same = replace(best, program=original, original=original, initial=initial, final=initial, notes=notes)
        return replace(same, assumptions=())
    taken = [f"assumed: {a}" for a in best.assumptions]
    return replace(best, notes=[*taken, *setup.frozen.notes, *size_notes(original, best.program), *best.notes])


@dataclass(frozen=True)
class _Setup:
    """The options of a search, checked."""

    target: str
    laws: tuple[Law, ...]
    rules: tuple[Rule, ...]
    frozen: Freezing
    table: Table | None
    growth: float = GROWTH
    beyond: Beyond | None = None
    assumed: bool = False
    pad_values: tuple[float, ...] = ()
    choosing: float = CHOOSING_SHARE


def _one(setup: _Setup, limits: Limits, initial: Measure) -> Result:
    """The result of one search; of a program that repeats a block often, one that has fewer of them is searched first,
    and all of it where the choice for that one may be far from the best."""
    chain = [] if setup.assumed else with_fewer_blocks(setup.frozen.program, setup.frozen.nodes)
    if not chain:
        return _searched(setup, limits, initial)
    found, near = _of_fewer(chain, setup, limits)
    if found is not None and near:
        return found
    try:
        whole = _searched(replace(setup, choosing=CHOOSING_NEXT), limits, initial)
    except clock.OutOfTime:
        if found is None:
            raise
        return found
    return whole if found is None or whole.final.rank <= found.final.rank else found


def _of_fewer(chain: Sequence[Fewer], setup: _Setup, limits: Limits) -> tuple[Result | None, bool]:
    """The result of a search with fewer blocks, spread to all, and whether the choice for these is NEAR the best; None
    where there is none in a share of the time, or its blocks have become different."""
    own = replace(setup, choosing=CHOOSING_FEWER)
    for fewer in chain:
        own = replace(own, frozen=own.frozen.within(fewer.program, fewer.now), growth=own.growth * fewer.growth)
    first = measure(own.frozen.program, setup.table)
    try:
        with clock.at_most(FEWER_SHARE * clock.left()):
            found = _searched(own, limits, first)
    except clock.OutOfTime:
        clock.check()  # an outer limit is for its owner to answer
        return None, False
    near = found.gap is not None and found.gap <= NEAR
    program, frozen, notes = found.program, found.frozen, list(found.notes)
    more = found.final.bytes_moved - measure(program, setup.table).bytes_moved  # as the target spells it
    for fewer in reversed(chain):
        whole = fewer.spread(program, frozen)
        if whole is None:
            return None, False
        (program, frozen), more, s = whole, ceil(more * fewer.times), fewer.stretch
        notes.append(f"{s.copies} blocks of {s.period} nodes are as the equal ones before them")
    before, final = (measure(x, setup.table) for x in (setup.frozen.program, program))
    final = replace(final, bytes_moved=final.bytes_moved + more)
    given = setup.frozen.program
    return replace(
        found, program=program, original=given, initial=before, final=final, gap=None, frozen=frozen, notes=notes
    ), near


def _searched(setup: _Setup, limits: Limits, initial: Measure) -> Result:
    program = setup.frozen.program
    encoded = encode(program, setup.laws, setup.rules, setup.frozen.nodes, setup.assumed, setup.pad_values)
    setup.frozen.further_forms(encoded, setup.target)
    task = task_of(encoded, setup.target, _share(limits, SEARCH_SHARE), setup.laws)
    notes: list[str] = []
    if encoded.cuts:
        notes.append(f"{encoded.cuts} layouts were kept as they are: no formula of their size composes them")
    try:
        snapshot = search(task, meanwhile=lambda: look_at(program.nodes()))
    except WorkerLimit as limit:
        status = status_of(limit)
        return Result(program, program, initial, initial, status, Progress(status), notes=notes)
    snapshot.progress.loaded = encoded.laws
    if snapshot.progress.capped:
        notes.append("the number of layouts per operator was capped")
    tell("choosing the cheapest program")

    def beyond(made: Program) -> Mapping[int, int]:
        """What costs more in a program, if that costs less than what was there."""
        asked = setup.beyond is not None and measure(made, setup.table).rank < initial.rank
        return setup.beyond(made) if asked and setup.beyond is not None else {}

    found = extract_program(encoded, snapshot, setup.target, setup.choosing, setup.table, setup.growth, beyond)
    chosen = program if found.program is None else found.program
    final = measure(chosen, setup.table)
    final = replace(final, bytes_moved=final.bytes_moved + found.beyond)
    progress = snapshot.progress
    made = Result(chosen, program, initial, final, progress.status, progress, found.gap, snapshot.obligations, notes)
    return replace(made, frozen=setup.frozen.nodes if found.program is None else found.frozen)


def _share(limits: Limits, share: float) -> Limits:
    """The limits with a share of the time that is left."""
    return replace(limits, seconds=min(limits.seconds, clock.left()) * share)


@dataclass(frozen=True)
class Extracted:
    """The cheapest program found (None: an output cannot be built), its gap (None: not known), and the bytes that its
    nodes in other than their own spelling move beyond what they claim."""

    program: Program | None
    gap: float | None
    beyond: int = 0
    frozen: frozenset[int] = frozenset()
    """The nodes of the program, by their serials, that are frozen."""


def extract_program(
    encoded: Encoded,
    snapshot: Snapshot,
    target: str,
    share: float = CHOOSING_SHARE,
    table: Table | None = None,
    growth: float = GROWTH,
    beyond: Beyond | None = None,
) -> Extracted:
    """The cheapest program of a snapshot that is found in a share of the time that is left, by bytes or by a table of
    prices.

    Where a node moves more than its choice was priced for, the choice costs that, and all are made again; a form that
    turns out to have no spelling is no choice.
    """
    encoded.interned = snapshot.interned

    def constant(leaf: int) -> bool:
        return leaf in encoded.interned.constants or is_ahead(encoded.leaves[leaf].node)

    dearer: dict[int | Reindex, int] = {}
    excluded: set[int] = set()
    own_prices = prices_of(encoded, target, table)
    attempt, spare, seconds = 0, list[Extracted](), min(EXACT_SECONDS, share * clock.left())
    while True:
        begun = time.monotonic()
        priced = _dearer(own_prices, dearer, BYTE if table is None else NODE)
        slots, time_for = Slots(encoded), PRICING_SHARE * clock.left()
        takes, apart = slots.takes, slots.apart
        ways = Alternatives(snapshot.nodes, encoded.interned, priced, constant, takes, apart, excluded, time_for)
        table_of_ways = ways.table(snapshot.roots)
        left = min(seconds, share * clock.left()) / (attempt + 1)
        found = cheapest(table_of_ways, snapshot.roots, left, WORK / (attempt + 1))
        if found is None:
            return Extracted(None, None)
        try:
            (decoder, program), *others = _decoded(encoded, snapshot, found.choices, target, growth, table)
        except NoSpelling as error:
            excluded |= error.forms
            continue
        moving: Mapping[int, int] = {} if beyond is None else beyond(program)
        spelled = UNSPELLED not in moving.values()
        if not spelled and beyond is not None:
            spare += _spelled(others, beyond)
        extra = decoder.chosen(program, moving)
        late = attempt == RETRIES or clock.left() < LEFT * (time.monotonic() - begun)
        if late or all(dearer.get(choice) == more for choice, more in extra.items()):
            own = sum(more for choice, more in extra.items() if choice not in encoded.written and table is None)
            made = Extracted(program, found.gap, own, decoder.frozen())
            choice = [made, *spare] if spelled else spare or [made]
            return min(choice, key=lambda x: measure(x.program or encoded.program, table).rank)
        dearer.update(extra)
        attempt += 1


def _spelled(ways: Iterable[tuple[Decoder, Program]], beyond: Beyond) -> list[Extracted]:
    """The first of some programs that a target can spell, if there is one."""
    for decoder, program in ways:
        if UNSPELLED not in beyond(program).values():
            return [Extracted(program, None, 0, decoder.frozen())]
    return []


def _decoded(
    encoded: Encoded,
    snapshot: Snapshot,
    choices: Mapping[ClassId, Choice],
    target: str,
    growth: float,
    table: Table | None,
) -> list[tuple[Decoder, Program]]:
    """The programs of some choices, with what made them, the cheapest first: of those with formulas as the program has
    them, over the shapes that are there, and in the fewest dimensions."""
    decoder = Decoder(encoded, snapshot, dict(choices), target, growth)
    program = decoder.program(snapshot.roots)
    found = [(decoder, program)]
    reshapes = any(isinstance(node, View) and is_reshape(node) for node in program.nodes())
    ways: list[Mapping[ClassId, Shape]] = [{}] if reshapes else []
    if decoder.operators:
        ways += Flattened(encoded, choices).shapes()
    for shapes in ways:
        other = Decoder(encoded, snapshot, dict(choices), target, growth, fitting=True, shapes=shapes)
        with suppress(NoSpelling):
            found.append((other, other.program(snapshot.roots)))
    return sorted(found, key=lambda way: measure(way[1], table).rank)


def _dearer(own: Prices, extra: Mapping[int | Reindex, int], unit: int) -> Prices:
    """Prices with what forms and views cost beyond them, in a unit."""
    if not extra:
        return own

    def pair(first: Reindex, second: Reindex) -> int | None:
        cost = own.pair(first, second)
        return None if cost is None else cost + extra.get(second, 0) * unit

    def form(number: int, origins: tuple[Origin, ...]) -> int:
        return own.form(number, origins) + extra.get(number, 0) * unit

    return Prices(
        lambda view: own.view(view) + extra.get(view, 0) * unit,
        pair,
        form,
        lambda view: own.rough(view) + extra.get(view, 0) * unit,
    )


__all__ = ["Limits", "Measure", "Result", "measure", "optimize", "program_bytes"]
