"""The tensor e-graph: values, views and operators as egglog terms, and the rules that relate them.

The rules only join: what the composition of two maps is, how an operator absorbs a layout or which forms a target has,
they ask (`need_*`), and answers come from `eqsat.graph.oracle`, each distinct question once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.graph.egglog_adapter import Call, EGraph, Expression
from eqsat.graph.encode import Encoded
from eqsat.graph.universe import Hub, Leaf, Universe

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

(relation selection (i64))

(relation windowed (i64))

(relation strict (i64))

(relation need_compose (i64 i64))

(relation compose (i64 i64 i64 i64))

(relation need_absorb (i64 i64 i64))

(relation absorb (i64 i64 i64 i64 i64 i64))

(relation need_inline (i64 i64 i64))

(relation inline (i64 i64 i64 i64 i64 i64))

(relation inline_operand (i64 i64 i64))

(relation need_pull (i64 i64 i64))

(relation pull (i64 i64 i64 i64 i64))

(relation need_output_form (i64 i64 i64))

(relation need_operand_form (i64 i64 i64))

(relation form (i64 i64))

(relation form_operand (i64 i64 i64))

(relation form_output (i64 i64 i64))

(relation need_view_up (i64 i64))

(relation view_up (i64 i64 i64))

(relation need_view_down (i64 i64))

(relation view_down (i64 i64 i64))

(relation partial_identity (i64))

(relation select (i64 i64 i64 i64 i64))

(relation need_region (i64 i64))

(relation region (i64 i64))

(ruleset operands)

(ruleset laws)

(ruleset layouts)

(rule ((= e (View (View x f) g)) (windowed g)) ((need_compose f g)) :ruleset laws :name "ask compose")

(rule ((= e (View (View x f) g)) (compose f g c m)) ((union e (View (View x c) m))) :ruleset laws :name "compose")

(rule ((= e (View h m)) (= h (Hub s o v)) (select s o m k mk) (operand v k x)) ((union e (View x mk)))
  :ruleset laws :name "select-part")

(rule ((= e (View x m)) (identity m)) ((union e x)) :ruleset laws :name "identity")

(rule ((= e (View x m)) (partial_identity m) (= n (vid x))) ((need_region n m)) :ruleset laws :name "ask pad-of-crop")

(rule ((= e (View x m)) (= n (vid x)) (region n m)) ((union e x)) :ruleset laws :name "pad-of-crop")

(rule ((= h (Hub s o v)) (lay h m)) ((need_output_form s o m)) :ruleset layouts :name "ask output layout")

(rule ((= h (Hub s o v)) (form s f) (form_output f o m)) ((lay h m)) :ruleset layouts :name "form output layout")

(rule ((= h (Hub s o v)) (form s f) (form_operand f k m) (operand v k x)) ((lay x m))
  :ruleset layouts :name "form operand layout")

(rule ((= y (View x c)) (windowed c) (lay x p)) ((need_view_up c p)) :ruleset layouts :name "ask layout of view")

(rule ((= y (View x c)) (windowed c) (lay x p) (view_up c p m)) ((lay y m)) :ruleset layouts :name "layout of view")

(rule ((= y (View x c)) (windowed c) (lay y m)) ((need_view_down c m)) :ruleset layouts :name "ask layout under view")

(rule ((= y (View x c)) (windowed c) (lay y m) (view_down c m p)) ((lay x p))
  :ruleset layouts :name "layout under view")
"""

NEEDS = (
    "need_compose", "need_absorb", "need_inline", "need_pull", "need_output_form", "need_operand_form", "need_view_up",
    "need_view_down", "need_region",
)  # fmt: skip
NODES = ("Leaf", "View", "Hub", "Form")


RULE_LAWS = {
    "compose": ("compose",),
    "identity": ("identity",),
    "inline": ("inline", "pull-pad"),
    "push-view": ("push-view",),
    "pad-of-crop": ("pad-of-crop",),
    "select-part": ("inline", "absorb"),
    "select-of-views": ("select-of-views",),
    "spell": ("reindex", "absorb", "reduce-reindex"),
}
"""The declared laws (`eqsat.rules.layout_laws`, `eqsat.rules.axioms`) that each rule of the graph is an instance of."""

OPTIONAL_RULES = tuple(name for name in RULE_LAWS if name not in ("identity", "spell"))
"""The rules that a search can do without: what is left still builds every program."""

MAX_MERGED = 8
MERGES = tuple(f"need_merge{n}" for n in range(2, MAX_MERGED + 1))


def _operands(n: int) -> str:
    """Joins with the operands of a node (a relation: `vec-get`, a primitive, would pair all nodes and views)."""
    return " ".join(f"(operand v {k} x{k})" for k in range(n))


