"""The search: iterate rules and answers over a loaded e-graph under limits, and hand out snapshots of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from eqsat.graph.declared import declared
from eqsat.graph.encode import Encoded, loses_digits
from eqsat.graph.layouts import Layouts, layout_cap
from eqsat.graph.limits import Limits
from eqsat.graph.nodes import Nodes, UseForm
from eqsat.graph.tensor_graph import NODES, TensorGraph, used_in_parts, wanted_layouts
from eqsat.ir.collector import rarely
from eqsat.ir.fast import by_rules_alone, fast_paths
from eqsat.ir.law import Law
from eqsat.ir.rule import Rule
from eqsat.ir.tensors.tensor import Opaque, Program, View, is_ahead
from eqsat.laws.answers import LawAnswers
from eqsat.laws.conditions import Obligation
from eqsat.laws.text import composes
from eqsat.operators.cuts import cut_bundles
from eqsat.operators.definitions import Definition, definition_of
from eqsat.operators.forms import FormMaker, Freedom, freedom
from eqsat.operators.interned import Interned
from eqsat.operators.labels import Name
from eqsat.rules import tensor_laws
from eqsat.workers.limits import resident_mb

SHORT_CHAIN = 12
"""Views in a chain up to which all of its parts are composed. Parts that nothing needs are sometimes a cheaper spelling
on the way to what is needed, but their number is the length squared, and that of ways to them its third power."""
WORKER_MODULES = ("eqsat.graph.egglog_bindings",)  # imported before the memory of a search is limited
Status = Literal["saturated", "node-limit", "time-limit", "memory-limit", "iteration-limit"]


@dataclass
class Progress:
    """What a search did: why it stopped, its size, how often each rule matched (`loaded`: while the program was brought
    into normal form, before it), whether layouts were capped."""

    status: Status = "saturated"
    iterations: int = 0
    nodes: int = 0
    seconds: float = 0.0
    matches: dict[str, int] = field(default_factory=dict[str, int])
    capped: bool = False
    loaded: Mapping[str, int] = field(default_factory=dict[str, int])
    history: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    """After each iteration, the seconds and the e-nodes."""


@dataclass
class Task:
    """A search to be run, free of arrays and functions, so that it can travel to a worker process."""

    interned: Interned
    written: list[tuple[int, tuple[int, ...]]]
    viewed: dict[tuple[tuple[int, int], int], tuple[int, int]]
    freedoms: dict[int, Freedom]
    wanted: list[tuple[int, int]]
    limits: Limits
    laws: tuple[Law, ...]
    rules: tuple[Rule, ...] = ()
    constants: tuple[int, ...] = ()
    """The values that are constants."""
    cuts: dict[int, frozenset[Name]] = field(default_factory=dict[int, frozenset[Name]])
    """The bundles along which operators without a formula may be cut."""
    same: list[tuple[tuple[int, int], tuple[int, int]]] = field(
        default_factory=list[tuple[tuple[int, int], tuple[int, int]]]
    )
    """Values in layouts that are the same by what the program says of its inputs."""
    definitions: dict[int, Definition] = field(default_factory=dict[int, Definition])
    """What operators without a formula are defined as, where they reduce something."""
    short: bool = False
    """Whether the program has short chains of views alone."""
    fast: bool = field(default_factory=fast_paths)
    """Whether fast paths may be taken."""


@dataclass
class Snapshot:
    """The e-graph at one moment, classes as integers (`values`: those of the loaded values), and what is known about
    the search."""

    nodes: Nodes
    roots: list[int]
    values: list[int]
    interned: Interned
    progress: Progress
    obligations: list[Obligation]


def task_of(
    encoded: Encoded,
    target: str,
    limits: Limits,
    laws: Sequence[Law] | None = None,
) -> Task:
    """The search for an encoded program by laws (default: all of `eqsat.rules`); operators that are one by themselves
    stay as the program spells them."""
    u = encoded.interned
    freedoms: dict[int, Freedom] = {}
    cuts: dict[int, frozenset[Name]] = {}
    definitions: dict[int, Definition] = {}
    pads = any(view.fill is not None for view in u.reindexes.items)
    for form, written in encoded.written.items():
        number = u.forms[form].operator
        if u.operators[number].kind.identity:
            freedoms[number] = "written"
        elif number not in freedoms:
            freedoms[number] = freedom(u.operators[number], written[0].node, target)
            if isinstance(written[0].node, Opaque):
                cuts[number] = cut_bundles(written[0].node)
                defined = definition_of(written[0].node) if pads else None  # they say what padding they do without
                if defined is not None:
                    definitions[number] = defined
    forms = dict.fromkeys((form, w.values) for form, written in encoded.written.items() for w in written)
    chosen = tuple(tensor_laws() if laws is None else laws)
    wanted = wanted_layouts(encoded)
    constants = tuple(n for n, x in encoded.leaves.items() if is_ahead(x.node))
    own = encoded.rules, constants, cuts, encoded.same, definitions, longest_chain(encoded.program) <= SHORT_CHAIN
    return Task(u, list(forms), encoded.viewed, freedoms, wanted, limits, chosen, *own)


def longest_chain(program: Program) -> int:
    """How many views follow each other at most.

    >>> import eqsat as eq
    >>> x = eq.input("x", (2, 3), "float32")
    >>> longest_chain(eq.Program([x], {"y": x.permute_dims((1, 0)).pad(1).relu().flip(0)}))
    2
    """
    lengths: dict[int, int] = {}
    for node in program.nodes():
        lengths[node.serial] = 1 + lengths[node.source.node.serial] if isinstance(node, View) else 0
    return max(lengths.values(), default=0)


@rarely()
def run(task: Task, report: Callable[[Snapshot], None]) -> None:
    """Saturate; `report` gets a snapshot before the first iteration, now and then, and at the end."""
    with nullcontext() if task.fast else by_rules_alone():
        _run(task, report)


def _run(task: Task, report: Callable[[Snapshot], None]) -> None:
    start = time.monotonic()
    with declared(task.laws, task.interned) as laws:
        _saturate(task, TensorGraph(task.interned, laws), start, report)


def _saturate(task: Task, graph: TensorGraph, start: float, report: Callable[[Snapshot], None]) -> None:
    u = task.interned
    forms = FormMaker(u, dict(task.freedoms), task.cuts, task.definitions)
    answers = _Answers(u, forms, task.rules, layout_cap(len(task.written)))
    graph.load(task.wanted)
    graph.mark(task.constants, used_in_parts(u, [value for value, _ in task.wanted]))
    graph.load_written(task.written, task.viewed, task.same)
    if task.short:
        graph.compose_all()
    graph.facts([fact for f in range(len(u.forms)) for fact in answers.layouts.form_facts(u.forms[f].operator, f)])
    graph.announce()
    progress = Progress()
    report(_snapshot(graph, answers, progress))
    next_report = 1.0
    while True:
        done = _iterate(graph, answers, progress)
        progress.seconds = time.monotonic() - start
        progress.history.append((progress.seconds, progress.nodes))
        stop = _limit(progress, task.limits)
        if done or stop is not None:
            progress.status = stop if stop is not None and not done else "saturated"
            report(_snapshot(graph, answers, progress))
            return
        if progress.seconds > next_report:
            report(_snapshot(graph, answers, progress))
            next_report = progress.seconds * 1.5 + 1.0


class _Answers:
    """Answers each distinct question once: those about layouts, and those of laws."""

    def __init__(self, interned: Interned, forms: FormMaker, rules: tuple[Rule, ...], layout_cap: int) -> None:
        self.layouts = Layouts(interned, forms, layout_cap)
        self.laws = LawAnswers(interned, forms, rules)
        self.asked: set[tuple[str, tuple[int, ...]]] = set()

    def answer(self, graph: TensorGraph, name: str, question: tuple[int, ...]) -> None:
        """Assert what answers a question that is new."""
        if (name, question) in self.asked:
            return
        self.asked.add((name, question))
        plan = graph.plans.get(name)
        if plan is None:
            graph.facts(self.layouts.answers[name](*question))
            return
        found = self.laws.answer(plan, question)
        maps = self.layouts.interned.reindexes
        apart = composes(plan) and (
            found is None or loses_digits(*(maps[n].map for n in (question[1], question[0], found[0])))
        )
        if apart:
            graph.stay_apart(plan, question)
        if found is not None:
            graph.answer(plan, question, found)


def _iterate(graph: TensorGraph, answers: _Answers, progress: Progress) -> bool:
    """One pass of rules and answers; whether nothing changed."""
    changed, matches = graph.iterate()
    for name, count in matches.items():
        progress.matches[name] = progress.matches.get(name, 0) + count
    sizes = graph.graph.sizes()
    for name, questions in graph.asked(sizes).items():
        for question in questions:
            answers.answer(graph, name, question)
    facts = graph.announce()
    progress.iterations += 1
    progress.nodes = sum(sizes[name] for name in NODES)
    progress.capped = answers.layouts.capped or answers.laws.capped
    return not changed and not facts


def _limit(progress: Progress, limits: Limits) -> Status | None:
    if progress.nodes > limits.nodes:
        return "node-limit"
    if progress.seconds > limits.seconds:
        return "time-limit"
    if (resident_mb() or 0) > limits.memory_mb:
        return "memory-limit"
    return "iteration-limit" if progress.iterations >= limits.iterations else None


def _snapshot(graph: TensorGraph, answers: _Answers, progress: Progress) -> Snapshot:
    """The e-graph as plain tables, classes numbered in order of appearance."""
    numbers: dict[Any, int] = {}

    def number(c: Any) -> int:
        return numbers.setdefault(c, len(numbers))

    rows = graph.graph.rows((*NODES, "Root", "Value"))
    nodes = Nodes()
    for row in rows["Leaf"]:
        nodes.leaves.setdefault(number(row.output), row.args[0])
    for row in rows["View"]:
        nodes.views.setdefault(number(row.output), []).append((number(row.args[0]), row.args[1]))
    for row in rows["Form"]:
        operands = tuple(number(c) for c in row.args[2])
        nodes.forms.setdefault(number(row.output), []).append(UseForm(row.args[0], row.args[1], operands))
    roots = {row.args[0]: number(row.output) for row in rows["Root"]}
    values = {row.args[0]: number(row.output) for row in rows["Value"]}
    progress = replace(progress, matches={**progress.matches, **answers.laws.conditions.used})
    known = [roots[k] for k in range(graph.roots)], [values[n] for n in range(graph.loaded)]
    return Snapshot(nodes, *known, graph.interned, progress, answers.laws.obligations)
