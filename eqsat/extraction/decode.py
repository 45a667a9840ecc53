"""From the chosen classes back to a program: forms become operators over concrete shapes, bridges become Views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from eqsat.backends.targets import target_named
from eqsat.extraction.decode_view import reshaped, reshapes_around, viewed, viewed_twice
from eqsat.extraction.extract import Choice, InsertView, UseLeaf, UsePadded, UseSum
from eqsat.extraction.fit import fit, fit_reduced, plain
from eqsat.extraction.groups import Groups, product_groups, product_of, product_shapes
from eqsat.extraction.growth import too_large
from eqsat.extraction.respell import Respelling
from eqsat.extraction.slots import Slots
from eqsat.formulas import over_accesses
from eqsat.graph.encode import Encoded, Written
from eqsat.graph.nodes import ClassId, UseForm
from eqsat.graph.rebuild import with_operands
from eqsat.graph.search import Snapshot
from eqsat.ir import clock
from eqsat.ir.errors import EqsatError
from eqsat.ir.flat.map import FlatMap
from eqsat.ir.flat.size_terms import as_extent
from eqsat.ir.flat.sizes import product
from eqsat.ir.tensors.tensor import Compute, Constant, Node, Opaque, OperatorImpl, Program, Tensor, View
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, same_shape
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import transform
from eqsat.operators.interned import Form, Reindex
from eqsat.operators.labels import ComputeKind, Coordinate, Label, Name, OpaqueKind, Slot
from eqsat.operators.permutable import has_any_rank
from eqsat.operators.turning import Turned, turned_form


class NoSpelling(EqsatError):
    """Forms that were chosen for operators, and that their tables do not have."""

    def __init__(self, found: Mapping[int, str]) -> None:
        super().__init__(f"operator {next(iter(found.values()))}", "has no spelling in a form that was chosen for it")
        self.forms = frozenset(found)


class Decoder:
    """Builds the tensors of an extraction, operands first."""

    def __init__(
        self,
        encoded: Encoded,
        snapshot: Snapshot,
        choices: dict[ClassId, Choice],
        target: str = "c",
        growth: float = 0.05,
        fitting: bool = False,
        shapes: Mapping[ClassId, Shape] | None = None,
    ) -> None:
        self.encoded = encoded
        self.operators = target_named(target).vocabulary == "operators"
        self.interned = encoded.interned
        self.fitting = fitting
        """Whether operators are written over the shapes that are there, where that saves reshapes, not as the program
        has them."""
        self.shapes = shapes or {}
        """The shapes that values are to have, whatever the program has."""
        self.slots = Slots(encoded)
        self.choices = choices
        self.large = too_large(encoded, choices, snapshot.roots, growth) if self.operators else set[ClassId]()
        self.originals = _originals(encoded, snapshot)
        self.done: dict[ClassId, Tensor] = {}
        self.nodes: dict[tuple[int, tuple[ClassId, ...]], Node] = {}
        self.wanted: dict[ClassId, Shape] = {}
        self.made: dict[tuple[int, tuple[ClassId, ...]], dict[int, ClassId]] = {}
        """The classes that are outputs of each form over some operands, by the numbers of these."""
        for c, choice in choices.items():
            if isinstance(choice, UseForm):
                self.made.setdefault((choice.form, choice.operands), {})[choice.output] = c
        self.turned = cache(self._turned)
        self.unspelled: dict[int, str] = {}
        """The forms that turned out to have no spelling, with their operators: what has their sizes stands for them."""

    def program(self, roots: Sequence[ClassId]) -> Program:
        """The program whose outputs are the given classes, with the names, shapes and inputs of the original."""
        original = self.encoded.program
        self.wanted.update(self.shapes)
        for root, x in zip(roots, original.outputs.values(), strict=True):
            self.wanted.setdefault(root, x.shape)
        for c, choice in reversed(self.choices.items()):
            if isinstance(choice, UseForm):
                self._note_wishes(c, choice)
            elif isinstance(choice, UsePadded):
                self._note_wishes(c, choice.spell)
                shape = self.slots.source(choice.spell.form, choice.reindex)
                assert shape is not None
                self.wanted[choice.spell.operands[0]] = shape
            elif isinstance(choice, UseSum):
                self._note_wishes(c, choice.spell)
                operand = choice.spell.operands[choice.place]
                if operand in self.wanted:
                    self.wanted.setdefault(choice.product, self.wanted[operand])
            elif isinstance(choice, InsertView) and choice.reindex in self.encoded.views:
                self.wanted.setdefault(choice.source, self.encoded.views[choice.reindex][0].source.shape)
        for c, choice in self.choices.items():
            clock.check()
            self.done[c] = self._build(c, choice)
        if self.unspelled:
            raise NoSpelling(self.unspelled)
        outputs = {
            name: reshaped(self.done[root], x.shape)
            for root, (name, x) in zip(roots, original.outputs.items(), strict=True)
        }
        return Program(original.inputs, outputs, original.name)

    def chosen(self, program: Program, known: Mapping[int, int]) -> dict[int | Reindex, int]:
        """What is known of nodes of the program, by their serials, as known of the forms and views that they were made
        of; what only gives one of these its shape belongs to it."""
        result: dict[int | Reindex, int] = {}
        found, made = dict(known), {self.done[c].node.serial for c in self.choices}
        for node in reversed(list(program.nodes())) if known else ():
            if isinstance(node, View) and node.serial in found and node.serial not in made:
                source = node.source.node.serial
                found[source] = found.get(source, 0) + found[node.serial]
        for c, way in self.choices.items():
            number = found.get(self.done[c].node.serial)
            choice = way.spell if isinstance(way, (UsePadded, UseSum)) else way
            if number is not None and isinstance(choice, UseForm):
                result[choice.form] = max(number, result.get(choice.form, 0))
            elif number is not None and isinstance(choice, InsertView):
                last = choice.reindex if choice.then is None else choice.then
                result[self.interned.reindexes[last]] = number
        return result

    def frozen(self) -> frozenset[int]:
        """The nodes, by their serials, of operators that are frozen."""
        nodes = (
            (self.encoded.spelled(self.interned.forms[form].operator).node, x) for (form, _), x in self.nodes.items()
        )
        return frozenset(x.serial for origin, x in nodes if origin.serial in self.encoded.frozen)

    def _note_wishes(self, c: ClassId, spell: UseForm) -> None:
        """The shapes in which an operator wants its operands, so that no reshape stands between."""
        form, written = self.interned.forms[spell.form], self._written(spell)
        if written is None:
            opaque = isinstance(self.interned.operators[form.operator].kind, OpaqueKind)
            groups = None if opaque else self._product(form, (), self.wanted.get(c))
            for n, operand in enumerate(spell.operands):
                if groups is not None:
                    self.wanted.setdefault(operand, groups.shape(groups.operands[n]))
                elif c in self.wanted and form.operands[n] == form.outputs[spell.output]:
                    self.wanted.setdefault(operand, self.wanted[c])
            if not opaque or self.encoded.is_cut(form.operator):
                return
            if not self.encoded.in_place(form):
                self._note_source(c, spell, form)
            written = self.encoded.spelled(form.operator)
            turned = self.turned(spell.form)
            if turned is not None:
                places = turned.turn.operands
                accesses = tuple(places.index(n) for n in range(len(places)))
                written = replace(written, node=turned.node, accesses=accesses)
        elif self._may_change(written):
            self._note_source(c, spell, form)
        follows = self.wanted.get(c) if self._may_fit(written, form) else None
        for n, (access, operand) in enumerate(zip(written.accesses, spell.operands, strict=True)):
            same = follows is not None and form.operands[n] == form.outputs[spell.output]
            shape = follows if same else written.node.operands[access].shape
            assert shape is not None
            self.wanted.setdefault(operand, shape)

    def _note_source(self, c: ClassId, spell: UseForm, form: Form) -> None:
        """The shape of what an operator without a formula reads first, if it moves along with that of its result."""
        kind, origin = self.interned.operators[form.operator].kind, self.encoded.spelled(form.operator).node
        turned = self.turned(spell.form)
        first = 0
        if turned is not None:
            form, kind, origin, first = turned.form, turned.kind, turned.node, turned.turn.operands[0]
        if c in self.wanted and spell.operands and isinstance(kind, OpaqueKind) and isinstance(origin, Opaque):
            shape = Respelling(form, kind, origin).source(self.wanted[c], spell.output)
            if shape is not None:
                self.wanted.setdefault(spell.operands[first], shape)

    def _written(self, spell: UseForm) -> Written | None:
        """A node of the program in this form: the one over these very operands, else any."""
        nodes = [w for w in self.encoded.written.get(spell.form, ()) if not w.wider]
        return self.originals.get((spell.form, spell.operands), nodes[0]) if nodes else None

    def _build(self, c: ClassId, choice: Choice) -> Tensor:
        if isinstance(choice, UseLeaf):
            return self.encoded.leaves[choice.leaf]
        if isinstance(choice, InsertView):
            reindex = self.interned.reindexes[choice.reindex]
            source, wanted, fold = self.done[choice.source], self.wanted.get(c), choice.source not in self.large
            if choice.then is None:
                kept = self._kept(source, choice.reindex, wanted)
                return viewed(source, reindex.map, reindex.fill, wanted, fold) if kept is None else kept
            then = self.interned.reindexes[choice.then]
            assert isinstance(reindex.map, FlatMap) and isinstance(then.map, FlatMap)
            fills = reindex.fill, then.fill
            return viewed_twice(source, reindex.map, then.map, fills, wanted, fold)
        if isinstance(choice, UsePadded):
            return Tensor(self._padded(choice), choice.spell.output)
        if isinstance(choice, UseSum):
            return self._sum(choice)
        key = (choice.form, choice.operands)
        if key not in self.nodes:
            operands = [self.done[x] for x in choice.operands]
            written, form = self._written(choice), self.interned.forms[choice.form]
            moves = written is not None and self._moves(c, choice, written, operands)
            if written is not None and not moves and not self._fits_better(written, form, operands, self.wanted.get(c)):
                fitted = self._fitted(written, choice, operands)
                self.nodes[key] = self._as_written(written, operands) if fitted is None else fitted
            elif isinstance(self.interned.operators[form.operator].kind, OpaqueKind):
                self.nodes[key] = self._respelled(choice, operands, self.wanted.get(c))
            else:
                self.nodes[key] = self._derived(form, operands, self.wanted.get(c))
        return Tensor(self.nodes[key], choice.output)

    def _sum(self, choice: UseSum) -> Tensor:
        """A form over a product, in the shape of that, so that no reshape stands between."""
        spell, place = choice.spell, choice.place
        held = (*spell.operands[:place], choice.product, *spell.operands[place + 1 :])
        key = (spell.form, held)
        if key not in self.nodes:
            operands, shape = [self.done[x] for x in held], self.done[choice.product].shape
            written = self._written(spell)
            if written is not None and self._stands(written, place, shape):
                self.nodes[key] = self._as_written(written, operands)
            else:
                self.nodes[key] = self._derived(self.interned.forms[spell.form], operands, shape)
        return Tensor(self.nodes[key], spell.output)

    def _stands(self, written: Written, place: int, shape: Shape) -> bool:
        """Whether a node of the program stays as it is over an operand of some shape."""
        node = written.node
        return node.serial in self.encoded.frozen or same_shape(node.operands[written.accesses[place]].shape, shape)

    def _kept(self, source: Tensor, reindex: int, wanted: Shape | None) -> Tensor | None:
        """A view as the program has it between these shapes: a target may know it by another name than its steps."""
        for node in () if isinstance(source.node, Constant) else self.encoded.views.get(reindex, ()):
            shape = node.outputs[0][0]
            if same_shape(node.source.shape, source.shape) and (wanted is None or same_shape(shape, wanted)):
                return Tensor(with_operands(node, [source]))
        return None

    # -- as the program spells it --------------------------------------------------------------------------------------

    def _as_written(self, written: Written, inputs: list[Tensor]) -> Node:
        node, accesses = written.node, written.accesses
        first: dict[int, Tensor] = {}
        alike = [first.setdefault(access, x) == x for access, x in zip(accesses, inputs, strict=True)]
        shapes = [node.operands[access].shape for access in accesses]
        if isinstance(node, (View, Compute)) and not (all(alike) and len(first) == len(node.operands)):
            # In normal form two loads of one operand are two operands, and a load that no cell reaches is none.
            return over_accesses(node, [reshaped(x, shape) for x, shape in zip(inputs, shapes, strict=True)])
        given = [reshaped(first[k], x.shape) for k, x in enumerate(node.operands)]
        return node if all(a == b for a, b in zip(given, node.operands, strict=True)) else with_operands(node, given)

    def _padded(self, choice: UsePadded) -> Node:
        """The operator of the program that pads its first operand itself."""
        key = (choice.spell.form, (*choice.spell.operands, choice.reindex))
        if key not in self.nodes:
            origin = self.encoded.spelled(self.interned.forms[choice.spell.form].operator).node
            shape = self.slots.source(choice.spell.form, choice.reindex)
            assert shape is not None
            shapes = [shape, *(x.shape for x in origin.operands[1:])]
            operands = [reshaped(self.done[x], s) for x, s in zip(choice.spell.operands, shapes, strict=True)]
            made = self.slots.padded(choice.spell.form, choice.reindex, operands)
            assert made is not None
            self.nodes[key] = made
        return self.nodes[key]

    def _respelled(self, spell: UseForm, operands: list[Tensor], wanted: Shape | None) -> Node:
        """An operator without a formula in another order of labels: in other shapes if that is a way to spell it, else
        the node of the program over operands whose labels lie in another order."""
        form = self.interned.forms[spell.form]
        written = self.encoded.spelled(form.operator)
        kind, origin = self.interned.operators[form.operator].kind, written.node
        assert isinstance(kind, OpaqueKind) and isinstance(origin, Opaque)
        cut, turned = self.encoded.is_cut(form.operator), self.turned(spell.form)
        if turned is not None:
            form, kind, origin = turned.form, turned.kind, turned.node
            operands = [operands[n] for n in turned.turn.operands]
        stays = turned is None and self.encoded.in_place(form) and not cut
        same = stays and same_shape(operands[0].shape, origin.operands[0].shape)
        known = origin.definition is not None or isinstance(origin.impl, OperatorImpl)
        made = None
        if not same and (known or not stays):
            ways = Respelling(form, kind, origin)
            made = ways.in_place(operands) if cut or turned is not None else None
            made = ways.first(operands, wanted, spell.output) if made is None else made
        if made is None and not stays:
            self.unspelled[spell.form] = origin.op
            sizes = (product(form.labels[n].extent for n in order) for order in form.outputs)
            return Opaque(origin.op, (), [((as_extent(x),), d) for x, d in zip(sizes, kind.dtypes, strict=True)])
        return self._as_written(written, operands) if made is None else made

    def _turned(self, number: int) -> Turned | None:
        """A form in which dimensions of an operator have changed places, as one of the operator that has them so."""
        form = self.interned.forms[number]
        kind, origin = self.interned.operators[form.operator].kind, self.encoded.spelled(form.operator).node
        if not isinstance(kind, OpaqueKind) or not isinstance(origin, Opaque):
            return None
        return turned_form(form, kind, origin)

    def _may_fit(self, written: Written, form: Form) -> bool:
        """Whether a node may be written over other shapes than those of the program: runtimes join products of matrices
        with what is added to them."""
        node = written.node
        if not self.fitting or not isinstance(node, Compute) or node.serial in self.encoded.frozen:
            return False
        return not self.operators or product_of(form) is None

    def _moves(self, c: ClassId, choice: UseForm, written: Written, operands: Sequence[Tensor]) -> bool:
        """Whether a node of the program is to be written over other shapes than it has, and can be."""
        node, wanted = written.node, self.shapes.get(c)
        if wanted is None:
            return False
        own = [node.operands[access].shape for access in written.accesses]
        if not reshapes_around(operands, own, [node.outputs[choice.output][0]], {0: wanted}):
            return False
        if not isinstance(node, Compute):
            return True
        groups = self._groups(self.interned.forms[choice.form], operands, wanted)
        return same_shape(groups.shape(groups.output), wanted)

    def _fits_better(self, written: Written, form: Form, operands: Sequence[Tensor], wanted: Shape | None) -> bool:
        """Whether a formula needs fewer reshapes around it over the shapes that are there."""
        if not self._may_fit(written, form):
            return False
        node = written.node
        groups = self._groups(form, operands, wanted)
        shapes = [node.operands[access].shape for access in written.accesses]
        asked = {} if wanted is None else {0: wanted}
        own = reshapes_around(operands, shapes, [node.outputs[0][0]], asked)
        fitted = [groups.shape(dims) for dims in groups.operands]
        return reshapes_around(operands, fitted, [groups.shape(groups.output)], asked) < own

    def _may_change(self, written: Written) -> bool:
        """Whether a node without a formula may be written over other shapes than those of the program."""
        node = written.node
        if not self.fitting or not isinstance(node, Opaque) or node.serial in self.encoded.frozen:
            return False
        return has_any_rank(node)

    def _fitted(self, written: Written, spell: UseForm, operands: Sequence[Tensor]) -> Opaque | None:
        """An operator without a formula over the shapes that are there, where fewer reshapes are around it then."""
        form, origin = self.interned.forms[spell.form], written.node
        kind = self.interned.operators[form.operator].kind
        if not self._may_change(written) or not isinstance(kind, OpaqueKind) or not isinstance(origin, Opaque):
            return None
        asked = {n: self.wanted[c] for n, c in self.made[spell.form, spell.operands].items() if c in self.wanted}
        return Respelling(form, kind, origin).fitted(operands, asked)

    # -- in another layout ---------------------------------------------------------------------------------------------

    def _derived(self, form: Form, operands: list[Tensor], wanted: Shape | None) -> Node:
        operator = self.interned.operators[form.operator]
        origin = self.encoded.like(form.operator)
        assert isinstance(operator.kind, ComputeKind)
        tag = origin.tag if isinstance(origin, Compute) else None
        groups = self._groups(form, operands, wanted)
        labels = groups.labels
        shape = groups.shape(groups.output)
        axes: dict[int, Term] = {}
        placed: dict[tuple[int, ...], Term] = {}
        for n, group in enumerate(groups.output):
            placed[group] = t.ax(n, shape[n])
            if len(group) == 1:
                axes[group[0]] = placed[group]
        reduce: list[Any] = []
        for operand in groups.operands:
            for group in operand:
                if group and group not in placed and not any(isinstance(labels[i].name, Coordinate) for i in group):
                    extent = as_extent(product(labels[i].extent for i in group))
                    placed[group] = t.red(len(reduce), extent)
                    reduce.append(extent)
                    if len(group) == 1:
                        axes[group[0]] = placed[group]
        slots: dict[Name, Term] = {labels[i].name: x for i, x in axes.items() if isinstance(labels[i].name, Slot)}

        def rename(node: Term) -> Term | None:
            if node.op == "axis":
                name = Slot(node.payload[1])
                if name not in slots:
                    slots[name] = t.red(len(reduce), node.args[0])
                    reduce.append(node.args[0] if t.int_value(node.args[0]) is None else t.int_value(node.args[0]))
                return slots[name]
            if node.op == "load" and isinstance(node.payload, int):
                coordinates: dict[Name, Term] = {Coordinate(node.payload, j): a for j, a in enumerate(node.args)}
                index = [self._index(g, labels, placed, coordinates) for g in groups.operands[node.payload]]
                return t.load(node.payload, index, node.dtype)
            return None

        body = transform(operator.kind.body, rename)
        inputs = [reshaped(x, groups.shape(dims)) for x, dims in zip(operands, groups.operands, strict=True)]
        reduce += [as_extent(extent) for extent in operator.kind.idle]
        combiner = operator.kind.combiner if reduce else None
        return Compute(inputs, shape, body, tuple(reduce), combiner, tag, operator.kind.ordered)

    def _index(
        self,
        group: tuple[int, ...],
        labels: Sequence[Label],
        placed: dict[tuple[int, ...], Term],
        coordinates: dict[Name, Term],
    ) -> Term:
        if not group:
            return t.index_const(0)
        if len(group) == 1 and labels[group[0]].name in coordinates:
            return coordinates[labels[group[0]].name]
        return placed[group]

    def _groups(self, form: Form, operands: Sequence[Tensor], wanted: Shape | None) -> Groups:
        """The labels of each dimension: as in a shape that is there already where it fits, else one label each."""
        if len(operands) == 1 and set(form.outputs[0]) < set(form.operands[0]):
            return fit_reduced(form, operands[0].shape) or plain(form)
        found = self._product(form, operands, wanted)
        if found is not None:
            return found
        candidates = [x for x in (wanted, *(o.shape for o in operands)) if x is not None]
        for shape in candidates:
            found = fit(form, shape, operands)
            if found is not None:
                return found
        return plain(form)

    def _product(self, form: Form, operands: Sequence[Tensor], wanted: Shape | None) -> Groups | None:
        """The dimensions of a matrix product, where the target has such an operator."""
        made = product_of(form) if self.operators else None
        if made is None:
            return None
        shapes = (() if wanted is None else (wanted,), product_shapes(form, made, operands))
        found = (product_groups(form, made, shape, operands) for some in shapes for shape in some)
        return next((groups for groups in found if groups is not None), None)


def _originals(encoded: Encoded, snapshot: Snapshot) -> dict[tuple[int, tuple[ClassId, ...]], Written]:
    """The nodes of the program by their form and the classes of its operands."""
    views = {(base, m): c for c, found in snapshot.nodes.views.items() for base, m in found}
    result: dict[tuple[int, tuple[ClassId, ...]], Written] = {}
    for form, nodes in encoded.written.items():
        maps = encoded.interned.forms[form].operand_maps
        for written in (w for w in nodes if not w.wider):
            classes = [snapshot.values[v] for v in written.values]
            result.setdefault((form, tuple(views.get((c, m), c) for c, m in zip(classes, maps, strict=True))), written)
    return result
