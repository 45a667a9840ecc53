"""Graphs in which the laws are declared, kept for the next search: to declare them takes longer than most searches."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager

from eqsat.graph.egglog_adapter import EGraph
from eqsat.ir.law import Law
from eqsat.laws.plan import Plan, Shape, plans
from eqsat.laws.text import acts, is_direct, need, rules, spelling, spells
from eqsat.operators.interned import Interned
from eqsat.operators.labels import CanonicalOp
from eqsat.operators.moves import varying
from eqsat.operators.stacks import is_selection
from eqsat.workers.later import afterwards, do_what_is_left

MOST_KEPT = 8
"""So many graphs are kept by a process."""

SCHEMA = """
(sort V)

(sort Vs (Vec V))

(constructor Leaf (i64) V)

(constructor View (V i64) V)

(constructor Hub (i64 i64 Vs) V)

(constructor Form (i64 i64 Vs) V)

(constructor Value (i64) V)

(constructor Root (i64) V)

(function vid (V) i64 :merge (min old new))

(relation operand (Vs i64 V))

(relation arity (Vs i64))

(relation lay (V i64))

(relation identity (i64))

(relation bijective (i64))

(relation unabsorbed (i64))

(relation padding (i64))

(relation moves (V V i64))

(relation base (V))

(relation short ())

(relation layout (i64))

(relation shape (i64 i64))

(relation selection (i64))

(relation pointwise (i64))

(relation constant (V))

(relation in_parts (V))

(relation need_part (V i64))

(relation part (V i64))

(relation need_placed (V i64))

(relation placed (V i64))

(relation undoes (i64 i64))

(relation need_output_form (i64 i64 i64))

(relation need_operand_form (i64 i64 i64))

(relation form (i64 i64))

(relation form_operand (i64 i64 i64))

(relation form_output (i64 i64 i64))

(relation need_view_up (i64 i64))

(relation view_up (i64 i64 i64))

(relation need_view_down (i64 i64))

(relation view_down (i64 i64 i64))

(ruleset operands)

(ruleset laws)

(ruleset parts)

(ruleset known)

(ruleset layouts)

(ruleset answered)

(rule ((= x (View x m)) (unabsorbed m)) ((subsume (View x m))) :ruleset operands :name "symmetry")

(rule ((= y (View x m)) (unabsorbed m) (!= x y)) ((moves y x m)) :ruleset operands :name "moves")

(rule ((moves x x m)) ((delete (moves x x m))) :ruleset operands :name "moves nothing")

(rule ((= x (Leaf n))) ((base x)) :ruleset operands :name "leaf")

(rule ((= h (Hub s o v))) ((base h)) :ruleset operands :name "result")

(rule ((= x (Form f o v))) ((base x)) :ruleset operands :name "result in a form")

(rule ((short) (= y (View x m))) ((base y)) :ruleset operands :name "part of a short chain")

(rule ((base x) (= y (View x m)) (layout m)) ((base y)) :ruleset laws :name "ask layout of a base")

(rule ((base y) (= y (View x m)) (layout m)) ((base x)) :ruleset laws :name "ask base in a layout")

(rule ((= y (View x m)) (constant x)) ((constant y)) :ruleset laws :name "constant view")

(rule ((need_part x m) (identity m)) ((part x m)) :ruleset parts :name "whole")

(rule ((need_part x m) (constant x)) ((part x m)) :ruleset parts :name "part of constant")

(rule ((need_part x m) (in_parts x)) ((part x m)) :ruleset parts :name "part of what is used in parts")

(rule ((need_part x m) (= x (View y p)) (padding p)) ((part x m)) :ruleset parts :name "part of what is padded")

(rule ((need_placed x m) (identity m)) ((placed x m)) :ruleset parts :name "in place")

(rule ((need_placed x m) (constant x)) ((placed x m)) :ruleset parts :name "placed constant")

(rule ((need_placed x m) (= x (View z p)) (undoes p m)) ((placed x m)) :ruleset parts :name "put back")

(rule ((= h (Hub s o v)) (lay h m)) ((need_output_form s o m)) :ruleset layouts :name "ask output layout")

(rule ((= h (Hub s o v)) (form s f) (form_output f o m)) ((lay h m)) :ruleset layouts :name "form output layout")

(rule ((= h (Hub s o v)) (form s f) (form_operand f k m) (operand v k x)) ((lay x m))
  :ruleset layouts :name "form operand layout")

(rule ((= y (View x c)) (unabsorbed c) (lay x p)) ((need_view_up c p)) :ruleset layouts :name "ask layout of view")

(rule ((= y (View x c)) (unabsorbed c) (lay x p) (view_up c p m)) ((lay y m)) :ruleset layouts :name "layout of view")

(rule ((= y (View x c)) (unabsorbed c) (lay y m)) ((need_view_down c m)) :ruleset layouts :name "ask layout under view")

