"""The same four questions about an index map, put to eqsat, to Apache TVM and to isl.

Each side gets the map in its own notation, ready made, and is timed from there to the answer. `ask` answers what it
found, for `check` to judge untimed; an exception of its own kind is a refusal.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import eqsat as eq
from eqsat.index_graph.cost import cost
from eqsat.ir.errors import EqsatError, FrontendError, LayoutError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term
from eqsat.simplifying import normal_forms
from eqsat.tvm_maps import from_tvm, map_from_tvm, map_to_tvm, to_tvm
from map_suite.isl_text import box_text, condition_text, map_text, set_text
from map_suite.isl_worker import IslProcess, Timed

Question = Literal["decide", "invert", "simplify map", "simplify predicate"]
UNREDUCED = 1 << 20
"""The size of a term of isl that is not the variable which it equals."""
QUESTIONS: tuple[Question, ...] = ("decide", "invert", "simplify map", "simplify predicate")


@dataclass(frozen=True, eq=False)
class Case(Record):
    """A map on a box with its declared shape, and what is simplified: terms over the inputs, a predicate on cells."""

    family: str
    m: IndexMap
    shape: tuple[int, ...]
    declared: tuple[int, ...]
    terms: tuple[Term, ...] = ()
    predicate: Term | None = None
    cells: tuple[str, ...] = ()

    @property
    def box(self) -> dict[str, int]:
        return dict(zip(self.m.names, self.shape, strict=True))

    @property
    def cell_box(self) -> dict[str, int]:
        return dict(zip(self.cells, self.declared, strict=True))


@dataclass(frozen=True, eq=False)
class Found(Record):
    """An answer: "yes" and "no" of a decision (with the map as it was read, where a side shows that), "inverse" with
    the map and the padding, "none" where a side says that there is no inverse, "terms", or "unknown" with the reason.
    """

    kind: str
    note: str = ""
    inverse: IndexMap | None = None
    padding: Term | None = None
    terms: tuple[Term, ...] = ()
    size: int | None = None


Ask = Callable[[], Any]


class Side(Protocol):
    """One library. `prepare` gives the timed call, or None where the question cannot be put; `read` its result."""

    name: str

    def prepare(self, question: Question, case: Case) -> Ask | None: ...
    def read(self, question: Question, case: Case, result: Any) -> Found: ...
    def forget(self) -> None: ...


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:160] if lines else type(error).__name__


class Eqsat:
    """Decision: `is_bijective`, with a witness for a no. Inversion: `non_surjective_inverse`, which checks its result
    and finds the padding. Simplification: `simplify`, which proves its result."""

    name = "eqsat"

    def prepare(self, question: Question, case: Case) -> Ask | None:
        m, shape = case.m, case.shape
        if question == "decide":
            return lambda: m.is_bijective(shape)
        if question == "invert":
            return lambda: _inverse_or_error(m, shape)
        if question == "simplify map":
            box, terms = case.box, case.terms
            return (lambda: [eq.simplify(x, box) for x in terms]) if terms else None
        predicate, cells = case.predicate, case.cell_box
        return None if predicate is None else lambda: [eq.simplify(predicate, cells)]

    def read(self, question: Question, case: Case, result: Any) -> Found:
        if question == "decide":
            kind = {"proved": "yes", "refuted": "no"}.get(result.verdict, "unknown")
            return Found(kind, result.note or result.method)
        if question == "invert":
            if isinstance(result, LayoutError):
                return Found("none" if "not injective" in str(result) else "unknown", str(result)[:160])
            return Found("inverse", "table" if result[0].is_table else "", result[0], result[1])
        return Found("terms", terms=tuple(result), size=sum(cost(x) for x in result))

    def forget(self) -> None:
        """Empty the caches of answers in memory; what is built once per process (compiled rules) stays."""
        normal_forms.forget()
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "eqsat":
                for value in list(vars(module).values()):
                    parameters = getattr(value, "cache_parameters", None)
                    if parameters is not None and (parameters()["maxsize"] or 0) > 1:
                        value.cache_clear()


def _inverse_or_error(m: IndexMap, shape: tuple[int, ...]) -> Any:
    try:
        return m.non_surjective_inverse(shape)
    except LayoutError as error:
        return error


def _caught(ask: Ask) -> Ask:
    """An exception as an answer: TVM raises many types."""

    def caught() -> Any:
        try:
            return ask()
        except Exception as error:
            return error

    return caught


# What detect_iter_map says where it has understood the map; other errors say that it has not.
_UNDERSTOOD = ("do not traverse full iter space", "does not form a bijective transform")


class Tvm:
    """Decision: `detect_iter_map(.., "bijective")`, which ignores strides and offsets and has no witness. Inversion:
    `non_surjective_inverse`, which does not verify. Simplification: a new `Analyzer` with the ranges bound."""

    name = "tvm"

    def __init__(self) -> None:
        self.tirx: Any = importlib.import_module("tvm.tirx")
        self.sym: Any = importlib.import_module("tvm.sym")

    def prepare(self, question: Question, case: Case) -> Ask | None:
        try:
            if question in ("decide", "invert"):
                m = map_to_tvm(case.m)
                return self._decide(m, case) if question == "decide" else self._invert(m, case)
            cells = () if case.predicate is None else (case.predicate,)
            terms = case.terms if question == "simplify map" else cells
            box = case.box if question == "simplify map" else case.cell_box
            variables = {t.var(n): self.tirx.Var(n, "int64") for n in box}
            return self._simplify([to_tvm(x, variables) for x in terms], variables, box) if terms else None
        except FrontendError:
            return None

    def _number(self, value: int) -> Any:
        return self.tirx.const(value, "int64")

    def _ranges(self, variables: Iterable[Any], extents: Iterable[int]) -> dict[Any, Any]:
        """Half-open ranges in the type of the indices."""
        make: Any = importlib.import_module("tvm.ir").Range
        return {v: make(self._number(0), self._number(n)) for v, n in zip(variables, extents, strict=True)}

    def _decide(self, m: Any, case: Case) -> Ask:
        box = self._ranges(m.initial_indices, case.shape)
        return _caught(lambda: self.sym.detect_iter_map(m.final_indices, box, True, "bijective"))

    def _invert(self, m: Any, case: Case) -> Ask:
        extents = [self._number(n) for n in case.shape]
        return _caught(lambda: m.non_surjective_inverse(extents))

    def _simplify(self, terms: Sequence[Any], variables: dict[Term, Any], box: dict[str, int]) -> Ask:
        ranges = self._ranges(variables.values(), box.values())

        def ask() -> Any:
            analyzer = self.sym.Analyzer()
            for v, here in ranges.items():
                analyzer.bind(v, here)
            return [analyzer.simplify(x) for x in terms]

        return _caught(ask)

    def _renamed(self, back: Any, padding: Any) -> tuple[Any, Any]:
        """The map and the predicate over variables of different names, which those of TVM may not have."""
        new = [self.tirx.Var(f"p{n}", "int64") for n in range(len(back.initial_indices))]
        both = [*back.final_indices, self.tirx.Select(padding, self._number(1), self._number(0))]
        *outputs, chosen = self.tirx.IndexMap(list(back.initial_indices), both, None).map_indices(new)
        return self.tirx.IndexMap(new, outputs, None), self.tirx.NE(chosen, self._number(0))

    def read(self, question: Question, case: Case, result: Any) -> Found:
        if isinstance(result, Exception):
            note = _last_line(result)
            return Found("none" if any(s in note for s in _UNDERSTOOD) else "unknown", note)
        if question == "decide":
            if len(result.indices):
                known = {str(v): v for v in case.m.inputs}
                read = [from_tvm(self.sym.normalize_iter_map_to_expr(i), known) for i in result.indices]
                return Found("yes", "injective", terms=tuple(read))
            note = str(result.errors[0]) if len(result.errors) else ""
            return Found("no" if any(s in note for s in _UNDERSTOOD) else "unknown", note[:160])
        if question == "invert":
            back, padding = self._renamed(*result)
            inverse = map_from_tvm(back)
            return Found("inverse", "", inverse, from_tvm(padding, {str(v): v for v in inverse.inputs}))
        known = {n: t.var(n) for n in (case.box if question == "simplify map" else case.cell_box)}
        terms = tuple(from_tvm(x, known) for x in result)
        return Found("terms", terms=terms, size=sum(cost(x) for x in terms))

    def forget(self) -> None:
        return None


class Isl:
    """Decision: the map read from text, `is_injective`, and its range against the declared box. Inversion: reversed
    and turned into a function, with the cells outside of its domain. Simplification: `gist` and `coalesce`."""

    name = "isl"

    def __init__(self, operations: int, seconds: float = 5.0) -> None:
        if importlib.util.find_spec("islpy") is None:
            raise ImportError("islpy")
        self.process = IslProcess(operations, seconds)

    def prepare(self, question: Question, case: Case) -> Ask | None:
        try:
            texts = _texts(question, case)
        except FrontendError:
            return None
        return (lambda: self.process.ask(question, texts)) if texts else None

    def read(self, question: Question, case: Case, result: Timed) -> Found:
        if result.answer is None:
            return Found("unknown", result.error[-160:])
        if question == "decide":
            return Found("yes" if result.answer else "no")
        if question == "invert":
            return Found("inverse" if result.answer else "none")
        assert isinstance(result.answer, list)
        note = "; ".join(result.answer)[:160]
        if question == "simplify predicate":  # a union of polyhedra: its size is no number of operations
            return Found("terms", note)
        shown = [x.rpartition("->")[2].strip(" }[]()") for x in result.answer]
        plain = sum(cost(v) for v in case.m.inputs)
        return Found("terms", note, size=plain if shown == list(case.m.names) else UNREDUCED)

    def forget(self) -> None:
        return None


def _texts(question: Question, case: Case) -> list[str]:
    """What isl is given: the map and the declared box; functions and their domain; a set and its box."""
    if question in ("decide", "invert"):
        names = [f"o{n}" for n in range(len(case.declared))]
        box = set_text(box_text(dict(zip(names, case.declared, strict=True))), names)
        return [map_text(case.m.outputs, case.box), box]
    if question == "simplify map":
        names = list(case.box)
        return [*(map_text([x], None, names) for x in case.terms), set_text(box_text(case.box), names)]
    if case.predicate is None:
        return []
    names = list(case.cell_box)
    return [set_text(condition_text(case.predicate), names), set_text(box_text(case.cell_box), names)]


def available(operations: int) -> tuple[list[Side], list[str]]:
    """The sides that can be imported, ours first, and what is missing."""
    sides: list[Side] = [Eqsat()]
    missing: list[str] = []
    makers: dict[str, Callable[[], Side]] = {"apache-tvm": Tvm, "islpy": lambda: Isl(operations)}
    for package, make in makers.items():
        try:
            sides.append(make())
        except (ImportError, EqsatError):
            missing.append(package)
    return sides, missing
