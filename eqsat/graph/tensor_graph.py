"""The tensor e-graph: values, views and operators as egglog terms, and the rules that relate them.

The rules only join: what they need of maps and operators they ask (`need_*`). The laws of layout are made from their
declarations (`eqsat.laws`); what is written here is how layouts travel between operators, which states no equality.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from eqsat.graph.declared import Declared, shapes_of
from eqsat.graph.egglog_adapter import Call, Expression
from eqsat.graph.encode import Encoded
from eqsat.ir.flat.facts import inverse, is_bijective, is_permutation
from eqsat.laws.plan import Plan
from eqsat.laws.text import answers, apart
from eqsat.operators.interned import Hub, Interned, Leaf, ViewOf
from eqsat.operators.moves import is_pointwise
from eqsat.operators.restrict import is_part
from eqsat.operators.stacks import is_selection

NODES = ("Leaf", "View", "Hub", "Form")
LAYOUT_NEEDS = ("need_output_form", "need_operand_form", "need_view_up", "need_view_down")


class TensorGraph:
    """The e-graph of one program, over its interned maps, operators and values, and the laws by which it grows."""

    def __init__(self, interned: Interned, declared: Declared) -> None:
        self.interned = interned
        self.declared = declared
        self.graph = declared.graph
        self.announced = [0, 0]
        self.told: list[Call] = []
        """Facts that the graph gets with what is announced next: one call for all is many times faster."""
        self.roots = 0
        self.loaded = 0

    @property
    def plans(self) -> dict[str, Plan]:
        """The laws that ask, as they act, by the relation of their questions."""
        return self.declared.plans

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
        facts += [Call("base", (self._laid_out(placed),)) for placed in wanted]
        self.graph.insert(facts)

    def mark(self, constants: Sequence[int], in_parts: Sequence[int]) -> None:
        """Tell which values are constants, and which ones operators use in parts alone."""
        self.graph.insert([Call("constant", (_value(n),)) for n in constants])
        self.graph.insert([Call("in_parts", (_value(n),)) for n in in_parts])

    def compose_all(self) -> None:
        """Compose views of views whatever they start from."""
        self.graph.insert([Call("short", ())])

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
        shared = [a for a, count in Counter(a for a, _ in views).items() if count > 1]
        read = [x for form, values in forms for x in zip(values, self.interned.forms[form].operand_maps, strict=True)]
        self.graph.insert([Call("base", (self._laid_out(x),)) for x in dict.fromkeys((*shared, *read))])

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
            self.declared.need_arity(len(value.operands))
            operands = tuple(_value(k) for k in value.operands)
            return Call(
                "Hub", (value.operator, value.output, Call("vec-of", operands) if operands else Call("vec-empty", ()))
            )
        return Call("View", (_value(value.base), value.reindex))

    def announce(self) -> int:
        """Tell the graph what was found, and what its rules need to know about maps and operators that appeared since
        the last time; how many facts that were."""
        u, facts, self.told = self.interned, self.told, []
        for number in range(self.announced[0], len(u.operators)):
            operator = u.operators[number]
            self.declared.need_arity(len(operator.operands))
            for shape in shapes_of(operator):
                facts.append(Call("shape", (number, self.declared.need_shape(shape))))
            if operator.kind.identity:
                continue  # no law is about it
            facts += [Call("selection", (number,))] if is_selection(operator) else []
            facts += [Call("pointwise", (number,))] if is_pointwise(operator) else []
        number = self.announced[1]
        while number < len(u.reindexes):  # what undoes a view may be a new one
            m = u.reindexes[number].map
            facts += [Call("identity", (number,))] if m.is_identity else []
            facts += [Call("bijective", (number,))] if is_bijective(m) else []
            facts += [Call("padding", (number,))] if u.reindexes[number].fill is not None else []
            facts.append(Call("layout" if is_permutation(m) else "unabsorbed", (number,)))
            if not is_permutation(m):
                facts += self._undone(number)
            number += 1
        self.announced = [len(u.operators), len(u.reindexes)]
        self.graph.relate(facts)
        return len(facts)

    def _undone(self, number: int) -> list[Call]:
        """Which view puts back what a view moves."""
        item = self.interned.reindexes[number]
        back = inverse(item.map)
        return [] if back is None else [Call("undoes", (number, self.interned.reindex(back, None, item.dtype)))]

    def answer(self, plan: Plan, question: tuple[int, ...], found: Sequence[int]) -> None:
        """Assert the answer to a question of a law."""
        self.told.append(Call(answers(plan), (*question, *found)))

    def stay_apart(self, plan: Plan, question: tuple[int, ...]) -> None:
        """Views of views that are not one view: what lies between them is a base of what follows."""
        self.told.append(Call(apart(plan), question))

    def facts(self, facts: Sequence[tuple[str, tuple[int, ...]]]) -> None:
        """Assert answers: relation name and integers."""
        self.told += [Call(name, args) for name, args in facts]

    def asked(self, sizes: Mapping[str, int]) -> dict[str, list[tuple[int, ...]]]:
        """The questions of the last pass, by their relations, which forget them."""
        found = {name: self.graph.related(name) for name in (*LAYOUT_NEEDS, *self.plans) if sizes.get(name)}
        self.graph.run("(run-schedule (run answered))")
        return found

    def iterate(self) -> tuple[bool, dict[str, int]]:
        """One pass of the laws and of the layout rules; whether anything changed, and the matches per rule.

        Where a law asks whether parts may be taken, what is known of that follows at once (`parts`), and what waited
        for it (`known`): that takes a tenth of a pass of all laws, and otherwise two of them.
        """
        matches: dict[str, int] = {}
        changed = False
        self.graph.run("(run-schedule (run operands))")
        for ruleset in ("laws", "parts", "known", "layouts"):
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