(rule ((= y (View x c)) (unabsorbed c) (lay y m) (view_down c m p)) ((lay x p))
  :ruleset layouts :name "layout under view")

(rule ((need_output_form s o m)) ((delete (need_output_form s o m))) :ruleset answered)

(rule ((need_view_down c m)) ((delete (need_view_down c m))) :ruleset answered)

(rule ((need_view_up c p)) ((delete (need_view_up c p))) :ruleset answered)

(rule ((need_operand_form s k m)) ((delete (need_operand_form s k m))) :ruleset answered)
"""


def operand_rules(arity: int) -> str:
    """The rules that name the operands of operators (a relation: `vec-get`, a primitive, would pair all nodes and
    views), and that ask for layouts of them."""
    listed = " ".join(f"(operand v {k} (vec-get v {k}))" for k in range(arity))
    rules = [
        f"(rule ((= h (Hub s o v)) (= {arity} (vec-length v))) ((arity v {arity}) {listed})\n"
        f'  :ruleset operands :name "operands/{arity}")'
    ]
    for k in range(arity):
        rules.append(
            f"(rule ((= h (Hub s o v)) (arity v {arity}) (operand v {k} x) (lay x m)) ((need_operand_form s {k} m))\n"
            f'  :ruleset layouts :name "ask operand layout/{arity}.{k}")'
        )
    return "\n\n".join(rules)


def shapes_of(operator: CanonicalOp) -> tuple[Shape, ...]:
    """The shapes for which laws are declared that may act on an operator."""
    if operator.kind.identity:
        return ()  # no law is about it
    arity = len(operator.operands)
    shape = Shape(arity, varying(operator))
    whole = Shape(arity, tuple(range(arity)))
    return (shape, whole) if is_selection(operator) and shape != whole else (shape,)


class Declared:
    """A graph that has the laws as they act on operators of some shapes, and nothing else yet."""

    def __init__(self, laws: Iterable[Law]) -> None:
        self.laws = tuple(laws)
        self.graph = EGraph()
        self.graph.run(SCHEMA)
        self.plans: dict[str, Plan] = {}
        self.arities: set[int] = set()
        self.shapes: dict[Shape | None, int] = {}
        """The shapes for which laws are declared, and the numbers by which the graph knows them."""
        self.need_shape(None)

    def need_arity(self, arity: int) -> None:
        """Declare what operators with this many operands take."""
        if arity not in self.arities:
            self.arities.add(arity)
            spelled = [spelling(law, arity) for law in self.laws if spells(law)]
            self.graph.run("\n\n".join([operand_rules(arity), *spelled]))

    def need_shape(self, shape: Shape | None) -> int:
        """Declare the laws as they act on operators of a shape; its number."""
        if shape in self.shapes:
            return self.shapes[shape]
        number = self.shapes[shape] = len(self.shapes)
        for law in self.laws:
            for plan in plans(law, shape) if acts(law) else ():
                self.graph.run(rules(plan, None if shape is None else number))
                if not is_direct(plan):
                    self.plans[need(plan)] = plan
        return number

    @contextmanager
    def scratch(self) -> Generator[None]:
        """What is inserted and declared within is gone afterwards."""
        kept = dict(self.plans), set(self.arities), dict(self.shapes)
        with self.graph.scratch():
            yield
        self.plans, self.arities, self.shapes = kept


_kept: dict[tuple[object, ...], Declared] = {}


@contextmanager
def declared(laws: Iterable[Law], interned: Interned) -> Generator[Declared]:
    """A graph for one search over interned operators. One that fails is never used again.

    A graph belongs to its thread, so only those of a process's first thread are kept. What a search put into one is
    taken out after the answer: that takes as long as a tenth of the search.
    """
    do_what_is_left()
    operators = interned.operators.items
    arities = frozenset(len(x.operands) for x in operators)
    shapes = frozenset(shape for x in operators for shape in shapes_of(x))
    laws = tuple(laws)
    key = os.getpid(), laws, arities, shapes
    found = _kept.pop(key, None) if _keeps() else None
    if found is None:
        found = Declared(laws)
        for arity in sorted(arities):
            found.need_arity(arity)
        for shape in sorted(shapes, key=lambda x: (x.arity, x.varying)):
            found.need_shape(shape)
    within = ExitStack()
    within.enter_context(found.scratch())
    yield found
    afterwards(lambda: _put_back(key, found, within))


def _put_back(key: tuple[object, ...], found: Declared, within: ExitStack) -> None:
    """Keep a graph for the next search like it, without what the last one put in; those used longest ago go."""
    if not _keeps():
        found.graph.close()
        return
    within.close()
    _kept[key] = found
    while len(_kept) > MOST_KEPT:
        _kept.pop(next(iter(_kept))).graph.close()


def _keeps() -> bool:
    return threading.current_thread() is threading.main_thread()
