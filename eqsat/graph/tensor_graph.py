"""The tensor e-graph: values, views and operators as egglog terms, and the rules that relate them.

The rules only join: what they need of maps and operators they ask (`need_*`). The laws of layout are made from their
declarations (`eqsat.laws`); what is written here is how layouts travel between operators, which states no equality.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from eqsat.graph.egglog_adapter import Call, EGraph, Expression
from eqsat.graph.encode import Encoded
from eqsat.ir.flat.facts import inverse, is_bijective, is_permutation
from eqsat.ir.law import Law
from eqsat.laws.plan import Plan, Shape, plans
from eqsat.laws.text import acts, answers, is_direct, need, rules, shape_number, spelling, spells
from eqsat.operators.interned import Hub, Interned, Leaf, ViewOf
from eqsat.operators.moves import is_pointwise, varying
from eqsat.operators.restrict import is_part
from eqsat.operators.selections import is_selection

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

(ruleset layouts)

(rule ((= x (View x m)) (unabsorbed m)) ((subsume (View x m))) :ruleset operands :name "symmetry")

(rule ((= y (View x m)) (constant x)) ((constant y)) :ruleset laws :name "constant view")

(rule ((need_part x m) (identity m)) ((part x m)) :ruleset laws :name "whole")

(rule ((need_part x m) (constant x)) ((part x m)) :ruleset laws :name "part of constant")

(rule ((need_part x m) (in_parts x)) ((part x m)) :ruleset laws :name "part of what is used in parts")

(rule ((need_placed x m) (identity m)) ((placed x m)) :ruleset laws :name "in place")

(rule ((need_placed x m) (constant x)) ((placed x m)) :ruleset laws :name "placed constant")

(rule ((need_placed x m) (= x (View z p)) (undoes p m)) ((placed x m)) :ruleset laws :name "put back")

(rule ((= h (Hub s o v)) (lay h m)) ((need_output_form s o m)) :ruleset layouts :name "ask output layout")

(rule ((= h (Hub s o v)) (form s f) (form_output f o m)) ((lay h m)) :ruleset layouts :name "form output layout")

(rule ((= h (Hub s o v)) (form s f) (form_operand f k m) (operand v k x)) ((lay x m))
  :ruleset layouts :name "form operand layout")

(rule ((= y (View x c)) (unabsorbed c) (lay x p)) ((need_view_up c p)) :ruleset layouts :name "ask layout of view")

(rule ((= y (View x c)) (unabsorbed c) (lay x p) (view_up c p m)) ((lay y m)) :ruleset layouts :name "layout of view")

(rule ((= y (View x c)) (unabsorbed c) (lay y m)) ((need_view_down c m)) :ruleset layouts :name "ask layout under view")

(rule ((= y (View x c)) (unabsorbed c) (lay y m) (view_down c m p)) ((lay x p))
  :ruleset layouts :name "layout under view")
"""

NODES = ("Leaf", "View", "Hub", "Form")
LAYOUT_NEEDS = ("need_output_form", "need_operand_form", "need_view_up", "need_view_down")


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


