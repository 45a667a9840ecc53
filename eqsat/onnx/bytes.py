"""Bytes moved by the layout operators of a model, as they stand: the metric of `--objective bytes`.

Reshapes, and transposes that move only axes of extent 1, move nothing. Transpose, Slice, DepthToSpace, SpaceToDepth and
what gathers by constants read and write their output; Pad, Expand, Tile and CenterCropPad read their input and write
their output; Concat and Split (2 x output) are counted apart. An Einsum counts what onnxruntime transposes inside it;
the flags transA and transB of a Gemm count nothing, because its kernel reads either order. What is computed from
constants alone (an initialiser that a caller may override is none), and tiny integer shape arithmetic, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

from onnx import ModelProto, NodeProto, helper

from eqsat.backends.targets import ONNX
from eqsat.checking.model_graph import shown_names
from eqsat.ir.dtypes import itemsize
from eqsat.ir.flat.size_samples import sampled
from eqsat.ir.flat.size_terms import as_size
from eqsat.ir.tensors.program_text import node_texts
from eqsat.ir.tensors.tensor import Constant, Input, Program
from eqsat.ir.terms.shape import static_shape
from eqsat.ir.terms.term import Term
from eqsat.onnx.read import ModelValues, OnnxProgram, value_types
from eqsat.pricing.programs import node_prices, program_price
from eqsat.pricing.table import Table
from eqsat.reporting.sides import INPUT, Side, Vertex, outputs

PICKS = ("Gather", "GatherElements", "GatherND", "Compress", "ReverseSequence")
"""Layout operators where their positions are constants."""
TWICE_OUTPUT = ("Transpose", "Slice", "DepthToSpace", "SpaceToDepth", *PICKS)
INPUT_AND_OUTPUT = ("Pad", "Expand", "Tile", "CenterCropPad")
JOINS = ("Concat", "Split")
OURS = re.compile(r"^onnx:|onnx\.\w+=(?:\([^()]*\)|[^,)]+)(?:, )?")
"""What programs add to the names and attributes of a model's nodes."""
TINY = 64
"""Integer tensors of up to this many elements are shape arithmetic."""


@dataclass(frozen=True)
class Moved:
    """Bytes moved: by layout operators, by Concat and Split, by kind, and how many nodes have unknown sizes."""

    layout: int
    joins: int
    by_op: Mapping[str, int] = field(default_factory=dict[str, int])
    unknown: int = 0

    @property
    def total(self) -> int:
        """Layout operators and joins together."""
        return self.layout + self.joins


def bytes_moved(model: ModelProto, sizes: Mapping[str, int] | None = None, values: ModelValues | None = None) -> Moved:
    """The bytes that the layout operators of a model move; `sizes` gives values to named dimensions.

    values: what is known of the model's values, where it has been read already.

    Other symbolic dimensions count as `eqsat.ir.flat.size_samples` says, here as in the search.

    >>> from eqsat.nets import conv_chain
    >>> bytes_moved(conv_chain()).by_op
    {'Transpose': 10240}
    """
    values = values or value_types(model)
    given = {s: sizes[name] for s, name in values.symbol_names.items() if sizes is not None and name in sizes}
    table: dict[str, int] = {}
    unknown = 0
    for node in model.graph.node:
        moved = _node(node, values, given)
        if moved is None:
            unknown += 1
        elif moved:
            table[node.op_type] = table.get(node.op_type, 0) + moved
    joins = sum(v for k, v in table.items() if k in JOINS)
    return Moved(sum(table.values()) - joins, joins, table, unknown)


def price(model: ModelProto, values: ModelValues) -> int:
    """What a model costs as it stands: the bytes that its layout operators move, and a fixed number for each node."""
    return bytes_moved(model, values=values).total + ONNX.node_bytes * _nodes(model)


def time_of(model: ModelProto, program: OnnxProgram, values: ModelValues, table: Table) -> int:
    """The estimated picoseconds of a model, which has been read as a program; nodes beside it cost as much as any."""
    return program_price(program, table, True) + len(beside(model, program, values)) * round(table.operators["node"])


