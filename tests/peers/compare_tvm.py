"""The same questions to eqsat and to Apache TVM about one index map, each answer judged at every point of the box."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from random import Random
from typing import Any

from judge import Judge, Point, function_of, points_of

import eqsat as eq
from eqsat.index_graph.cost import cost
from eqsat.ir.cached import cached_property
from eqsat.ir.errors import EqsatError, FrontendError, LayoutError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, substitute
from eqsat.testing.maps import MAP_FAMILIES, random_map
from eqsat.tvm_maps import from_tvm, map_from_tvm, map_to_tvm, shape_from_tvm, to_tvm

MAX_POINTS = 400
MAX_CELLS = 200_000  # of a declared shape that are judged one by one


@dataclass(frozen=True)
class Answer:
    """What one side did: "right", "refused" (an error, or no answer), "wrong" with a witness, or "differs" (another
    answer that is right too). For simplifications "right" has the number of operations as `size`."""

    kind: str
    detail: str = ""
    size: int | None = None


RIGHT = Answer("right")


@dataclass(frozen=True)
class Row:
    """One question about one map."""

    question: str
    family: str
    map: str
    shape: Point
    eqsat: Answer
    tvm: Answer


def _refused(error: BaseException) -> Answer:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return Answer("refused", (lines[-1].strip() if lines else type(error).__name__)[:200])


class Case:
    """One map and its box, with the judge and the map as TVM has it."""

    def __init__(self, family: str, m: IndexMap, shape: Point) -> None:
        self.family, self.m, self.shape = family, m, shape
        self.judge = Judge(m, shape)
        self.tirx: Any = importlib.import_module("tvm.tirx")
        self.sym: Any = importlib.import_module("tvm.sym")
        self.extents = [self.tirx.const(n, "int64") for n in shape]

    @cached_property
    def declared(self) -> Point:
        return tuple(int(str(n)) for n in self.m.map_shape(self.shape))

    @property
    def bijective(self) -> bool:
        return self.judge.injective and self.judge.missed(self.declared) is None

    @cached_property
    def theirs(self) -> Any:
        """TVM's IndexMap, or None where it has no expression for ours."""
        try:
            return map_to_tvm(self.m)
        except FrontendError:
            return None

    @cached_property
    def tvm_declared(self) -> Point:
        """The declared shape by TVM, ours where it has none."""
        try:
            return shape_from_tvm(self.theirs.map_shape(self.extents))
        except Exception:  # TVM raises many types
            return self.declared

    def range(self, extent: int) -> Any:
        """[0, extent), in the type of the indices."""
        const = self.tirx.const
        return importlib.import_module("tvm.ir").Range(const(0, "int64"), const(extent, "int64"))

    def analyzer(self, box: Mapping[Any, int]) -> Any:
        analyzer = self.sym.Analyzer()
        for v, n in box.items():
            analyzer.bind(v, self.range(n))
        return analyzer

    def tvm_variables(self, variables: Sequence[Term]) -> dict[Term, Any]:
        return {v: self.tirx.Var(str(v), "int64") for v in variables}

    def row(self, question: str, ours: Callable[[], Answer], theirs: Callable[[], Answer]) -> Row:
        """Both answers. Only EqsatError counts as a refusal of ours; TVM may raise what it likes."""
        try:
            first = ours()
        except EqsatError as error:
            first = _refused(error)
        if self.theirs is None:
            second = Answer("refused", "no TVM expression for a table")
        else:
            try:
                second = theirs()
            except FrontendError as error:
                second = Answer("refused", str(error)[:200])
            except Exception as error:
                second = _refused(error)
        return Row(question, self.family, str(self.m), self.shape, first, second)


# -- the questions ----------------------------------------------------------------------------------------------------


def map_shape(c: Case) -> Row:
    def judged(declared: Point) -> Answer:
        outside = c.judge.outside(declared)
        if outside is not None:
            return Answer("wrong", f"{outside} lies outside of {declared}")
        return RIGHT if declared == c.declared else Answer("differs", f"{declared}, not {c.declared}")

    return c.row("map_shape", lambda: judged(c.declared), lambda: judged(shape_from_tvm(c.theirs.map_shape(c.extents))))