class TensorGraph:
    """The e-graph of one program, over its interned maps, operators and values, and the laws by which it grows."""

    def __init__(self, interned: Interned, laws: Iterable[Law]) -> None:
        self.interned = interned
        self.laws = tuple(laws)
        self.graph = EGraph()
        self.graph.run(SCHEMA)
        self.plans: dict[str, Plan] = {}
        self.arities: set[int] = set()
        self.shapes: set[Shape] = set()
        self.announced = [0, 0]
        self._declare(None)
        self.roots = 0
        self.loaded = 0

    def load(self, wanted: Sequence[tuple[int, int]]) -> None:
        """Insert all interned values; `wanted` are (value, layout) pairs of the program's outputs."""
        u = self.interned
        self.loaded, self.roots = len(u.values), len(wanted)
        self.graph.unions([(_value(n), self._expression(n)) for n in range(self.loaded)])
        self.graph.set([(Call("vid", (_value(n),)), n) for n in range(self.loaded)])
        self.graph.unions([(Call("Root", (k,)), self._laid_out(placed)) for k, placed in enumerate(wanted)])
        facts = [Call("lay", (_value(v), m)) for v, m in wanted]
        for number, value in enumerate(u.values.items):
            if isinstance(value, Leaf):
                typed = u.types[number]
                facts.append(Call("lay", (_value(number), u.identity(typed.size, typed.dtype))))
        self.graph.insert(facts)

    def mark(self, constants: Sequence[int], in_parts: Sequence[int]) -> None:
        """Tell which values are constants, and which ones operators use in parts alone."""
        self.graph.insert([Call("constant", (_value(n),)) for n in constants])
        self.graph.insert([Call("in_parts", (_value(n),)) for n in in_parts])

    def load_written(
        self,
        forms: Sequence[tuple[int, tuple[int, ...]]],
        views: Mapping[tuple[tuple[int, int], int], tuple[int, int]],
        same: Sequence[tuple[tuple[int, int], tuple[int, int]]] = (),
    ) -> None:
        """Insert the operators (forms over values) and views (of a value in a layout, by a map, a value in a layout) as
        the program has them, so that it can be built from the start; and values in layouts that are the same."""
        pairs = [pair for form, values in forms for pair in self._spelled(form, values)]
        pairs += [(Call("View", (self._laid_out(a), m)), self._laid_out(b)) for (a, m), b in views.items()]
        pairs += [(self._laid_out(a), self._laid_out(b)) for a, b in same]
        self.graph.unions(pairs)

    def _laid_out(self, placed: tuple[int, int]) -> Call:
        value, layout = placed
        return Call("View", (_value(value), layout))

    def _spelled(self, number: int, values: tuple[int, ...]) -> list[tuple[Expression, Expression]]:
        """The layouts of an operator's values that a form produces, and the form."""
        form, u = self.interned.forms[number], self.interned
        views = tuple(Call("View", (_value(v), m)) for v, m in zip(values, form.operand_maps, strict=True))
        operands = Call("vec-of", views) if views else Call("vec-empty", ())
        hubs = [_value(u.values.number(Hub(form.operator, o, values))) for o in range(len(form.output_maps))]
        return [
            (Call("View", (hub, m)), Call("Form", (number, o, operands)))
            for o, (hub, m) in enumerate(zip(hubs, form.output_maps, strict=True))
        ]

    def _expression(self, number: int) -> Expression:
        value = self.interned.values[number]
        if isinstance(value, Leaf):
            return Call("Leaf", (number,))
        if isinstance(value, Hub):
            self.need_arity(len(value.operands))
            operands = tuple(_value(k) for k in value.operands)
            return Call(
                "Hub", (value.operator, value.output, Call("vec-of", operands) if operands else Call("vec-empty", ()))
            )
        return Call("View", (_value(value.base), value.reindex))

    def need_arity(self, arity: int) -> None:
        """Declare what operators with this many operands take."""
        if arity not in self.arities:
            self.arities.add(arity)
            spelled = [spelling(law, arity) for law in self.laws if spells(law)]
            self.graph.run("\n\n".join([operand_rules(arity), *spelled]))

    def _declare(self, shape: Shape | None) -> None:
        """Declare the laws as they act on operators of a shape."""
        number = None if shape is None else shape_number(shape)
        for law in self.laws:
            for plan in plans(law, shape) if acts(law) else ():
                self.graph.run(rules(plan, number))
                if not is_direct(plan):
                    self.plans[need(plan)] = plan

    def announce(self) -> int:
        """Tell the graph what its rules need to know about maps and operators that appeared since the last time; how
        many facts that were."""
        u, facts = self.interned, list[Call]()
        for number in range(self.announced[0], len(u.operators)):
            operator = u.operators[number]
            shape = Shape(len(operator.operands), varying(operator))
            self.need_arity(shape.arity)
            if operator.kind.identity:
                continue  # no law is about it
            selects = is_selection(operator)
            for s in (shape, Shape(shape.arity, tuple(range(shape.arity)))) if selects else (shape,):
                if s not in self.shapes:
                    self.shapes.add(s)
                    self._declare(s)
                facts.append(Call("shape", (number, shape_number(s))))
            facts += [Call("selection", (number,))] if selects else []
            facts += [Call("pointwise", (number,))] if is_pointwise(operator) else []
        for number in range(self.announced[1], len(u.reindexes)):
            m = u.reindexes[number].map
            facts += [Call("identity", (number,))] if m.is_identity else []
            facts += [Call("bijective", (number,))] if is_bijective(m) else []
            if not is_permutation(m):
                facts.append(Call("unabsorbed", (number,)))
                facts += self._undone(number)
        self.announced = [len(u.operators), len(u.reindexes)]
        self.graph.insert(facts)
        return len(facts)

    def _undone(self, number: int) -> list[Call]:
        """Which view puts back what a view moves."""
        item = self.interned.reindexes[number]
        back = inverse(item.map)
        return [] if back is None else [Call("undoes", (number, self.interned.reindex(back, None, item.dtype)))]

    def answer(self, plan: Plan, question: tuple[int, ...], found: Sequence[int]) -> None:
        """Assert the answer to a question of a law."""
        self.graph.insert([Call(answers(plan), (*question, *found))])

    def facts(self, facts: Sequence[tuple[str, tuple[int, ...]]]) -> None:
        """Assert answers: relation name and integers."""
        self.graph.insert([Call(name, args) for name, args in facts])

    def iterate(self) -> tuple[bool, dict[str, int]]:
        """One pass of the laws and of the layout rules; whether anything changed, and the matches per rule."""
        matches: dict[str, int] = {}
        changed = False
        self.graph.run("(run-schedule (run operands))")
        for ruleset in ("laws", "layouts"):
            report = self.graph.run(f"(run-schedule (run {ruleset}))")
            changed = changed or bool(report.updated)
            for rule, count in report.num_matches_per_rule.items():
                name = rule.partition("/")[0]
                matches[name] = matches.get(name, 0) + count
        return changed, matches


def _value(number: int) -> Call:
    """A loaded value, by its number: a name for its class that takes no table of its own, as a global would."""
    return Call("Value", (number,))


def used_in_parts(interned: Interned, roots: Iterable[int]) -> list[int]:
    """The values of which a program needs parts only: it views them so, or what it computes from them."""
    users: dict[int, list[int]] = {}
    for number, value in enumerate(interned.values.items):
        below = (value.base,) if isinstance(value, ViewOf) else value.operands if isinstance(value, Hub) else ()
        for n in below:
            users.setdefault(n, []).append(number)
    found: set[int] = set()
    wanted = set(roots)
    for n in reversed(range(len(interned.values))):
        if n not in wanted and all(_takes_part(interned, u, found) for u in users.get(n, ())):
            found.add(n)
    return sorted(found)


def _takes_part(interned: Interned, user: int, found: set[int]) -> bool:
    value = interned.values[user]
    return user in found or (isinstance(value, ViewOf) and is_part(interned.reindexes[value.reindex].map))


def wanted_layouts(encoded: Encoded) -> list[tuple[int, int]]:
    """The layouts in which the program's outputs are wanted, as (value, reindex number)."""
    result: list[tuple[int, int]] = []
    for x in encoded.program.outputs.values():
        placed = encoded.placed[x.key]
        result.append((placed.value, encoded.interned.reindex(placed.layout, None, x.dtype)))
    return result
