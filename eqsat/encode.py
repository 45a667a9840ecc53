"""Loading a program: every tensor becomes (value, layout), the value in normal form, so that no layout that an operator
can absorb ever enters the e-graph and equal data meet whatever their layouts are."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from eqsat.ir import term as t
from eqsat.ir.dtypes import NDArray
from eqsat.ir.flat_facts import is_bijective, split_core
from eqsat.ir.flat_map import FlatMap, identity
from eqsat.ir.flat_ops import compose, compose_parts
from eqsat.ir.flat_split import maps_of_view
from eqsat.ir.flat_table import Map, TableMap
from eqsat.ir.size_terms import shape_size
from eqsat.ir.tensor import Compute, Constant, Input, Node, Opaque, Program, Tensor, View
from eqsat.ir.term import Term
from eqsat.labels import Labelled, Signed, finish, of_compute, of_opaque
from eqsat.selections import is_selection, merged, part, selection_operand_sizes
from eqsat.universe import Form, Hub, Leaf, Typed, Universe, ViewOf


@dataclass(frozen=True)
class Placed:
    """A tensor: a value and the layout in which the tensor shows it (tensor = View(value, layout), flat)."""

    value: int
    layout: Map


@dataclass
class Encoded:
    """A program in normal form: where each tensor went, the original spelling of each operator, and the leaves."""

    universe: Universe
    program: Program
    placed: dict[tuple[int, int], Placed] = field(default_factory=dict[tuple[int, int], Placed])
    spelled: dict[int, list[Form]] = field(default_factory=dict[int, list[Form]])
    nodes: list[Node] = field(default_factory=list[Node])
    leaves: dict[int, Tensor] = field(default_factory=dict[int, Tensor])
    accesses: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    cuts: int = 0
    _like: dict[object, int] = field(default_factory=dict[object, int])

    def like(self, signed: int) -> int:
        """The number of a node of the program with the same kind as an operator in normal form."""
        return self._like[self.universe.signed[signed].kind]

    def note(self, signed: int, origin: int, accesses: list[int]) -> None:
        """Remember how an operator was spelled in the program."""
        self._like.setdefault(self.universe.signed[signed].kind, origin)
        self.accesses[origin] = accesses


def encode(program: Program) -> Encoded:
    """Read a program into a fresh universe."""
    result = Encoded(Universe(), program)
    for node in program.nodes():
        result.nodes.append(node)
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
    if isinstance(node, Input):
        name = f"input {node.name}"
    else:
        digest = blake2b(node.array.reshape(-1).view(np.uint8).data, digest_size=16).hexdigest()
        name = f"constant {dtype} {digest} {node.array.size}"
    number = e.universe.value(Leaf(name), Typed(size, dtype))
    if isinstance(node, Constant):
        same = _uniform(node.array)
        if same is not None:
            e.universe.constants[number] = same
    e.leaves.setdefault(number, Tensor(node))
    e.placed[node.serial, 0] = Placed(number, identity(size))


def _uniform(array: NDArray) -> Term | None:
    """The one value, bit by bit, of all elements of an array."""
    if not array.size:
        return None
    flat = array.reshape(-1)
    words = flat.view(f"u{flat.dtype.itemsize}")
    if words[0] != words[-1] or bool(np.any(words != words[0])):
        return None
    return t.const(flat[0], array.dtype)


def _view(e: Encoded, node: View) -> None:
    source = e.placed[node.source.key]
    dtype = node.source.dtype
    maps, fill = maps_of_view(node), node.fill
    if maps is None or (not all(m.is_total for m in maps) and (fill is None or fill.op != "const")):
        _operator(e, node, _as_formula(node))
        return
    for m in maps:
        source = place(e, source, m, None if m.is_total else fill, dtype)
    e.placed[node.serial, 0] = source


def place(e: Encoded, source: Placed, m: Map, fill: Term | None, dtype: str) -> Placed:
    """The view by m (padding with fill) of a placed tensor."""
    u = e.universe
    if is_bijective(m):
        whole = compose(source.layout, m)
        if whole is not None:
            return Placed(source.value, whole)
        cut = _cut(e, source, dtype)
        return Placed(cut, m)
    base = _selected(e, source, m)
    if base is not None:
        return place(e, base[0], base[1], fill, dtype)
    base = source
    while True:
        whole = compose(base.layout, m)
        if whole is None or _loses_digits(base.layout, m, whole):
            base = Placed(_cut(e, base, dtype), identity(m.n_in))
            whole = m
        merged = _through(e, base.value, whole, fill)
        if merged is None:
            break
        base, m, fill = merged
        if is_bijective(m):
            return Placed(base.value, m)
    core, layout = split_core(whole)
    value = u.value(ViewOf(base.value, u.reindex(core, fill, dtype)), Typed(core.n_out, dtype))
    return Placed(value, layout)


def _selected(e: Encoded, source: Placed, m: Map) -> tuple[Placed, Map] | None:
    """A view of a concatenation that reads one part alone, as a view of that part."""
    item = e.universe.values[source.value]
    if not isinstance(item, Hub) or not is_selection(e.universe.signed[item.signed]):
        return None
    signed = e.universe.signed[item.signed]
    whole, sizes = compose(source.layout, m), selection_operand_sizes(signed)
    found = None if whole is None or sizes is None else part(signed, sizes, whole)
    if found is None:
        return None
    return Placed(item.operands[found[0]], identity(found[1].n_in)), found[1]


def _merged(e: Encoded, signed: Signed, values: list[int], dtype: str) -> Placed | None:
    """A selection over views of one value, as one view of it."""
    u = e.universe
    chains = [_roots(u, v) for v in values]
    for root in chains[0]:
        maps = [chain.get(root) for chain in chains]
        if all(m is not None for m in maps):
            m = merged(signed, [m for m in maps if m is not None])
            if m is not None:
                return place(e, Placed(root, identity(m.n_in)), m, None, dtype)
    return None


def _roots(u: Universe, value: int) -> dict[int, Map]:
    """The values that a value is a view of (itself first), with the view."""
    size = u.types[value].size
    found: dict[int, Map] = {value: identity(size)}
    item = u.values[value]
    m: Map = found[value]
    while isinstance(item, ViewOf):
        whole = compose(u.reindexes[item.reindex].map, m)
        if whole is None or u.reindexes[item.reindex].fill is not None:
            break
        found[item.base] = m = whole
        item = u.values[item.base]
    return found


def _through(e: Encoded, value: int, m: Map, fill: Term | None) -> tuple[Placed, Map, Term | None] | None:
    """A view of a view as one view of the inner source, where one fill tells all padded cells (law: compose)."""
    inner = e.universe.values[value]
    if not isinstance(inner, ViewOf):
        return None
    reindex = e.universe.reindexes[inner.reindex]
    found = compose_parts(reindex.map, m)
    if found is None or _loses_digits(reindex.map, m, found.map):
        return None
    if found.outer_pads and found.inner_pads and reindex.fill is not fill:
        return None
    chosen = fill if found.outer_pads else reindex.fill
    return Placed(inner.base, identity(found.map.n_in)), found.map, chosen


def _loses_digits(f: Map, g: Map, whole: Map) -> bool:
    """Whether two digit maps compose to a table: both together say more than that."""
    return isinstance(whole, TableMap) and isinstance(f, FlatMap) and isinstance(g, FlatMap)


def _cut(e: Encoded, source: Placed, dtype: str) -> int:
    """Make a layout a value of its own: what lies behind is not looked through."""
    if source.layout.is_identity:
        return source.value
    e.cuts += 1
    u = e.universe
    return u.value(ViewOf(source.value, u.reindex(source.layout, None, dtype)), Typed(source.layout.n_out, dtype))


def _as_formula(node: View) -> Labelled:
    """A View as the formula where(valid, source[gather], fill) (law: load of a View)."""
    shape, dtype = node.outputs[0]
    inside = t.load(0, node.gather, dtype)
    body = inside if node.fill is None else t.where(node.valid, inside, node.fill)
    return of_compute(Compute(node.operands, shape, body))


def _operator(e: Encoded, node: Node, labelled: Labelled) -> None:
    """Absorb the layouts of all operands into the labels (law: absorb), and intern the operator's values."""
    u = e.universe
    values: list[int] = []
    for k, access in enumerate(labelled.accesses):
        tensor = node.operands[access]
        source = e.placed[tensor.key]
        value = source.value
        if not source.layout.is_identity:
            trial = labelled.copy()
            found = trial.arrange(trial.operands[k], source.layout)
            if found is None:
                value = _cut(e, source, tensor.dtype)
            else:
                trial.operands[k] = found
                labelled = trial
        values.append(value)
    done = finish(labelled)
    if is_selection(done.signed):
        one = _merged(e, done.signed, values, node.outputs[0][1])
        if one is not None:
            e.placed[node.serial, 0] = place(e, one, done.output_maps[0], None, node.outputs[0][1])
            return
    number = u.signed.number(done.signed)
    dtypes = [u.types[v].dtype for v in values]
    form = Form(
        number, done.labels, done.operands, done.outputs,
        tuple(u.reindex(m, None, d) for m, d in zip(done.operand_maps, dtypes, strict=True)),
        tuple(u.reindex(m, None, d) for m, (_, d) in zip(done.output_maps, node.outputs, strict=True)),
        len(e.nodes) - 1,
    )  # fmt: skip
    e.spelled.setdefault(number, []).append(form)
    e.note(number, len(e.nodes) - 1, labelled.accesses)
    for k, layout in enumerate(done.output_maps):
        typed = Typed(layout.n_out, node.outputs[k][1])
        e.placed[node.serial, k] = Placed(u.value(Hub(number, k, tuple(values)), typed), layout)