def beside(model: ModelProto, program: OnnxProgram, values: ModelValues) -> list[NodeProto]:
    """The nodes of a model that the program read from it does not need (arithmetic of sizes, other names of a value),
    but those that a runtime computes ahead: constants of shapes that are known."""
    alive = {n.serial for n in program.nodes() if not isinstance(n, (Input, Constant))}
    made = {name for (serial, _), name in program.envelope.names.items() if serial in alive}
    found: list[NodeProto] = []
    for node in model.graph.node:
        outputs = [o for o in node.output if o]
        ahead = node.op_type == "Constant" or all(
            o in values.constants and o in values.types and static_shape(values.types[o][0]) is not None
            for o in outputs
        )
        if not ahead and made.isdisjoint(outputs):
            found.append(node)
    return found


def side_of_model(
    model: ModelProto, program: OnnxProgram, values: ModelValues, table: Table | None, told: bool = True
) -> Side:
    """A model as it is shown, which has been read as a program; with prices, its times are estimated; told: with what
    its operators do to indices."""
    names = program.envelope.names
    texts = node_texts(program, names) if told else {}
    serials = {name: serial for (serial, _), name in names.items()}
    prices: Mapping[str, int] = {} if table is None else _prices(program, names, table)
    known = {x.name for x in model.graph.initializer} | {x.values.name for x in model.graph.sparse_initializer}
    inputs = [x.name for x in model.graph.input if x.name not in known]
    made = {name: name for name in inputs}
    vertices = [Vertex(n, n, INPUT, texts.get(serials.get(n, -1), ("", ""))[1], f"input {n}", ()) for n in inputs]
    for node, key in zip(model.graph.node, shown_names(model.graph.node), strict=True):
        first = next((o for o in node.output if o), "")
        if not first or node.op_type == "Constant":
            continue
        made |= dict.fromkeys((o for o in node.output if o), first)
        reads = tuple(dict.fromkeys(made[n] for n in node.input if n in made))
        text, types = texts.get(serials.get(first, -1), (f"{node.op_type}({', '.join(node.input)})", ""))
        text = OURS.sub("", text)
        cost = None if table is None else sum(prices.get(o, 0) for o in node.output)
        moved = _node(node, values, {}) or 0
        vertices.append(Vertex(first, node.name, node.op_type, types, text, reads, moved, cost, key))
    ends = {o.name: made[o.name] for o in model.graph.output if o.name in made}
    return Side((*vertices, *outputs(ends)), model.ByteSize())


def _prices(program: Program, names: Mapping[tuple[int, int], str], table: Table) -> Mapping[str, int]:
    """The picoseconds of each value of a model: those of the nodes that it was read as."""
    owners = owners_of(program, names)
    found: dict[str, int] = {}
    for node, price in node_prices(program, table, True):
        found[owners[node.serial]] = found.get(owners[node.serial], 0) + price
    return found


def owners_of(program: Program, names: Mapping[tuple[int, int], str]) -> dict[int, str]:
    """For each node of a program that a model was read as, by its serial, the value of the model that it is for."""
    named = {serial: name for (serial, _), name in names.items()}
    owners: dict[int, str] = {}
    for node in reversed(list(program.nodes())):
        owners[node.serial] = named.get(node.serial) or owners.get(node.serial, "")
        for x in node.operands:
            owners.setdefault(x.node.serial, owners[node.serial])
    return owners


def _nodes(model: ModelProto) -> int:
    return sum(n.op_type != "Constant" for n in model.graph.node)


