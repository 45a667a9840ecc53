"""A program in which frozen operators have the layouts that they are given: each is spelled in them, between views
that lead there and back, which a search then removes, joins or moves to where they cost least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eqsat.backends.targets import is_graph, target_named
from eqsat.extraction.decode import Decoder, NoSpelling
from eqsat.extraction.extract import Choice, InsertView, UseLeaf
from eqsat.freezing.layouts import Places, form_in, further_form, moves_between, places_of
from eqsat.freezing.names import Freeze, Frozen, frozen_nodes
from eqsat.graph.encode import Encoded, encode
from eqsat.graph.nodes import ClassId, Nodes, UseForm
from eqsat.graph.rebuild import Key, on, over, replaced, with_operands
from eqsat.graph.search import Progress, Snapshot
from eqsat.ir.errors import LayoutError
from eqsat.ir.flat.facts import inverse
from eqsat.ir.flat.formula import composed
from eqsat.ir.flat.table import Map
from eqsat.ir.tensors.tensor import Compute, Input, Node, Opaque, Program, Tensor, input
from eqsat.operators.forms import FormMaker, freedom, operator_name

Choices = Mapping[int, Sequence[Sequence[Map]]]
"""Further layouts of operators, by the serials of their nodes: what moves each operand and result there."""


@dataclass(frozen=True)
class Freezing:
    """A program with its frozen nodes, by serials, in the layouts that were asked for; `choices`: further layouts that
    a target has for some of them; `notes`: what to tell the user."""

    program: Program
    nodes: frozenset[int] = frozenset()
    choices: Choices = field(default_factory=dict[int, Sequence[Sequence[Map]]])
    notes: tuple[str, ...] = ()

    def moved(self, program: Program, table: Mapping[Key, Tensor]) -> Freezing:
        """The same in a program where others took the place of tensors."""
        now = {n: table[n, 0].node.serial for n in self.nodes} if table else {n: n for n in self.nodes}
        choices = {now[n]: moves for n, moves in self.choices.items()}
        return Freezing(program, frozenset(now.values()), choices, self.notes)

    def within(self, program: Program, now: Mapping[int, int]) -> Freezing:
        """The same in a program that has some of the nodes, by their serials there."""
        choices = {now[n]: moves for n, moves in self.choices.items() if n in now}
        return Freezing(program, frozenset(now[n] for n in self.nodes if n in now), choices, self.notes)

    def further_forms(self, encoded: Encoded, target: str) -> None:
        """Tell what loaded this program of the further forms of its operators."""
        for form, written in list(encoded.written.items()):
            for moves in self.choices.get(written[0].node.serial, ()):
                further_form(_forms(encoded, form, target), form, moves)


def freezing(program: Program, freeze: Freeze, target: str) -> Freezing:
    """The program in which what a user freezes, and what a target has in some layouts only, lies in these.

    >>> import eqsat as eq
    >>> x = eq.input("x", (1, 8, 4, 4), "float32")
    >>> print(freezing(eq.Program([x], {"y": x.relu()}), {"relu": "NCHW -> NHWC"}, "c").program)
    program(x: float32(1, 8, 4, 4)) -> y
      t0 = layout_transform x[0, i3, i1, i2]            # float32(1, 4, 4, 8)
      t1 = relu maximum(t0[0, i1, i2, i3], float32(0.0))  # float32(1, 4, 4, 8)
      y = layout_transform t1[0, i2, i3, i1]            # float32(1, 8, 4, 4)
    """
    asked, target_has = frozen_nodes(program, freeze), target_named(target).layouts
    laid: list[_Laid] = []
    notes: dict[str, None] = {}

    def change(node: Node, operands: Sequence[Tensor]) -> Sequence[Tensor] | None:
        if node.serial in asked:
            found = _frozen(asked[node.serial], operands, target)
        elif isinstance(node, (Compute, Opaque)) and operator_name(node) in target_has:
            found = _first(node, operands, target_has[operator_name(node)], target)
            if found is None:
                notes[f"target {target} has no layouts for {operator_name(node)} {node.outputs[0][0]}: it stays"] = None
                return None
        else:
            return None
        laid.append(found)
        return found.results

    table = replaced(program.outputs.values(), change)
    choices = {x.node.serial: x.choices for x in laid if x.choices}
    changed = over(program, table) if any(x.moved for x in laid) else program
    return Freezing(changed, frozenset(x.node.serial for x in laid), choices, tuple(notes))


@dataclass(frozen=True)
class _Laid:
    """A node in given layouts, its results as they were (views of its own, if `moved`), and further choices."""

    node: Node
    results: tuple[Tensor, ...]
    moved: bool
    choices: tuple[Sequence[Map], ...] = ()


def _frozen(one: Frozen, operands: Sequence[Tensor], target: str) -> _Laid:
    """A node that a user froze, over operands; LayoutError where it has no form in the layouts that are wanted."""
    if one.layouts is None:
        own = on(one.node, operands)
        return _Laid(own, tuple(Tensor(own, k) for k in range(len(own.outputs))), False)
    places, follow = places_of(one.node, one.layouts, str(one))
    alone = _Alone(one.node, target)
    form = alone.form(places, follow)
    made = None if form is None else alone.over(operands, form, places)
    if made is None:
        problem = f"{operator_name(one.node) or 'the formula'} has no such form for target {target}"
        whole = "axes move as wholes where an operator computes with them"
        fix = "an order of axes that the format's operator has" if is_graph(target) else whole
        raise LayoutError(f"{one} in {one.layouts}", problem, fix)
    return made


def _first(node: Node, operands: Sequence[Tensor], choices: Sequence[Any], target: str) -> _Laid | None:
    """A node in the first layouts of a target that it can have, the others as further choices; None: in none."""
    alone, first, made = _Alone(node, target), -1, None
    others: list[Sequence[Map]] = []
    for layouts in choices:
        try:
            places, follow = places_of(node, layouts, operator_name(node))
        except LayoutError:
            continue  # for another rank, or padding would be needed
        form = alone.form(places, follow)
        if form is None:
            continue
        if made is None:
            first, made = form, alone.over(operands, form, places)
        elif (moves := moves_between(alone.forms, first, form)) is not None:
            others.append(moves)
    return None if made is None else replace(made, choices=tuple(others))


def _forms(encoded: Encoded, form: int, target: str) -> FormMaker:
    """What makes the forms that a target has of an operator."""
    u, node = encoded.interned, encoded.written[form][0].node
    number = u.forms[form].operator
    return FormMaker(u, {number: freedom(u.operators[number], node, target)})


class _Alone:
    """A node as a program of its own, in which its forms are made and spelled."""

    def __init__(self, node: Node, target: str) -> None:
        self.inputs = [input(f"x{k}", x.shape, x.dtype) for k, x in enumerate(node.operands)]
        self.node, self.target = with_operands(node, self.inputs), target
        outputs = {str(k): Tensor(self.node, k) for k in range(len(node.outputs))}
        self.encoded = encode(Program(self.inputs, outputs), frozen=frozenset([self.node.serial]))
        ((self.written, (self.spelled,)),) = self.encoded.written.items()
        self.forms = _forms(self.encoded, self.written, target)

    def form(self, places: Places, follow: bool) -> int | None:
        """The form in some places."""
        return form_in(self.forms, self.written, self.spelled.accesses, places, follow)

    def over(self, operands: Sequence[Tensor], form: int, places: Places) -> _Laid | None:
        """The node in a form, over operands that are as it was written; None where that has no spelling."""
        u = self.encoded.interned
        chosen, written = u.forms[form], u.forms[self.written]
        choices: dict[ClassId, Choice] = {v: UseLeaf(v) for v in self.encoded.leaves}
        wanted: dict[ClassId, Any] = {}
        read: list[ClassId] = []
        for k, (value, m) in enumerate(zip(self.spelled.values, chosen.operand_maps, strict=True)):
            read.append(value if u.reindexes[m].map.is_identity else ("operand", k))
            if read[-1] != value:
                choices[read[-1]] = InsertView(value, m)
            place = places[self.spelled.accesses[k]]
            wanted.update({read[-1]: place.shape} if place is not None else {})
        roots: list[ClassId] = []
        for o, (m, before) in enumerate(zip(chosen.output_maps, written.output_maps, strict=True)):
            choices["result", o] = UseForm(form, o, tuple(read))
            place = places[len(operands) + o]
            wanted.update({("result", o): place.shape} if place is not None else {})
            roots.append(("result", o) if m == before else ("as written", o))
            if m != before:
                choices[roots[-1]] = InsertView(("result", o), self._back(m, before))
        snapshot = Snapshot(Nodes(), roots, list(range(len(u.values))), u, Progress(), [])
        decoder = Decoder(self.encoded, snapshot, choices, self.target)
        decoder.wanted.update(wanted)
        try:
            program = decoder.program(roots)
        except NoSpelling:
            return None
        (made,) = decoder.nodes.values()
        given = dict(zip([x.node.serial for x in self.inputs], operands, strict=True))

        def change(node: Node, inputs: Sequence[Tensor]) -> Sequence[Tensor] | None:
            return [given[node.serial]] if isinstance(node, Input) else None

        table = replaced([*program.outputs.values(), Tensor(made)], change)
        results = tuple(table[x.key] for x in program.outputs.values())
        return _Laid(table[made.serial, 0].node, results, form != self.written)

    def _back(self, m: int, before: int) -> int:
        """The view that a result as written is of the result in a layout."""
        u = self.encoded.interned
        layout, written = u.reindexes[m], u.reindexes[before]
        back = inverse(layout.map)
        whole = None if back is None else composed(back, written.map)
        assert whole is not None
        return u.reindex(whole, None, layout.dtype)