def rules_for(arity: int) -> str:
    """The rules of operators with this many operands."""
    width = f"(arity v {arity}) {_operands(arity)}"
    listed = " ".join(f"(operand v {k} (vec-get v {k}))" for k in range(arity))
    rules = [
        f"(rule ((= h (Hub s o v)) (= {arity} (vec-length v))) ((arity v {arity}) {listed})\n"
        f'  :ruleset operands :name "operands/{arity}")'
    ]
    if arity:
        forms = " ".join(f"(form_operand f {k} m{k})" for k in range(arity))
        views = " ".join(f"(View x{k} m{k})" for k in range(arity))
    else:
        forms, views = "", ""
    made = f"(vec-of {views})" if arity else "(vec-empty)"
    rules.append(
        f"(rule ((= h (Hub s o v)) (form s f) (form_output f o mo) {width} {forms})\n"
        f'  ((union (View h mo) (Form f o {made}))) :ruleset layouts :name "spell/{arity}")'
    )
    for k in range(arity):
        rules.append(
            f"(rule ((= h (Hub s o v)) {width} (lay x{k} m)) ((need_operand_form s {k} m))\n"
            f'  :ruleset layouts :name "ask operand layout/{arity}.{k}")'
        )
        rules.append(
            f"(rule ((= h (Hub s o v)) {width} (= x{k} (View y m)) (windowed m)) ((need_pull s {k} m))\n"
            f'  :ruleset laws :name "ask push-view/{arity}.{k}")'
        )
        rules.append(
            f"(rule ((= h (Hub s o v)) {width} (= x{k} (View y m)) (pull s {k} m s2 mo))\n"
            f'  ((union h (View (Hub s2 o (vec-set v {k} y)) mo))) :ruleset laws :name "push-view/{arity}.{k}")'
        )
    if arity:
        parts = " ".join(f"(inline_operand p {k} m{k})" for k in range(arity))
        rules.append(
            f"(rule ((= e (View h m)) (windowed m) (= h (Hub s o v)) {width}) ((need_inline s o m))\n"
            f'  :ruleset laws :name "ask inline/{arity}")'
        )
        rules.append(
            f"(rule ((= e (View h m)) (= h (Hub s o v)) {width} (inline s o m p s2 mo) {parts})\n"
            f'  ((union e (View (Hub s2 0 (vec-of {views})) mo))) :ruleset laws :name "inline/{arity}")'
        )
    if 2 <= arity <= MAX_MERGED:
        same = " ".join(f"(= x{k} (View y m{k}))" for k in range(arity))
        names = " ".join(f"m{k}" for k in range(arity))
        sorts = " ".join(["i64"] * (arity + 1))
        rules = [f"(relation need_merge{arity} ({sorts}))", f"(relation merge{arity} ({sorts} i64))", *rules]
        rules.append(
            f"(rule ((selection s) (= h (Hub s o v)) {width} {same}) ((need_merge{arity} s {names}))\n"
            f'  :ruleset laws :name "ask select-of-views/{arity}")'
        )
        rules.append(
            f"(rule ((= h (Hub s o v)) {width} {same} (merge{arity} s {names} m)) ((union h (View y m)))\n"
            f'  :ruleset laws :name "select-of-views/{arity}")'
        )
    return "\n\n".join(rules)


class TensorGraph:
    """The e-graph of one program, over the numbers of its universe."""

    def __init__(self, universe: Universe, rules: frozenset[str] | None = None) -> None:
        self.universe = universe
        self.rules = rules
        self.graph = EGraph()
        self.graph.run(self._allowed(SCHEMA))
        self.arities: set[int] = set()
        self.roots = 0
        self.loaded = 0

    def load(self, wanted: Sequence[tuple[int, int]]) -> None:
        """Insert all values of the universe; `wanted` are (value, layout) pairs of the program's outputs."""
        u = self.universe
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

    def load_written(
        self,
        forms: Sequence[tuple[int, tuple[int, ...]]],
        views: Mapping[tuple[tuple[int, int], int], tuple[int, int]],
    ) -> None:
        """Insert the operators (forms over values) and views (of a value in a layout, by a map, a value in a layout) as
        the program has them, so that it can be built from the start."""
        pairs = [pair for form, values in forms for pair in self._spelled(form, values)]
        pairs += [(Call("View", (self._laid_out(a), m)), self._laid_out(b)) for (a, m), b in views.items()]
        self.graph.unions(pairs)

    def _laid_out(self, placed: tuple[int, int]) -> Call:
        value, layout = placed
        return Call("View", (_value(value), layout))

    def _spelled(self, number: int, values: tuple[int, ...]) -> list[tuple[Expression, Expression]]:
        """The layouts of an operator's values that a form produces, and the form."""
        form, u = self.universe.forms[number], self.universe
        views = tuple(Call("View", (_value(v), m)) for v, m in zip(values, form.operand_maps, strict=True))
        operands = Call("vec-of", views) if views else Call("vec-empty", ())
        hubs = [_value(u.values.number(Hub(form.signed, o, values))) for o in range(len(form.output_maps))]
        return [
            (Call("View", (hub, m)), Call("Form", (number, o, operands)))
            for o, (hub, m) in enumerate(zip(hubs, form.output_maps, strict=True))
        ]

    def _expression(self, number: int) -> Expression:
        value = self.universe.values[number]
        if isinstance(value, Leaf):
            return Call("Leaf", (number,))
        if isinstance(value, Hub):
            self.need_arity(len(value.operands))
            operands = tuple(_value(k) for k in value.operands)
            return Call(
                "Hub", (value.signed, value.output, Call("vec-of", operands) if operands else Call("vec-empty", ()))
            )
        return Call("View", (_value(value.base), value.reindex))

    def need_arity(self, arity: int) -> None:
        if arity not in self.arities:
            self.arities.add(arity)
            self.graph.run(self._allowed(rules_for(arity)))

    def _allowed(self, text: str) -> str:
        """The commands without the merging rules that the search may not use."""
        if self.rules is None:
            return text
        barred = [f':name "{name}' for name in OPTIONAL_RULES if name not in self.rules]
        commands = text.split("\n\n")
        return "\n\n".join(c for c in commands if not ("(union " in c and any(b in c for b in barred)))

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


def wanted_layouts(encoded: Encoded) -> list[tuple[int, int]]:
    """The layouts in which the program's outputs are wanted, as (value, reindex number)."""
    result: list[tuple[int, int]] = []
    for x in encoded.program.outputs.values():
        placed = encoded.placed[x.key]
        result.append((placed.value, encoded.universe.reindex(placed.layout, None, x.dtype)))
    return result
