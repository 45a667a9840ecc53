"""Presburger sets: exact answers for quasi-affine questions (floor division and remainder by numbers) of any size."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from eqsat.ir.dtypes import INDEX
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder
from eqsat.proving.apart import Packed, apart, pack, timed, unpack
from eqsat.proving.points import UNKNOWN, Answer
from eqsat.proving.question import Question, Variable
from eqsat.proving.range import runs

_COMPARE = {"lt": "lt_set", "le": "le_set", "eq": "eq_set", "ne": "ne_set"}
LARGEST = 1 << 60
MOST_PIECES = 10
TAME = 24
TAME_VARIABLES = 8
_PIECES = ("floordiv", "mod", "truncdiv", "truncmod", "where", "min", "max", "abs", "bitand", "bitor", "bitxor", "shr")
_BY_NUMBER = ("floordiv", "mod", "truncdiv", "truncmod", "bitand", "bitor", "bitxor", "shl", "shr")


def is_modest(question: Question) -> bool:
    """Whether a question has few enough quotients and cases for isl, whose own budget does not stop all its steps."""
    return sum(node.op in _PIECES for node in postorder(*question.roots)) <= MOST_PIECES


def is_tame(question: Question) -> bool:
    """Whether isl, whose single steps have no end but their own, is sure to be done soon (or not to begin)."""
    nodes = list(postorder(*question.roots))
    pieces = sum(node.op in _PIECES or node.op in _COMPARE for node in nodes)
    outside = any(n.op in ("prod", "load") or (n.op in _BY_NUMBER and n.args[1].op != "const") for n in nodes)
    few = len(question.variables) <= TAME_VARIABLES
    return outside or (few and len(question.variables) + pieces <= TAME)


def claimed(argument: tuple[float, tuple[Packed, int]], _: object) -> Answer:
    """`isl_claim` as a job of a worker."""
    return timed(argument, lambda rest: _claim(unpack(rest[0])[0], rest[1]))


def injected(argument: tuple[float, tuple[Packed, int]], _: object) -> Answer:
    """`isl_injective` as a job of a worker."""
    return timed(argument, lambda rest: _injective(unpack(rest[0])[0], rest[1]))


class NotAffine(Exception):
    """A term outside of Presburger arithmetic."""


class Space:
    """The variables of a question as an isl space, and terms as piecewise affine functions on it."""

    def __init__(self, variables: Sequence[Variable], operations: int) -> None:
        self.isl: Any = importlib.import_module("islpy")
        self.context: Any = self.isl.Context()
        self.context.set_max_operations(operations)
        self.space: Any = self.isl.Space.set_alloc(self.context, 0, len(variables))
        self.local: Any = self.isl.LocalSpace.from_space(self.space)
        self.universe: Any = self.isl.Set.universe(self.space)
        self.known: dict[Term, Any] = {}
        self.domain: Any = self.universe
        for k, v in enumerate(variables):
            if v.leaf.dtype != INDEX:
                raise NotAffine
            here = self.isl.PwAff.from_aff(self.isl.Aff.var_on_domain(self.local, self.isl.dim_type.set, k))
            self.known[v.leaf] = here
            if v.start is not None:
                self.domain = self.domain.intersect(self.number(v.start).le_set(here))
            if v.stop is not None:
                self.domain = self.domain.intersect(here.lt_set(self.number(v.stop)))
            if v.multiple_of != 1:
                self.domain = self.domain.intersect(here.mod_val(self.value(v.multiple_of)).eq_set(self.number(0)))

    def value(self, n: int) -> Any:
        if abs(n) >= LARGEST:
            raise NotAffine
        return self.isl.Val.int_from_si(self.context, n)

    def number(self, n: int) -> Any:
        return self.isl.PwAff.from_aff(self.isl.Aff.val_on_domain(self.local, self.value(n)))

    def translate(self, root: Term) -> Any:
        """A PwAff for an index term, a Set for a predicate."""
        for node in postorder(root):
            if node not in self.known:
                self.known[node] = self.node(node, [self.known[a] for a in node.args])
        return self.known[root]

    def node(self, node: Term, args: list[Any]) -> Any:
        op = node.op
        if op == "const":
            if node.dtype == INDEX:
                return self.number(node.payload)
            if node.dtype == "bool":
                return self.universe if node.payload else self.isl.Set.empty(self.space)
        elif op in _COMPARE and node.args[0].dtype == INDEX:
            return getattr(args[0], _COMPARE[op])(args[1])
        elif op in ("and", "or"):
            result = args[0]
            for part in args[1:]:
                result = result.intersect(part) if op == "and" else result.union(part)
            return result.coalesce()
        elif op == "not":
            return self.universe.subtract(args[0])
        elif op == "sum":
            constant, coefficients = node.payload
            total = self.number(constant)
            for c, part in zip(coefficients, args, strict=True):
                total = total.add(part.scale_val(self.value(c)))
            return total
        elif op == "where" and node.dtype == INDEX:
            yes, no = args[1].intersect_domain(args[0]), args[2].subtract_domain(args[0])
            return yes.union_add(no).coalesce()
        elif op in ("min", "max") and node.dtype == INDEX:
            return getattr(args[0], op)(args[1])
        elif op == "abs" and node.dtype == INDEX:
            return args[0].max(args[0].neg())
        elif node.dtype == INDEX:
            return self.by_number(node, args)
        raise NotAffine

    def by_number(self, node: Term, args: list[Any]) -> Any:
        """Operations whose second operand must be a number."""
        divisor = node.args[1].payload if len(node.args) == 2 and node.args[1].op == "const" else None
        op = node.op
        if divisor is None or (op in ("shl", "shr") and not 0 <= divisor < 60):
            raise NotAffine
        if op == "shl":
            return args[0].scale_val(self.value(1 << divisor))
        if op == "shr":
            op, divisor = "floordiv", 1 << divisor
        if op in ("bitand", "bitor", "bitxor"):
            return self.masked(op, args[0], divisor)
        if divisor == 0 or op not in ("floordiv", "mod", "truncdiv", "truncmod"):
            raise NotAffine
        a = args[0]
        if op in ("floordiv", "mod"):
            quotient = a.scale_down_val(self.value(divisor)).floor()
        else:
            size = self.value(abs(divisor))
            up, down = a.scale_down_val(size).floor(), a.neg().scale_down_val(size).floor().neg()
            positive = self.number(0).le_set(a)
            quotient = up.intersect_domain(positive).union_add(down.subtract_domain(positive))
            quotient = quotient if divisor > 0 else quotient.neg()
        if op in ("floordiv", "truncdiv"):
            return quotient
        return a.sub(quotient.scale_val(self.value(divisor)))

    def masked(self, op: str, a: Any, mask: int) -> Any:
        """A bit operation with a mask of few runs of bits: the runs are digits of the operand."""
        digits = runs(mask)
        if digits is None:
            raise NotAffine
        common = self.number(0)
        for low, length in digits:
            high = a.scale_down_val(self.value(1 << low)).floor()
            rest = high.scale_down_val(self.value(1 << length)).floor().scale_val(self.value(1 << length))
            common = common.add(high.sub(rest).scale_val(self.value(1 << low)))
        if op == "bitand":
            return common
        twice = self.value(2 if op == "bitxor" else 1)
        return a.add(self.number(mask)).sub(common.scale_val(twice))

    def restricted(self, facts: Sequence[Term]) -> Any:
        """The points where the facts hold."""
        result = self.domain
        for fact in facts:
            result = result.intersect(self.translate(fact))
        return result

    def coordinates(self, point: Any, count: int, kind: Any) -> tuple[int, ...]:
        return tuple(int(str(point.get_coordinate_val(kind, k))) for k in range(count))


def isl_claim(question: Question, operations: int) -> Answer:
    """Decide a quasi-affine claim: is the set of points that satisfy the facts inside of the goal's?"""
    if not is_modest(question):
        return UNKNOWN
    if is_tame(question):
        return _claim(question, operations)
    return apart("eqsat.proving.isl:claimed", (pack(question), operations), "isl")


