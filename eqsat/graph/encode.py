"""Loading a program: every tensor becomes (value, layout), the value in normal form, so that no layout that an operator
can absorb ever enters the e-graph and equal data meet whatever their layouts are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np

from eqsat.formulas import as_formula
from eqsat.ir import clock
from eqsat.ir.dtypes import NDArray, has_floats
from eqsat.ir.fast import fast_paths
from eqsat.ir.flat.facts import is_permutation, split_core
from eqsat.ir.flat.formula import composed
from eqsat.ir.flat.map import FlatMap, identity
from eqsat.ir.flat.size_terms import as_extent, shape_size
from eqsat.ir.flat.sizes import Size, at_most, mul
from eqsat.ir.flat.split import maps_of_view
from eqsat.ir.flat.table import Map
from eqsat.ir.flat.term_map import TermMap
from eqsat.ir.law import Law
from eqsat.ir.rule import Rule
from eqsat.ir.tensors.tensor import Compute, Constant, Input, Node, Opaque, Program, Tensor, View, constant
from eqsat.ir.tensors.views import broadcast_to, put_back
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import same_shape
from eqsat.ir.terms.term import Term
from eqsat.operators import algebra
from eqsat.operators.bundles import keeps_place, of_opaque
from eqsat.operators.interned import Form, Hub, Interned, Leaf, Reindex, ValueType, ViewOf
from eqsat.operators.labels import CanonicalOp, Name, OpaqueKind, OpBuilder, canonicalise, of_compute
from eqsat.operators.moves import applied, is_pointwise
from eqsat.operators.round_trips import MOST_STEPS, SMALL, Chain, formula_of, is_plain
from eqsat.operators.selections import merged, part, selection_operand_sizes
from eqsat.operators.stacks import is_selection, of_kind
from eqsat.operators.within import labels_of
from eqsat.proving.rules import normaliser
from eqsat.rewriting.rewrite import RuleStep, Session


@dataclass(frozen=True)
class LaidOut:
    """A tensor: a value and the layout in which the tensor shows it (tensor = View(value, layout), flat)."""

    value: int
    layout: Map


@dataclass(frozen=True)
class Written:
    """A node of the program: the values of the operands of its form, and which operand of the node each is; `wider`:
    its operands have further axes, along which they are copies."""

    node: Node
    values: tuple[int, ...]
    accesses: tuple[int, ...]
    wider: bool = False


@dataclass
class Encoded:
    """A program in normal form: where each tensor went, the operators (by form) and views (by map) as written, and the
    leaves."""

    interned: Interned
    program: Program
    placed: dict[tuple[int, int], LaidOut] = field(default_factory=dict[tuple[int, int], LaidOut])
    written: dict[int, list[Written]] = field(default_factory=dict[int, list[Written]])
    views: dict[int, list[View]] = field(default_factory=dict[int, list[View]])
    viewed: dict[tuple[tuple[int, int], int], tuple[int, int]] = field(
        default_factory=dict[tuple[tuple[int, int], int], tuple[int, int]]
    )
    """What the views are between: of a value in a layout, by a map, a value in a layout."""
    same: list[tuple[tuple[int, int], tuple[int, int]]] = field(
        default_factory=list[tuple[tuple[int, int], tuple[int, int]]]
    )
    """Values in layouts that are the same by what the program says of its inputs."""
    leaves: dict[int, Tensor] = field(default_factory=dict[int, Tensor])
    cuts: int = 0
    laws: Counter[str] = field(default_factory=Counter[str])
    """How often each law was used to bring the program into normal form."""
    allowed: frozenset[str] | None = None
    """The laws that may be used for that (None: all)."""
    rules: tuple[Rule, ...] = ()
    """Rules of a user about scalars, beside ours."""
    assumed: bool = False
    """Whether cropped cells hold what the program says that they do (`cropped_value=`)."""
    frozen: frozenset[int] = frozenset()
    """The nodes, by their serials, that stay operators of their own, as the program spells them."""

    def may(self, law: str) -> bool:
        """Whether a law of the graph may be applied while the program is loaded."""
        return fast_paths() and (self.allowed is None or law in self.allowed)

    _like: dict[object, dict[int, Written]] = field(default_factory=dict[object, "dict[int, Written]"])
    _nearest: dict[int, tuple[int, Written]] = field(default_factory=dict[int, tuple[int, Written]])
    _spelled: dict[int, Written] = field(default_factory=dict[int, Written])

    def like(self, operator: int) -> Node:
        """A node of the program with the same kind as an operator in normal form, or of which it is a part."""
        return next(iter(of_kind(self._like, self.interned.operators[operator].kind).values())).node

    def spelled(self, operator: int) -> Written:
        """A node of the program that is an operator in normal form, or one over other extents of its axes: the one with
        the fewest others, larger ones if there is a choice."""
        if operator in self._spelled:
            return self._spelled[operator]
        alike = of_kind(self._like, self.interned.operators[operator].kind)
        if self._nearest.get(operator, (0, None))[0] != len(alike):
            wanted = self._extents(operator)

            def others(item: tuple[int, Written]) -> tuple[int, int]:
                held = self._extents(item[0])
                small = sum(not at_most(d, held.get(name, 1)) for name, d in wanted.items())
                return small, sum(d != held.get(name, 1) for name, d in wanted.items())

            self._nearest[operator] = len(alike), min(alike.items(), key=others)[1]
        return self._nearest[operator][1]

    def _extents(self, operator: int) -> dict[Name, Size]:
        """The positions of each bundle of an operator."""
        item, found = self.interned.operators[operator], dict[Name, Size]()
        for n in labels_of(item):
            found[item.labels[n].name] = mul(found.get(item.labels[n].name, 1), item.labels[n].extent)
        return found

    def is_cut(self, operator: int) -> bool:
        """Whether the program has an operator over other extents of its axes alone."""
        return operator not in self._spelled

    def in_place(self, form: Form) -> bool:
        """Whether an operator without a formula has its dimensions as in the program, in a form."""
        kind = self.interned.operators[form.operator].kind
        return isinstance(kind, OpaqueKind) and keeps_place(kind, form.labels, (*form.operands, *form.outputs))

    def note(self, form: int, written: Written) -> None:
        """Remember that the program spells an operator in this form."""
        operator = self.interned.forms[form].operator
        self._spelled.setdefault(operator, written)
        kind = self.interned.operators[operator].kind
        self._like.setdefault(kind, {}).setdefault(operator, written)
        self.written.setdefault(form, []).append(written)


def encode(
    program: Program,
    laws: Iterable[Law] | None = None,
    rules: tuple[Rule, ...] = (),
    frozen: frozenset[int] = frozenset(),
    assumed: bool = False,
    pad_values: tuple[float, ...] = (),
) -> Encoded:
    """Read a program into fresh tables, in the normal form that some laws (default: all), and rules of a user
    beside ours, give it; frozen: the nodes that stay as they are; assumed: cropped cells hold what the program says;
    pad_values: more numbers to try as padding of operands."""
    allowed = None if laws is None else frozenset(law.name for law in laws)
    result = Encoded(
        Interned(pad_values=pad_values), program, allowed=allowed, rules=rules, assumed=assumed, frozen=frozen
    )
    for node in program.nodes():
        clock.check()
        if isinstance(node, (Input, Constant)):
            _leaf(result, node)
        elif isinstance(node, View):
            _view(result, node)
        elif isinstance(node, Compute):
            _operator(result, node, of_compute(node))
        else:
            assert isinstance(node, Opaque)
            _operator(result, node, of_opaque(node))
    return result


def _leaf(e: Encoded, node: Input | Constant) -> None:
    shape, dtype = node.outputs[0]
    size = shape_size(shape)
    same = _uniform(node.array) if isinstance(node, Constant) else None
    if same is not None:
        e.placed[node.serial, 0] = _filled(e, same, size, Tensor(node))
        return
    if isinstance(node, Input):
        name = f"input {node.name}"
    else:
        digest = blake2b(node.array.reshape(-1).view(np.uint8).data, digest_size=16).hexdigest()
        name = f"constant {dtype} {digest} {node.array.size}"
    number = e.interned.value(Leaf(name), ValueType(size, dtype))
    if isinstance(node, Constant) and not (has_floats(node.array) and not bool(np.isfinite(node.array).all())):
        e.interned.finite.add(number)
    e.leaves.setdefault(number, Tensor(node))
    e.placed[node.serial, 0] = LaidOut(number, identity(size))


def _filled(e: Encoded, value: Term, size: Size, tensor: Tensor | None = None) -> LaidOut:
    """The leaf that holds one value in every cell, as a tensor that has it or as a broadcast of a scalar."""
    number = e.interned.value(Leaf(f"{value.digest.hex()} in {size} cells"), ValueType(size, value.dtype))
    e.interned.constants[number] = value
    if number not in e.leaves:
        scalar = constant(t.const_value(value), value.dtype)
        e.leaves[number] = broadcast_to(scalar, (as_extent(size),)) if tensor is None else tensor
    return LaidOut(number, identity(size))


def _uniform(array: NDArray) -> Term | None:
    """The one value, bit by bit, of all elements of an array."""
    if not array.size:
        return None
    flat = array.reshape(-1)
    words = flat.view(f"u{flat.dtype.itemsize}")
    if words[0] != words[-1] or bool(np.any(words != words[0])):
        return None
    return t.const(flat[0], array.dtype)


def _same_shapes(a: View, b: View) -> bool:
    return same_shape(a.source.shape, b.source.shape) and same_shape(a.outputs[0][0], b.outputs[0][0])


def _view(e: Encoded, node: View) -> None:
    source = e.placed[node.source.key]
    dtype = node.source.dtype
    maps, fill = maps_of_view(node), node.fill
    if maps is None or any(isinstance(m, TermMap) for m in maps):
        maps = _simplified(e, node) or maps
    if maps is None or (not all(m.is_total for m in maps) and (fill is None or fill.op != "const")):
        _operator(e, node, of_compute(as_formula(node)))
        return
    before = source
    for m in maps:
        source = place(e, source, m, None if m.is_total else fill, dtype)
    if len(maps) == 1 and not maps[0].is_identity and e.interned.scalar(source.value) is None:
        u, number = e.interned, e.interned.reindex(maps[0], fill, dtype)
        known = e.views.setdefault(number, [])
        if not any(_same_shapes(x, node) for x in known):  # of equal blocks, one tells all
            known.append(node)
        ends = [(x.value, u.reindex(x.layout, None, dtype)) for x in (before, source)]
        e.viewed[ends[0], number] = ends[1]
    e.placed[node.serial, 0] = source
    if e.assumed:
        _put_back(e, node)


def _put_back(e: Encoded, node: View) -> None:
    """What is cropped is the tensor once it is padded with what the program says that the cropped cells hold."""
    back = put_back(node)
    maps = None if back is None else maps_of_view(back)
    if back is None or maps is None or len(maps) != 1 or isinstance(maps[0], TermMap):
        return
    u, dtype = e.interned, node.source.dtype
    part, whole = e.placed[node.serial, 0], e.placed[node.source.key]
    padded = place(e, part, maps[0], back.fill, dtype)
    one, other = ((x.value, u.reindex(x.layout, None, dtype)) for x in (padded, whole))
    e.same.append((one, other))


def _simplified(e: Encoded, node: View) -> tuple[Map, ...] | None:
    """The maps of a view whose index formulas are no digits as written, but by the rules about scalars."""
    log: list[RuleStep] = []
    session = Session(normaliser(e.rules))
    gather, valid = [session.normal(g, log) for g in node.gather], session.normal(node.valid, log)
    if not log:
        return None
    found = maps_of_view(View(node.source, node.outputs[0][0], gather, valid, node.fill, node.tag))
    if found is None or any(isinstance(m, TermMap) for m in found):
        return None
    e.laws.update(step.rule for step in log)
    return found


def place(e: Encoded, source: LaidOut, m: Map, fill: Term | None, dtype: str) -> LaidOut:
    """The view by m (padding with fill) of a placed tensor."""
    u = e.interned
    one = _one_value(e, source, m, fill)
    if one is not None:
        e.laws["pad-of-crop"] += 1
        return _filled(e, one, m.n_out)
    if is_permutation(m):
        whole = composed(source.layout, m)
        if whole is not None:
            e.laws["compose"] += not source.layout.is_identity
            return LaidOut(source.value, whole)
        e.cuts += not isinstance(source.layout, FlatMap)
        return LaidOut(_cut(e, source, dtype), m)
    base = _selected(e, source, m)
    if base is not None:
        e.laws["select-part"] += 1
        return place(e, base[0], base[1], fill, dtype)
    base = source
    while True:
        whole = composed(base.layout, m)
        if whole is None or loses_digits(base.layout, m, whole):
            e.cuts += whole is None and not (isinstance(base.layout, FlatMap) and isinstance(m, FlatMap))
            base = LaidOut(_cut(e, base, dtype), identity(m.n_in))
            whole = m
        merged = _through(e, base.value, whole, fill)
        if merged is None:
            break
        e.laws["compose"] += 1
        base, m, fill = merged
        if is_permutation(m):
            return LaidOut(base.value, m)
    core, layout = split_core(whole)
    value = u.value(ViewOf(base.value, u.reindex(core, fill, dtype)), ValueType(core.n_out, dtype))
    return LaidOut(value, layout)


def _one_value(e: Encoded, source: LaidOut, m: Map, fill: Term | None) -> Term | None:
    """The value of every cell of a view that reads nothing, or nothing but that value.

    Without it a search would find all the maps by which such a tensor is a view of itself.
    """
    if not e.may("pad-of-crop") or m.n_out == 0:
        return None
    if m.is_all_padding:
        return fill
    held = e.interned.scalar(source.value)
    return held if m.is_total or held is fill else None


def _selected(e: Encoded, source: LaidOut, m: Map) -> tuple[LaidOut, Map] | None:
    """A view of a concatenation that reads one part alone, as a view of that part."""
    item = e.interned.values[source.value]
    if not e.may("select-part") or not isinstance(item, Hub) or not is_selection(e.interned.operators[item.operator]):
        return None
    operator = e.interned.operators[item.operator]
    if operator.kind.identity:
        return None
    whole, sizes = composed(source.layout, m), selection_operand_sizes(operator)
    found = None if whole is None or sizes is None else part(operator, sizes, whole)
    if found is None:
        return None
    return LaidOut(item.operands[found[0]], identity(found[1].n_in)), found[1]


def _merged(e: Encoded, operator: CanonicalOp, values: list[int], dtype: str) -> LaidOut | None:
    """A selection over views of one value, as one view of it."""
    u = e.interned
    chains = [_roots(u, v) for v in values]
    for root in chains[0]:
        maps = [chain.get(root) for chain in chains]
        if all(m is not None for m in maps):
            m = merged(operator, [m for m in maps if m is not None])
            if m is not None:
                return place(e, LaidOut(root, identity(m.n_in)), m, None, dtype)
    return None


def _roots(u: Interned, value: int) -> dict[int, Map]:
    """The values that a value is a view of (itself first), with the view."""
    size = u.types[value].size
    found: dict[int, Map] = {value: identity(size)}
    item = u.values[value]
    m: Map = found[value]
    while isinstance(item, ViewOf):
        whole = composed(u.reindexes[item.reindex].map, m)
        if whole is None or u.reindexes[item.reindex].fill is not None:
            break
        found[item.base] = m = whole
        item = u.values[item.base]
    return found


def _through(e: Encoded, value: int, m: Map, fill: Term | None) -> tuple[LaidOut, Map, Term | None] | None:
    """A view of a view as one view of the inner source, where one fill tells all padded cells (law: compose)."""
    inner = e.interned.values[value]
    if not e.may("compose") or not isinstance(inner, ViewOf):
        return None
    u = e.interned
    first, then = u.reindexes[inner.reindex], Reindex(m, fill, u.types[value].dtype)
    found = algebra.compose(first, then)
    if found is None or loses_digits(first.map, m, found.map):
        return None
    return LaidOut(inner.base, identity(found.map.n_in)), found.map, found.fill


def loses_digits(f: Map, g: Map, whole: Map) -> bool:
    """Whether two digit maps compose to none: both together say more than that."""
    return not isinstance(whole, FlatMap) and isinstance(f, FlatMap) and isinstance(g, FlatMap)


def _cut(e: Encoded, source: LaidOut, dtype: str) -> int:
    """Make a layout a value of its own: what lies behind is not looked through."""
    if source.layout.is_identity:
        return source.value
    u = e.interned
    item = u.values[source.value]
    if isinstance(item, ViewOf):  # the layout of a view is one view, too, which the program may have with the next one
        inner = u.reindexes[item.reindex]
        whole = composed(inner.map, source.layout)
        if isinstance(whole, FlatMap):
            start = item.base, u.identity(u.types[item.base].size, dtype)
            end = source.value, u.reindex(source.layout, None, dtype)
            e.viewed[start, u.reindex(whole, inner.fill, dtype)] = end
    return u.value(ViewOf(source.value, u.reindex(source.layout, None, dtype)), ValueType(source.layout.n_out, dtype))


def _operator(e: Encoded, node: Node, labelled: OpBuilder) -> None:
    """Absorb the layouts of all operands into the labels (law: absorb), and intern the operator's values."""
    u = e.interned
    if node.serial in e.frozen:
        labelled.kind = replace(labelled.kind, identity=node.serial)
    values: list[int] = []
    wider = False
    for k, access in enumerate(labelled.accesses):
        tensor = node.operands[access]
        source = e.placed[tensor.key]
        value = source.value
        narrow = None if node.serial in e.frozen else _without_copies(e, labelled, k, source)
        if narrow is not None:
            (labelled, value), wider = narrow, True
            e.laws["absorb"] += 1
        elif not source.layout.is_identity:
            trial = labelled.copy()
            found = trial.arrange(trial.operands[k], source.layout)
            if found is None:
                value = _cut(e, source, tensor.dtype)
            else:
                trial.operands[k] = found
                labelled = trial
                e.laws["absorb"] += 1
        values.append(value)
    done = canonicalise(labelled)
    own = done.operator.kind.identity != 0
    if not own and e.may("select-of-views") and is_selection(done.operator):
        one = _merged(e, done.operator, values, node.outputs[0][1])
        if one is not None:
            e.laws["select-of-views"] += 1
            e.placed[node.serial, 0] = place(e, one, done.output_maps[0], None, node.outputs[0][1])
            return
    held = [u.scalar(v) for v in values]
    if not own:
        one = _given_back(e, node, done.operator, values)
        if one is not None:
            e.laws["round-trip"] += 1
            e.placed[node.serial, 0] = place(e, one, done.output_maps[0], None, node.outputs[0][1])
            return
    if not own and e.may("pull-pad") and held and len(done.operator.outputs) == 1 and is_pointwise(done.operator):
        one = applied(done.operator, [h for h in held if h is not None])
        if one is not None:
            e.laws["pull-pad"] += 1
            e.placed[node.serial, 0] = _filled(e, one, shape_size(node.outputs[0][0]))
            return
    number = u.operators.number(done.operator)
    dtypes = [u.types[v].dtype for v in values]
    form = u.forms.number(Form(
        number, done.labels, done.operands, done.outputs,
        tuple(u.reindex(m, None, d) for m, d in zip(done.operand_maps, dtypes, strict=True)),
        tuple(u.reindex(m, None, d) for m, (_, d) in zip(done.output_maps, node.outputs, strict=True)),
    ))  # fmt: skip
    e.note(form, Written(node, tuple(values), tuple(labelled.accesses), wider))
    for k, layout in enumerate(done.output_maps):
        typed = ValueType(layout.n_out, node.outputs[k][1])
        e.placed[node.serial, k] = LaidOut(u.value(Hub(number, k, tuple(values)), typed), layout)


