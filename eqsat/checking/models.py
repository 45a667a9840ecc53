"""Checking an optimised ONNX model against the model it was made of: changed regions are proved or run."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TypeProto, ValueInfoProto

from eqsat.checking.axes import Space, space_of
from eqsat.checking.draws import seed_of
from eqsat.checking.drive import ATTEMPTS, RegionRun, Sides, drive
from eqsat.checking.graph import Type, Vertex
from eqsat.checking.model_graph import MOVES, Contents, Unit, array_of, inferred, subgraphs, unit_of, unknown_sizes
from eqsat.checking.model_names import Names, names_of, unchecked_names
from eqsat.checking.model_run import Fed, Small, compare, small_model, strays
from eqsat.checking.model_shapes import elsewhere
from eqsat.checking.model_symbolic import proved
from eqsat.checking.part import Impossible
from eqsat.checking.plan import Region
from eqsat.checking.sizes import LARGER
from eqsat.checking.verdict import Checked, CheckFailure, Difference, now

HEAVY = frozenset(
    (
        "Conv",
        "ConvTranspose",
        "MatMul",
        "FusedMatMul",
        "Gemm",
        "Einsum",
        "LSTM",
        "GRU",
        "RNN",
        "QLinearConv",
        "QLinearMatMul",
    )
)
PRODUCTS = frozenset(("MatMul", "FusedMatMul", "Gemm", "QLinearMatMul"))
CELLS_PER_SECOND = 3e8
START = 2.5e-3
"""Seconds that two sessions take to start."""
CUTS = 8
"""How often regions are planned anew where they are cut at values that only look alike."""
MODEL_SIZES = 2
"""How many larger sizes are tried where the original fails at small ones: windows do not fit, say."""
EQUAL = 24
"""What all sizes are then: extents of several inputs must be equal, or multiples of a number of heads."""
EVEN = 32
"""What sizes are multiples of after that: what networks halve several times must be so before halves fit."""
CHEAP = 0.01
"""Seconds that are spent on a region whatever is left."""


def check_models(before: ModelProto, after: ModelProto, seconds: float = 10.0) -> Checked:
    """Does `after` mean what `before` means? Each changed region alone, within a budget of seconds.

    Models with sizes that are not numbers are checked at several sizes: those at which `before` itself keeps to the
    ranks that it declares, on which readers may rely, and of the empty ones to the extents of its outputs.

    >>> from eqsat.nets import conv_chain
    >>> check_models(conv_chain(), conv_chain()).summary().split(" (")[0]
    'nothing was changed'
    """
    return check_and_names(before, after, seconds)[0]


def check_and_names(before: ModelProto, after: ModelProto, seconds: float) -> tuple[Checked, Names]:
    """As `check_models`, with what of `before` is kept in `after`."""
    begun = now()
    problem = interface(before, after)
    if problem is not None:
        return Checked((), now() - begun, problem), Names()
    names = list(dict.fromkeys(name for _, _, name in unknown_sizes(before)))
    every: list[dict[str, int]] = [{n: 2 + k for k, n in enumerate(names)}]
    if names:  # one and none are where shapes go wrong
        every += [dict.fromkeys(names, 1), dict.fromkeys(names, 0)]
    contents = Contents()
    found: Checked | None = None
    kept = Names()
    count = 0
    for k, sizes in enumerate(every):
        left = (seconds - (now() - begun)) / (len(every) - k)
        answer = _at(before, after, sizes, contents, left)
        if answer is None:
            continue
        checked, own = answer
        if checked.difference is not None and 0 in sizes.values() and strays((before, after), _fixed(before, sizes)):
            continue
        count += 1
        kept = own if found is None else kept
        if found is None or checked.difference is not None:
            found = checked
        if found.difference is not None or found.skipped:
            break
    if found is None:
        text = "at all sizes tried, the model has other ranks than it declares"
        return Checked((), now() - begun, None, text), unchecked_names(before, after)
    larger = [dict.fromkeys(names, EQUAL), {n: EVEN * (1 + k % 2) for k, n in enumerate(names)}]
    larger += [{n: size + 3 * k for k, n in enumerate(names)} for size in LARGER[:MODEL_SIZES]]
    for sizes in larger if names else ():
        left = seconds - (now() - begun)
        if found.difference is not None or not _left_out(found) or left <= 0:
            break
        answer = _at(before, after, sizes, contents, left)
        if answer is not None and (answer[0].difference is not None or _left_out(answer[0]) < _left_out(found)):
            found, kept = answer
            count += 1
    regions = found.regions
    if len(every) > 1:
        where = f"at {count} size{'s' * (count > 1)}"
        regions = tuple(
            replace(r, verdict="run", reason=f"{r.reason}, {where}") if r.verdict != "neither" else r for r in regions
        )
    return replace(found, regions=regions, seconds=now() - begun), kept


def _at(
    before: ModelProto, after: ModelProto, sizes: Mapping[str, int], contents: Contents, seconds: float
) -> tuple[Checked, Names] | None:
    """The check at some sizes; None where the original has other ranks there than it declares."""
    begun = now()
    try:
        types = inferred(before, sizes)
        if _contradicted(before, types):
            return None
        left = unit_of(before, types, contents)
        types = inferred(after, sizes)
        right = unit_of(after, types, contents)
    except CheckFailure as error:
        return Checked((), now() - begun, Difference(error.operation, error.problem)), Names()
    except Exception as error:  # shape inference raises what it likes about models that onnxruntime takes
        text = f"onnx.shape_inference failed: {(str(error).splitlines() or [''])[0][:200]}"
        return Checked((), now() - begun, None, text), unchecked_names(before, after)
    given = max(seconds - (now() - begun), seconds / 2)  # gigabytes are slow to compare
    return _best(left, right, lambda: _in_other_shapes(left, right, types, contents), given)


def _best(left: Unit, right: Unit, cut: Callable[[], Unit | None], seconds: float) -> tuple[Checked, Names]:
    """The comparison that leaves least out: what is too much at once is cut at values that differ in shape alone."""
    done, names = _compared(left, right, seconds)
    if done.difference is not None or not done.count("neither"):
        return done, names
    unit = cut()
    if unit is None:
        return done, names
    again, found = _compared(left, unit, seconds, CUTS)
    if again.difference is not None and again.regions[-1].verdict != "neither":
        return again, found
    # Else values differ that look alike: perhaps they are not meant to be equal.
    better = again.difference is None and _left_out(again) < _left_out(done)
    return (again, found) if better else (done, names)


def _left_out(checked: Checked) -> float:
    """The share of regions that were not compared."""
    if checked.skipped:
        return 1.0
    return checked.count("neither") / max(1, len(checked.regions))


def _in_other_shapes(left: Unit, right: Unit, types: dict[str, TypeProto], contents: Contents) -> Unit | None:
    """The second graph with its values that the first has in other shapes reshaped to these and back; None: no such."""
    shapes = {right.values[value]: dims for value, dims in elsewhere(left.graph, right.graph).items()}
    return unit_of(right.model, types, contents, shapes) if shapes else None


def _compared(left: Unit, right: Unit, seconds: float, attempts: int = ATTEMPTS) -> tuple[Checked, Names]:
    runner = _Runner((left, right))
    sides = Sides(left.graph, right.graph, runner.run, runner.cost, runner.describe)
    done, planner = drive(sides, seconds, attempts)
    if done.difference is not None:
        return done, Names()
    return done, names_of(left, right, planner, not done.count("neither"))


def _contradicted(model: ModelProto, types: Mapping[str, TypeProto]) -> bool:
    """Whether a value has another rank than the model declares."""
    for value in (*model.graph.output, *model.graph.value_info):
        declared, found = (_rank(proto) for proto in (value.type, types.get(value.name)))
        if declared is not None and found is not None and declared != found:
            return True
    return False


def _fixed(model: ModelProto, sizes: Mapping[str, int]) -> dict[tuple[str, int], int]:
    """The extents of inputs that are not numbers, by input and axis, at some sizes."""
    return {(value, axis): sizes[name] for value, axis, name in unknown_sizes(model)}


def _rank(proto: TypeProto | None) -> int | None:
    if proto is None or proto.WhichOneof("value") != "tensor_type" or not proto.tensor_type.HasField("shape"):
        return None
    return len(proto.tensor_type.shape.dim)


# -- the interface ----------------------------------------------------------------------------------------------------


def interface(before: ModelProto, after: ModelProto) -> Difference | None:
    """What differs in names, order, ranks, shapes and types of inputs and outputs; what was not declared may be."""
    for kind, left, right in (
        ("input", _arguments(before), _arguments(after)), ("output", before.graph.output, after.graph.output)
    ):  # fmt: skip
        names = [x.name for x in left], [x.name for x in right]
        if names[0] != names[1]:
            listed = ", ".join(names[1]) or "none"
            return Difference(f"the {kind}s", f"{listed} where {', '.join(names[0])} are expected")
        for x, y in zip(left, right, strict=True):
            problem = _other(x.type, y.type)
            if problem:
                return Difference(f"{kind} {x.name!r}", problem)
    return None


def _arguments(model: ModelProto) -> list[ValueInfoProto]:
    """The inputs that a caller gives or may give."""
    constants = {x.name for x in model.graph.initializer} if model.ir_version < 4 else set[str]()
    return [x for x in model.graph.input if x.name not in constants]


def _other(a: TypeProto, b: TypeProto) -> str:
    if not a.WhichOneof("value"):
        return ""
    if a.WhichOneof("value") != b.WhichOneof("value"):
        return f"a {b.WhichOneof('value')} where a {a.WhichOneof('value')} is expected"
    if a.WhichOneof("value") != "tensor_type":
        return "" if a == b else "another type"
    x, y = a.tensor_type, b.tensor_type
    if x.elem_type and x.elem_type != y.elem_type:
        return f"element type {y.elem_type} where {x.elem_type} is expected"
    if not x.HasField("shape"):
        return ""
    if len(x.shape.dim) != len(y.shape.dim) or not y.HasField("shape"):
        return f"{len(y.shape.dim)} axes where {len(x.shape.dim)} are expected"
    for n, (d, e) in enumerate(zip(x.shape.dim, y.shape.dim, strict=True)):
        if d.HasField("dim_value") and d.dim_value != e.dim_value:
            return f"axis {n} has extent {e.dim_value} where {d.dim_value} is expected"
        if d.dim_param and d.dim_param != e.dim_param:
            return f"axis {n} is {e.dim_param or e.dim_value} where {d.dim_param} is expected"
    return ""


# -- regions ----------------------------------------------------------------------------------------------------------


@dataclass
class _Runner:
    units: tuple[Unit, Unit]

    def cost(self, region: Region) -> float:
        """Seconds that running the region at its own sizes will take, roughly."""
        total = 0.0
        for unit, inside in zip(self.units, (region.before, region.after), strict=True):
            for n in inside:
                vertex = unit.graph.vertices[n]
                if not vertex.leaf:
                    total += _work(vertex, [unit.graph.types[v][0] for v in vertex.operands],
                                   [unit.graph.types[v][0] for v in vertex.outputs])  # fmt: skip
        for b, a in region.boundary:
            total += 4 * _size((self.units[0].graph.types[b] if b >= 0 else self.units[1].graph.types[a])[0])
        return START + 2 * total / CELLS_PER_SECOND

    def shrunk_cost(self, region: Region, space: Space) -> float:
        """The same at shrunk sizes."""
        total = 0.0
        for side, inside in ((0, region.before), (1, region.after)):
            unit = self.units[side]
            for n in inside:
                vertex = unit.graph.vertices[n]
                if not vertex.leaf:
                    shapes = [
                        [_shrunk(space, side, unit.values[v]) for v in some]
                        for some in (vertex.operands, vertex.outputs)
                    ]
                    total += _work(vertex, *shapes)
        return START + 2 * total / CELLS_PER_SECOND

    def moves(self, region: Region) -> bool:
        """Whether the region only moves values."""
        for unit, inside in zip(self.units, (region.before, region.after), strict=True):
            for n in inside:
                vertex = unit.graph.vertices[n]
                if not vertex.leaf and (
                    vertex.source.domain not in ("", "ai.onnx") or vertex.source.op_type not in MOVES
                ):
                    return False
        return True

    def run(self, region: Region, deadline: float) -> RegionRun:
        space: Space | None = None
        for constants in (False, True) if not region.whole else ():
            space = space_of(region, self.units, constants)
            if space is None:
                break
            if proved(region, self.units, space):
                if self.cut_constants(region, space):
                    return RegionRun("run", "the same operations on the same cells, some of a constant")
                return RegionRun("proved", "the same operations on the same cells")
            if self.shrunk_cost(region, space) < CHEAP:
                break
        cost = self.cost(region) if space is None else min(self.cost(region), self.shrunk_cost(region, space))
        left = deadline - now()
        if cost > max(left, CHEAP):
            raise Impossible("region", f"running it takes about {cost:.2f} s, which is over the budget")
        if space is not None and self.cost(region) <= max(cost, CHEAP):
            space = None
        trouble: Impossible | None = None
        for free in (True, False):
            try:
                small = self.small(region, 0, space, free), self.small(region, 1, space, free)
                return compare(small, self.moves(region), deadline)
            except Impossible as error:
                trouble = error
        assert trouble is not None
        raise trouble

    def cut_constants(self, region: Region, space: Space) -> bool:
        """Whether numbers of constants were left out."""
        for side, inside in ((0, region.before), (1, region.after)):
            unit = self.units[side]
            for n in inside:
                vertex = unit.graph.vertices[n]
                if vertex.leaf == "constant" and vertex.content not in region.free and vertex.name in space.axes[side]:
                    dims = unit.graph.types[vertex.outputs[0]][0]
                    if dims is not None and space.shape(side, vertex.name) != dims:
                        return True
        return False

    def small(self, region: Region, side: int, space: Space | None, free: bool) -> Small:
        """One side of a region as a model of its own, at its sizes or shrunk."""
        unit, inside = self.units[side], (region.before, region.after)[side]
        fed: dict[str, Fed] = {}

        def feed(name: str, number: int, kind: Type, constant: bool = False) -> None:
            if space is not None and name in space.axes[side]:
                kind = space.shape(side, name), kind[1]
            fed[name] = Fed(number, kind, constant)

        for value, k in region.reads[side].items():
            b, a = region.boundary[k]
            kinds = [self.units[s].graph.types[v] for s, v in ((side, value), (0, b), (1, a)) if v >= 0]
            feed(unit.values[value], k, next((kind for kind in kinds if kind[0] is not None), kinds[0]))
        counts: dict[Hashable, int] = {}
        nodes: list[NodeProto] = []
        tensors: dict[str, Any] = {}
        ends = {unit.graph.maker[pair[side]] for pair in region.pairs}
        for n in sorted({*inside, *(e for e in ends if unit.graph.vertices[e].leaf == "constant")}):
            vertex = unit.graph.vertices[n]
            if vertex.content in region.free and free:
                number = 10_000 + region.free[vertex.content]
                feed(vertex.name, number, unit.graph.types[vertex.outputs[0]], True)
            elif vertex.leaf == "constant":
                tensors[vertex.name] = vertex.source
                if space is not None and vertex.name in space.axes[side] and vertex.name in unit.tensors:
                    tensors[vertex.name] = space.cut(side, vertex.name, array_of(unit.tensors[vertex.name]))
            elif not vertex.pure:
                place = counts[vertex.mark] = counts.get(vertex.mark, 0) + 1
                for v in vertex.outputs:
                    feed(unit.values[v], 20_000 + seed_of(vertex.mark, place) % 1_000_000, unit.graph.types[v])
            else:
                nodes.append(vertex.source)
        if space is not None:
            nodes = [_resized(node, side, space, tensors) for node in nodes]
        made = small_model(unit, nodes, tensors, fed, [unit.values[pair[side]] for pair in region.pairs])
        empty = not all(_size(one.kind[0]) for one in fed.values())
        return replace(made, apart=empty or self.may_be_empty(inside, side, space))

    def may_be_empty(self, inside: Sequence[int], side: int, space: Space | None) -> bool:
        """Whether a value that some vertices make may have no cells. Of values of unknown shape, the original decides:
        what stays in a body or a function, and what depends on data, is all there."""
        unit = self.units[side]
        for n in inside:
            vertex = unit.graph.vertices[n]
            node: NodeProto | None = vertex.source if not vertex.leaf else None
            hidden = node is not None and (
                next(subgraphs(node), None) is not None or (node.domain, node.op_type) in unit.functions
            )
            shapes = [self.shape_of(v, side, space) for v in vertex.outputs if unit.values[v]]
            known = [dims for dims in shapes if dims is not None]
            if not all(map(_size, known)) or (side == 0 and (hidden or len(known) < len(shapes))):
                return True
        return False

    def shape_of(self, value: int, side: int, space: Space | None) -> Dims:
        """The shape of a value, or what it is shrunk to."""
        unit = self.units[side]
        if space is not None and unit.values[value] in space.axes[side]:
            return space.shape(side, unit.values[value])
        return unit.graph.types[value][0]

    def describe(self, region: Region) -> dict[str, Any]:
        """The region as plain data: operators, attributes and shapes."""
        found: dict[str, Any] = {}
        for side, inside, name in ((0, region.before, "before"), (1, region.after, "after")):
            graph, unit = self.units[side].graph, self.units[side]
            rows: list[dict[str, Any]] = []
            for n in inside:
                vertex = graph.vertices[n]
                makes = [f"{unit.values[v]}: {_text(graph.types[v])}" for v in vertex.outputs]
                if vertex.leaf:
                    rows.append({"constant": makes[0]})
                    continue
                node = vertex.source
                scalars = {
                    a.name: list(a.ints) or a.i or a.s.decode("utf-8", "replace")[:100]
                    for a in node.attribute
                    if not a.HasField("t")
                }
                rows.append(
                    {
                        "name": vertex.name,
                        "op": node.op_type,
                        "reads": list(node.input),
                        "makes": makes,
                        "attributes": scalars,
                    }
                )
            found[name] = rows
        found["boundary"] = [
            _text(self.units[0].graph.types[b] if b >= 0 else self.units[1].graph.types[a]) for b, a in region.boundary
        ]
        return found


def _resized(node: NodeProto, side: int, space: Space, tensors: dict[str, Any]) -> NodeProto:
    """A node that says a shape, with the shrunk one."""
    if node.op_type not in ("Reshape", "Expand") or len(node.input) < 2 or node.output[0] not in space.axes[side]:
        return node
    name = f"{node.output[0]}__shape"
    tensors[name] = np.array(space.shape(side, node.output[0]), np.int64)
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.input[1] = name
    return copy


Dims = tuple[Hashable, ...] | None


def _work(vertex: Vertex, read: Sequence[Dims], made: Sequence[Dims]) -> float:
    """Cells that a node reads and makes; of products, the multiplications as cells."""
    out = max(map(_size, made), default=1)
    work = float(out + max(map(_size, read), default=1))
    if vertex.source.op_type in HEAVY and len(read) > 1:
        work += _multiplications(vertex.source, read, out) / 8
    return work


def _multiplications(node: NodeProto, read: Sequence[Dims], out: int) -> float:
    """How often a product multiplies: for each cell of its result as often as the summed axis is long; a Conv, as its
    weight has cells for one channel."""
    if node.op_type in PRODUCTS:
        turned = any(a.name == "transA" and a.i for a in node.attribute)
        first = read[0] or (1,)
        return float(out * _size(first[-2:-1] if turned else first[-1:]))
    if node.op_type == "Einsum":
        return (float(out) * _size(read[0]) * _size(read[1])) ** 0.5
    weight = (read[3] if node.op_type == "QLinearConv" and len(read) > 3 else read[1]) or (1,)
    cells = _size(read[0]) if node.op_type == "ConvTranspose" else out
    return cells * _size(weight) / max(1, _size(weight[:1]))


def _shrunk(space: Space, side: int, name: str) -> Dims:
    return space.shape(side, name) if name in space.axes[side] else (1,)


def _size(dims: Dims) -> int:
    return 1 if dims is None else prod(d for d in dims if isinstance(d, int))


def _text(kind: Type) -> str:
    dims, element = kind
    return f"element type {element}, {'unknown shape' if dims is None else list(dims)}"