def _claim(question: Question, operations: int) -> Answer:
    try:
        space = Space(question.variables, operations)
        bad = space.restricted(question.facts).subtract(space.translate(question.goal))
        if bad.is_empty():
            return Answer("proved", "presburger sets")
        point = space.coordinates(bad.sample_point(), len(question.variables), space.isl.dim_type.set)
        return Answer("refuted", "presburger sets", point)
    except NotAffine:
        return UNKNOWN
    except Exception as error:
        return spent(error)


def _map(space: Space, question: Question) -> Any:
    result: Any = None
    for output in question.outputs:
        part = space.isl.Map.from_pw_aff(space.translate(output))
        result = part if result is None else result.flat_range_product(part)
    return result.intersect_domain(space.restricted(question.facts))


def isl_injective(question: Question, operations: int) -> Answer:
    """Decide injectivity of a quasi-affine map, with a colliding pair."""
    if not question.outputs or not is_modest(question):
        return UNKNOWN
    if is_tame(question):
        return _injective(question, operations)
    return apart("eqsat.proving.isl:injected", (pack(question), operations), "isl")


def _injective(question: Question, operations: int) -> Answer:
    try:
        space = Space(question.variables, operations)
        whole = _map(space, question)
        if whole.is_injective():
            return Answer("proved", "presburger sets")
        same = whole.apply_range(whole.reverse())
        pairs = same.subtract(space.isl.Map.identity(same.get_space()))
        n = len(question.variables)
        flat = pairs.wrap().flatten().sample_point()
        both = space.coordinates(flat, 2 * n, space.isl.dim_type.set)
        return Answer("refuted", "presburger sets", both[:n], both[n:])
    except NotAffine:
        return UNKNOWN
    except Exception as error:
        return spent(error)


def spent(error: Exception) -> Answer:
    """isl reports a spent budget as its own Error type; anything else is a fault of ours and is raised."""
    if type(error).__name__ != "Error" or not type(error).__module__.startswith("islpy"):
        raise error
    return Answer("unknown", "presburger sets", note="isl: budget spent")