def bytes_of_outputs(node: NodeProto, values: ModelValues) -> dict[str, int]:
    """The bytes that a layout operator moves, for each of its outputs; nothing where its sizes are not known."""
    moved = _node(node, values, {})
    names = [o for o in node.output if o]
    if not moved:
        return {}
    cells = [prod(_extents(values, o, {})) for o in names] if len(names) > 1 else [1]
    return {o: moved * n // max(sum(cells), 1) for o, n in zip(names, cells, strict=True)}


def _node(node: NodeProto, values: ModelValues, sizes: Mapping[Term, int]) -> int | None:
    op = node.op_type
    if node.domain not in ("", "ai.onnx") or op not in (*TWICE_OUTPUT, *INPUT_AND_OUTPUT, *JOINS, "Einsum"):
        return 0
    if all(n in values.constants for n in node.input if n) or (op in PICKS and node.input[1] not in values.constants):
        return 0
    names = [n for n in (node.input[0], *node.output) if n]
    if any(n not in values.types for n in node.input if n) or any(n not in values.types for n in names):
        return None
    source, outputs = _extents(values, node.input[0], sizes), [_extents(values, o, sizes) for o in node.output if o]
    dtype = values.types[node.input[0]][1]
    if dtype[0] in "iu" and all(prod(o) <= TINY for o in outputs):
        return 0
    size, written = itemsize(dtype), sum(prod(o) for o in outputs)
    if op == "Transpose":
        perm = next((list(a.ints) for a in node.attribute if a.name == "perm"), list(reversed(range(len(source)))))
        return 0 if _keeps_order(perm, source) else 2 * written * size
    if op == "Einsum":
        return _einsum(node, values, sizes) * size
    return cells_moved(op, prod(source), written) * size


def cells_moved(op: str, read: int, written: int) -> int:
    """The cells that an operator moves which reads and writes so many; none where it moves nothing.

    >>> cells_moved("Slice", 10, 4), cells_moved("Pad", 10, 14), cells_moved("Reshape", 10, 10)
    (8, 24, 0)
    """
    if op in INPUT_AND_OUTPUT:
        return read + written
    return 2 * written if op in (*TWICE_OUTPUT, *JOINS) else 0


def _keeps_order(perm: list[int], shape: list[int]) -> bool:
    moving = [a for a in perm if shape[a] != 1]
    return moving == sorted(moving)


def _einsum(node: NodeProto, values: ModelValues, sizes: Mapping[Term, int]) -> int:
    """Elements that onnxruntime transposes inside an Einsum: of one operand its result, of two, which it does as a
    MatMul, what does not have the order of one."""
    equation = str(helper.get_attribute_value(node.attribute[0]).decode()).replace(" ", "")
    left, arrow, result = equation.partition("->")
    parts = left.split(",")
    if not arrow:
        letters = left.replace(",", "")
        result = "".join(sorted(x for x in set(letters) if letters.count(x) == 1))
    if "." in equation or len(parts) > 2 or any(len(set(labels)) != len(labels) for labels in parts):
        return 0
    out = _extents(values, node.output[0], sizes)
    if len(parts) == 1:
        kept = [x for x in parts[0] if x in result]
        moved = [kept.index(x) for x in result]
        return 0 if _keeps_order(moved, [out[result.index(x)] for x in kept]) else 2 * prod(out)
    a, b = parts
    batch = [x for x in result if x in a and x in b]
    rows, columns = [x for x in result if x in a and x not in b], [x for x in result if x in b and x not in a]
    summed = [x for x in a if x not in result]
    wanted = ((a, [*batch, *rows, *summed]), (b, [*batch, *summed, *columns]))
    total = 0
    for name, (labels, order) in zip(node.input, wanted, strict=True):
        shape = _extents(values, name, sizes)
        if sorted(labels) == sorted(order) and not _keeps_order([labels.index(x) for x in order], shape):
            total += 2 * prod(shape)
    order = [*batch, *rows, *columns]
    if sorted(order) == sorted(result) and not _keeps_order(
        [order.index(x) for x in result], [out[result.index(x)] for x in order]
    ):
        total += 2 * prod(out)
    return total


def _extents(values: ModelValues, name: str, sizes: Mapping[Term, int]) -> list[int]:
    return [sampled(as_size(d), sizes) for d in values.types[name][0]]


def carried(model: ModelProto, values: ModelValues) -> Iterator[str]:
    """What was not looked into, and so is in no figure."""
    functions = {(f.domain, f.name) for f in model.functions}
    calls = sum((n.domain, n.op_type) in functions for n in model.graph.node)
    if calls:
        yield f"{calls} calls of the model's own functions stay as they are, with the layouts inside"
    unknown = bytes_moved(model, values=values).unknown
    if unknown:
        yield f"{unknown} layout operators are not counted: their types or shapes are not known to programs"