def map_indices(c: Case) -> Row:
    places = sorted({0, len(c.judge.points) // 3, len(c.judge.points) - 1})

    def judged(at: Callable[[Point], Point]) -> Answer:
        for n in places:
            point, image = c.judge.points[n], c.judge.images[n]
            if at(point) != image:
                return Answer("wrong", f"at {point} it gives {at(point)}, not {image}")
        return RIGHT

    def theirs(point: Point) -> Point:
        return shape_from_tvm(c.theirs.map_indices([c.tirx.const(x, "int64") for x in point]))

    return c.row("map_indices", lambda: judged(c.m.map_indices), lambda: judged(theirs))


def _not_inverted(c: Case, inverse: IndexMap) -> Answer | None:
    if c.judge.collision is not None:
        return Answer("wrong", f"{inverse} for a map with {c.judge.collision} in one cell")
    wrong = c.judge.not_inverted(inverse)
    return None if wrong is None else Answer("wrong", f"{inverse} leads from {wrong[0]} back to {wrong[1]}")


def inverse(c: Case) -> Row:
    """A bijection has an inverse; any other map must be refused."""

    def judged(found: IndexMap, declared: Point) -> Answer:
        wrong = _not_inverted(c, found)
        missed = None if wrong else c.judge.missed(declared)
        if missed is not None:
            return Answer("wrong", f"{found} for a map that does not reach {missed} of {declared}")
        return wrong or RIGHT

    def refused(error: Exception) -> Answer:
        return _refused(error) if c.bijective else RIGHT

    def ours() -> Answer:
        try:
            found = c.m.inverse(c.shape)
        except LayoutError as error:
            return refused(error)
        return judged(found, c.declared)

    def theirs() -> Answer:
        try:
            found = c.theirs.inverse(c.extents)
        except Exception as error:
            return refused(error)
        return judged(map_from_tvm(found), c.tvm_declared)

    return c.row("inverse", ours, theirs)


def non_surjective_inverse(c: Case) -> Row:
    """An injection has an inverse on its image, with the predicate of the padding; any other map must be refused."""

    def judged(found: IndexMap, padding: Term, declared: Point) -> Answer:
        wrong = _not_inverted(c, found)
        if wrong is not None:
            return wrong
        cell = c.judge.wrong_padding(padding, found.names, declared)
        return RIGHT if cell is None else Answer("wrong", f"{found}: {padding} is wrong at {cell}")

    def refused(error: Exception) -> Answer:
        return _refused(error) if c.judge.injective else RIGHT

    def ours() -> Answer:
        try:
            found, padding = c.m.non_surjective_inverse(c.shape)
        except LayoutError as error:
            return refused(error)
        return judged(found, padding, c.declared)

    def theirs() -> Answer:
        try:
            found, predicate = c.theirs.non_surjective_inverse(c.extents)
        except Exception as error:
            return refused(error)
        back = map_from_tvm(found)
        padding = from_tvm(predicate, {str(v): v for v in back.inputs})
        return judged(back, padding, c.tvm_declared)

    return c.row("non_surjective_inverse", ours, theirs)


def bijective(c: Case) -> Row:
    """Our verdict, and what detect_iter_map says at its level "bijective"."""

    def ours() -> Answer:
        for proof, truth in (
            (c.m.is_injective(c.shape), c.judge.injective),
            (c.m.is_bijective(c.shape), c.bijective),
        ):
            if proof.verdict == "unknown":
                return Answer("refused", proof.note)
            if (proof.verdict == "proved") is not truth:
                return Answer("wrong", f"{proof}")
            if not truth and not _witnessed(c, proof.witness):
                return Answer("wrong", f"the witness {proof.witness} shows nothing")
        return RIGHT

    def theirs() -> Answer:
        box = {v: c.range(n) for v, n in zip(c.theirs.initial_indices, c.shape, strict=True)}
        found = c.sym.detect_iter_map(c.theirs.final_indices, box, True, "bijective")
        if not len(found.indices):
            return Answer("refused", str(found.errors[0])[:200]) if c.bijective else RIGHT
        if c.judge.collision is not None:
            return Answer("wrong", f"bijective, with {c.judge.collision} in one cell")
        known = {str(v): v for v in c.m.inputs}
        terms = [from_tvm(c.sym.normalize_iter_map_to_expr(i), known) for i in found.indices]
        at = function_of(terms, c.m.names)
        for point, image in zip(c.judge.points, c.judge.images, strict=True):
            if at(*point) != image:
                return Answer("wrong", f"reads the map as {', '.join(map(str, terms))}: {at(*point)} at {point}")
        return RIGHT

    return c.row("bijective", ours, theirs)


def _witnessed(c: Case, witness: Mapping[str, Any] | None) -> bool:
    found = witness or {}
    if "padding" in found:
        return tuple(found["padding"]) not in c.judge.reached
    first, second = (tuple(found[k][n] for n in c.m.names) for k in ("first", "second"))
    at = function_of(c.m.outputs, c.m.names)
    return first != second and at(*first) == at(*second)


def _twin(m: IndexMap, shape: Point, rng: Random, equal: bool) -> IndexMap:
    """The same map in other words, or one that differs only where the last input is greatest."""
    outputs = list(m.outputs)
    n = rng.randrange(len(outputs))
    change = t.index_const(rng.randrange(3)) if equal else 2 + (m.inputs[-1] + 1) // shape[-1]
    outputs[n] = (3 * outputs[n] + change) // 3
    table = {x: a - a // b * b for x in _remainders(outputs) for a, b in [x.args]}
    return IndexMap(m.names, tuple(substitute(o, table) for o in outputs))


def _remainders(outputs: Sequence[Term]) -> list[Term]:
    """Remainders that hold no others."""
    return [x for x in nodes_of("mod", *outputs) if not nodes_of("mod", *x.args)]


def equivalent(c: Case, equal: bool) -> Row:
    other = _twin(c.m, c.shape, Random(str(c.m)), equal)
    at = function_of(other.outputs, other.names)
    truth = all(at(*p) == image for p, image in zip(c.judge.points, c.judge.images, strict=True))
    assert truth is equal

    def ours() -> Answer:
        proof = c.m.is_equivalent_to(other, c.shape)
        if proof.verdict == "unknown":
            return Answer("refused", proof.note)
        if (proof.verdict == "proved") is not truth:
            return Answer("wrong", f"{other}: {proof}")
        if not truth:
            point = tuple((proof.witness or {})[n] for n in c.m.names)
            if c.judge.images[c.judge.points.index(point)] == at(*point):
                return Answer("wrong", f"the witness {point} shows nothing")
        return RIGHT

    def theirs() -> Answer:
        analyzer = c.analyzer(dict(zip(c.theirs.initial_indices, c.shape, strict=True)))
        said = bool(c.theirs.is_equivalent_to(map_to_tvm(other), analyzer))
        if said is truth:
            return RIGHT
        return Answer("refused", f"does not see that {other} is equal") if truth else Answer("wrong", f"equal: {other}")

    return c.row("is_equivalent_to (equal)" if equal else "is_equivalent_to (different)", ours, theirs)


# -- predicates and simplification ------------------------------------------------------------------------------------


def predicates(c: Case) -> list[tuple[Term, dict[Term, int]]]:
    """Predicates over the box of the map: outputs against their declared extents and against numbers inside."""
    rng = Random(str(c.m))
    box = dict(zip(c.m.inputs, c.shape, strict=True))
    n = rng.randrange(len(c.m.outputs))
    output, extent = c.m.outputs[n], c.declared[n]
    pairs = list(zip(c.m.outputs, c.declared, strict=True))
    inside = t.logical_and(*(part for o, e in pairs for part in (t.compare("le", 0, o), o < e)))
    return [(inside, box), (output < rng.randrange(1, extent + 1), box), (t.compare("eq", output, extent), box)]


def decided(c: Case, predicate: Term, box: dict[Term, int]) -> Row:
    names = [str(v) for v in box]
    at = function_of([predicate], names)
    values = {bool(at(*p)[0]) for p in points_of(tuple(box.values()))}
    truth = "sometimes" if len(values) == 2 else "always" if True in values else "never"

    def ours() -> Answer:
        found = eq.decide(predicate, {str(v): n for v, n in box.items()})
        if found == "unknown":
            return Answer("refused", str(predicate))
        return RIGHT if found == truth else Answer("wrong", f"{predicate} is {truth}, not {found}")

    def theirs() -> Answer:
        known = c.tvm_variables(list(box))
        analyzer = c.analyzer({known[v]: n for v, n in box.items()})
        e = to_tvm(predicate, known)
        strength = c.sym.ProofStrength.SYMBOLIC_BOUND
        always, never = bool(analyzer.can_prove(e, strength)), bool(analyzer.can_prove(c.tirx.Not(e), strength))
        if (always and truth != "always") or (never and truth != "never"):
            return Answer("wrong", f"{predicate} is {truth}")
        return RIGHT if (always, never) == (truth == "always", truth == "never") else Answer("refused", str(predicate))

    return c.row("decide", ours, theirs)


def simplified(c: Case, question: str, term: Term, box: dict[Term, int]) -> Row:
    names = [str(v) for v in box]

    def judged(found: Term) -> Answer:
        at = function_of([term, found], names)
        for point in points_of(tuple(box.values())):
            a, b = at(*point)
            if a != b:
                return Answer("wrong", f"{term} became {found}: {b}, not {a} at {point}")
        return Answer("right", str(found), cost(found))

    def theirs() -> Answer:
        known = c.tvm_variables(list(box))
        analyzer = c.analyzer({known[v]: n for v, n in box.items()})
        return judged(from_tvm(analyzer.simplify(to_tvm(term, known)), {str(v): v for v in box}))

    return c.row(question, lambda: judged(eq.simplify(term, {str(v): n for v, n in box.items()})), theirs)


def simplifications(c: Case) -> list[Row]:
    """An output of the inverse after the map, which is an input again; and the cells that no input reaches."""
    if not c.judge.injective:
        return []
    back, padding = c.m.non_surjective_inverse(c.shape)
    if back.is_table:
        return []
    rows: list[Row] = []
    box = dict(zip(c.m.inputs, c.shape, strict=True))
    composed = back.map_indices(c.m.outputs)
    n = max(range(len(composed)), key=lambda k: cost(composed[k]))
    if isinstance(composed[n], Term):
        rows.append(simplified(c, "simplify (inverse after map)", composed[n], box))
    if padding is not t.FALSE and prod(c.declared) <= MAX_CELLS:
        cells = dict(zip(back.inputs, c.declared, strict=True))
        rows.append(simplified(c, "simplify (padding)", t.logical_not(padding), cells))
    return rows


def rows_of(family: str, m: IndexMap, shape: Point) -> list[Row]:
    """All questions about one map; none where its declared shape is too large to judge."""
    case = Case(family, m, shape)
    if prod(case.declared) > MAX_CELLS:
        return []
    rows = [map_shape(case), map_indices(case), inverse(case), non_surjective_inverse(case), bijective(case)]
    rows += [equivalent(case, True), equivalent(case, False)]
    rows += [decided(case, p, box) for p, box in predicates(case)]
    return rows + simplifications(case)


def generated(per_family: int, seed: int = 0) -> list[tuple[str, IndexMap, Point]]:
    """Maps of every family, the same in every run."""
    maps: list[tuple[str, IndexMap, Point]] = []
    for family in MAP_FAMILIES:
        for n in range(per_family):
            m, shape = random_map(family, Random(f"{seed} {family} {n}"), MAX_POINTS)
            maps.append((family, m, shape))
    return maps