def _given_back(e: Encoded, node: Node, operator: CanonicalOp, values: Sequence[int]) -> LaidOut | None:
    """A view of the value that element-wise operators, of which this is the last, all together give back, whatever
    views are between them; None where they give back none."""
    u, dtype = e.interned, node.outputs[0][1]
    if dtype not in SMALL:
        return None
    chain, whole = Chain(dtype), None
    for _ in range(MOST_STEPS):
        found = formula_of(operator, node)
        if found is None:
            break
        formula, order = found
        held = [u.scalar(values[k]) for k in order]
        if not is_plain((formula, held)):
            break
        chain.start_with((formula, held))
        number = next(k for k, x in zip(order, held, strict=True) if x is None)
        value, m = list(_roots(u, values[number]).items())[-1]
        whole = m if whole is None else composed(m, whole)
        if whole is None:
            break
        if u.types[value].dtype == dtype:
            same = chain.gives_back()
            if same:
                return place(e, LaidOut(value, identity(whole.n_in)), whole, None, dtype)
            if same is None:
                break
        item = u.values[value]
        if not isinstance(item, Hub):
            break
        operator, values, node = u.operators[item.operator], item.operands, e.spelled(item.operator).node
    return None


def _without_copies(e: Encoded, op: OpBuilder, k: int, source: LaidOut) -> tuple[OpBuilder, int] | None:
    """An operator that reads, in place of copies of a value along axes that other operands have too, the value."""
    item = e.interned.values[source.value]
    if not isinstance(item, ViewOf) or not op.repeats_for_nothing:
        return None
    whole = composed(e.interned.reindexes[item.reindex].map, source.layout)
    if not isinstance(whole, FlatMap) or not whole.is_total:
        return None
    trial = op.copy()
    return (trial, item.base) if trial.drop_copies(k, whole) else None
