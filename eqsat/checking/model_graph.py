"""An ONNX model as a graph to be compared: nodes by operator, opset, attributes; constants by content; types by
onnx.shape_inference at sizes in numbers. Nothing here is shared with the reader of models."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    defs,
    helper,
    numpy_helper,
    shape_inference,
)  # fmt: skip

from eqsat.checking.fold import folded
from eqsat.checking.graph import Graph, Type, Vertex, content_mark
from eqsat.checking.model_shapes import Reshaped, reshaped
from eqsat.checking.verdict import CheckFailure
from eqsat.ir.dtypes import NDArray
from eqsat.models.guarded import infer_shapes

RANDOM = frozenset(
    ("RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike", "Bernoulli", "Multinomial")
)
MOVES = frozenset(
    (
        "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Slice", "Pad", "Expand", "Tile",
        "Concat", "Split", "DepthToSpace", "SpaceToDepth", "Gather",
    )
)  # fmt: skip
"""Operators that only move values, whatever they are."""
CLEAR = MOVES - {"Concat"}
SMALL = 16
"""Constants of fewer elements, and integers that may be sizes, keep their numbers."""
SIZES = 64
SKELETON = 1024
LARGE, PIECE = 1 << 16, 1 << 10
"""Bytes of constants from which on they are not hashed whole, and of the pieces by which those are told apart."""
EVEN = 1 << 27
FOLDED = (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL)


@dataclass(frozen=True)
class Uniform:
    """A constant all of whose elements are one number, as ConstantOfShape makes it."""

    dims: tuple[int, ...]
    data_type: int
    value: NDArray


Content = TensorProto | Uniform


@dataclass
class Unit:
    """A model with what the check knows of it: `values` are the names of values by number, `made` their numbers,
    `tensors` its constants, `known` the numbers of small whole ones, and `renamed` what the values that the check gave
    other names are called in the model."""

    model: ModelProto
    graph: Graph
    values: list[str] = field(default_factory=list[str])
    made: dict[str, int] = field(default_factory=dict[str, int])
    tensors: dict[str, Content] = field(default_factory=dict[str, Content])
    known: dict[str, NDArray] = field(default_factory=dict[str, NDArray])
    functions: Mapping[tuple[str, str], FunctionProto] = field(default_factory=dict[tuple[str, str], FunctionProto])
    renamed: dict[str, str] = field(default_factory=dict[str, str])

    def name(self, value: int) -> str:
        """What a value is called in the model."""
        return self.renamed.get(self.values[value], self.values[value])


def shown_names(nodes: Sequence[NodeProto]) -> list[str]:
    """What nodes are called in reports: by their names, else, also where two have one name, by operator and place."""
    names = Counter(node.name for node in nodes)
    return [n.name if n.name and names[n.name] == 1 else f"{n.op_type} {k}" for k, n in enumerate(nodes)]


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs among a node's attributes."""
    for a in node.attribute:
        if a.type == AttributeProto.GRAPH:
            yield a.g
        elif a.type == AttributeProto.GRAPHS:
            yield from a.graphs


def reads_of(node: NodeProto) -> list[str]:
    """The names that a node reads, those that its subgraphs take from outside included."""
    names = list(node.input)
    for graph in subgraphs(node):
        own = {x.name for x in (*graph.input, *graph.initializer)} | {x.values.name for x in graph.sparse_initializer}
        for child in graph.node:
            names.extend(n for n in reads_of(child) if n and n not in own)
            own.update(child.output)
        names.extend(o.name for o in graph.output if o.name not in own)
    return names


def is_random(
    node: NodeProto, functions: Mapping[tuple[str, str], FunctionProto], known: Mapping[str, NDArray]
) -> bool:
    """Whether two runs of a node may differ, where some of the values that it reads are known."""
    if node.op_type in RANDOM:
        return True
    if node.op_type == "Dropout" and len(node.input) > 2 and node.input[2] != "":
        mode = known.get(node.input[2])
        return mode is None or bool(mode.any())
    called = functions.get((node.domain, node.op_type))
    if called is not None:
        given = {inner: known[n] for inner, n in zip(called.input, node.input, strict=False) if n in known}
        return any(is_random(n, functions, {**given, **_constants_of(called.node)}) for n in called.node)
    inner = [n for g in subgraphs(node) for n in g.node]
    return any(is_random(n, functions, {**known, **_constants_of(inner)}) for n in inner)


def _constants_of(nodes: Iterable[NodeProto]) -> dict[str, NDArray]:
    """The values of the nodes that are small constants."""
    plain = [(n.output[0], n.attribute[0].t) for n in nodes if n.op_type == "Constant" and n.attribute]
    return {name: array_of(x) for name, x in plain if x.data_type in FOLDED and prod(x.dims) <= SIZES}


# -- sizes and types --------------------------------------------------------------------------------------------------


def unknown_sizes(model: ModelProto) -> list[tuple[str, int, str]]:
    """The axes of inputs whose extent is not a number: input, axis, name of the dimension (or one made up)."""
    found: list[tuple[str, int, str]] = []
    for value in model.graph.input:
        kind = value.type.tensor_type
        for n, d in enumerate(kind.shape.dim):
            if not d.HasField("dim_value") or d.dim_value < 0:
                found.append((value.name, n, d.dim_param or f"{value.name}.{n}"))
    return found


def inferred(model: ModelProto, sizes: Mapping[str, int]) -> dict[str, TypeProto]:
    """The types of all values by onnx.shape_inference, with these sizes for the dimensions of inputs."""
    copy = ModelProto()
    copy.ir_version = model.ir_version
    copy.opset_import.extend(model.opset_import)
    copy.functions.extend(model.functions)
    graph = copy.graph
    graph.name = model.graph.name or "graph"
    graph.node.extend(model.graph.node)
    graph.sparse_initializer.extend(model.graph.sparse_initializer)
    listed = {x.name for x in model.graph.input}
    named = {(value, axis): name for value, axis, name in unknown_sizes(model)}
    for value in model.graph.input:
        added = graph.input.add()
        added.CopyFrom(value)
        for n, d in enumerate(added.type.tensor_type.shape.dim):
            if (value.name, n) in named:
                d.dim_value = sizes.get(named[value.name, n], 1)
    for tensor in model.graph.initializer:
        if prod(tensor.dims) <= SKELETON:
            graph.initializer.add().CopyFrom(tensor)
        elif tensor.name not in listed:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    for output in model.graph.output:  # what they claim is for other sizes, or wrong
        graph.output.append(ValueInfoProto(name=output.name))
    done = infer_shapes(copy)
    types = {x.name: x.type for x in (*done.graph.value_info, *done.graph.output, *done.graph.input)}
    for tensor in model.graph.initializer:
        types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
    return types


def type_of(proto: TypeProto | None) -> Type:
    """A tensor type with extents in numbers; no extents where they are not known, or it is no tensor."""
    if proto is None or proto.WhichOneof("value") != "tensor_type":
        return None, "other" if proto is None or not proto.WhichOneof("value") else str(proto.WhichOneof("value"))
    kind = proto.tensor_type
    name = str(kind.elem_type)
    if not kind.HasField("shape") or any(not d.HasField("dim_value") for d in kind.shape.dim):
        return None, name
    return tuple(int(d.dim_value) for d in kind.shape.dim), name


# -- graphs -----------------------------------------------------------------------------------------------------------


class Contents:
    """Constants of both models by content; those of one name are compared first, without hashing."""

    def __init__(self) -> None:
        self.named: dict[str, list[tuple[TensorProto, Hashable]]] = {}
        self.large: dict[Hashable, list[tuple[TensorProto, Hashable]]] = {}
        self.fresh = itertools.count()
        self.uniform: set[tuple[int, int]] = set()
        self.marks: dict[Hashable, Hashable] = {}

    def key(self, tensor: Content) -> Hashable:
        """A key of the numbers of a constant, in row-major order."""
        size = prod(tensor.dims)
        if isinstance(tensor, Uniform):
            self.uniform.add((tensor.data_type, size))
            return "uniform", tensor.value.tobytes()
        known = self.named.setdefault(tensor.name, []) if tensor.name else []
        for other, key in known:
            if tensor is other:
                return key
        found: Hashable = next((key for other, key in known if _same(tensor, other)), None)
        if found is None:
            found = self._own(tensor, size)
        known.append((tensor, found))
        return found

    def _own(self, tensor: TensorProto, size: int) -> Hashable:
        if (tensor.data_type, size) in self.uniform:
            flat = array_of(tensor).reshape(-1)
            if bool((flat == flat[0]).all()):
                return "uniform", flat[0].tobytes()
        if tensor.data_type == TensorProto.STRING:
            return hashlib.blake2b(b"\0".join(tensor.string_data), digest_size=16).digest()
        numbers = _bytes_of(tensor)
        if len(numbers) <= LARGE:
            return hashlib.blake2b(numbers, digest_size=16).digest()
        # Few large constants look alike at three places: those that do are compared whole, no others are read whole.
        middle = len(numbers) // 2
        looks = len(numbers), numbers[:PIECE], numbers[middle : middle + PIECE], numbers[-PIECE:]
        alike = self.large.setdefault(looks, [])
        found: Hashable = next((key for other, key in alike if _bytes_of(other) == numbers), None)
        if found is None:
            found = "large", next(self.fresh)
            alike.append((tensor, found))
        return found

    def mark(self, tensor: Content, key: Hashable) -> Hashable:
        """What tells constants apart whatever the order of their numbers."""
        place = key, tensor.data_type, prod(tensor.dims)
        if place not in self.marks:
            self.marks[place] = _mark(tensor)
        return self.marks[place]


def _same(a: TensorProto, b: TensorProto) -> bool:
    if a is b:
        return True
    both = a.HasField("raw_data") and b.HasField("raw_data")
    return both and a.data_type == b.data_type and prod(a.dims) == prod(b.dims) and a.raw_data == b.raw_data


def _bytes_of(tensor: TensorProto) -> bytes:
    """The numbers of a tensor in row-major order."""
    if tensor.HasField("raw_data"):
        return tensor.raw_data
    return np.ascontiguousarray(numpy_helper.to_array(tensor)).tobytes()


def unit_of(
    model: ModelProto,
    types: dict[str, TypeProto],
    contents: Contents,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Unit:
    """The graph of a model whose values have these types; some are reshaped to `shapes` and back when made."""
    functions = {(f.domain, f.name): f for f in model.functions}
    unit = Unit(model, Graph(), functions=functions)
    opsets = {("" if o.domain == "ai.onnx" else o.domain): int(o.version) for o in model.opset_import}
    taken = {*types, *(o for node in model.graph.node for o in node.output)} if shapes else set[str]()
    initial = {x.name: x for x in model.graph.initializer}
    listed = {x.name for x in model.graph.input} if model.ir_version >= 4 else set[str]()
    for value in model.graph.input:
        if value.name not in initial or value.name in listed:
            _leaf(unit, value.name, ("input", value.name), type_of(types.get(value.name)), "input", None, value)
    for name, tensor in initial.items():
        if name not in unit.made:
            _constant(unit, name, tensor, contents)
    for sparse in model.graph.sparse_initializer:
        exact = "sparse", sparse.SerializeToString()
        _leaf(unit, sparse.values.name, exact, (None, "sparse"), "constant", None, sparse)
    for node, shown in zip(model.graph.node, shown_names(model.graph.node), strict=True):
        around = reshaped(node, shapes, types, taken) if shapes else Reshaped(node)
        unit.renamed.update({new: name for name, new in around.renamed.items()})
        _node(unit, around.node, shown, opsets, types, contents)
        for name, numbers in around.constants.items():
            _constant(unit, name, numpy_helper.from_array(numbers), contents)
        for reshape in around.reshapes:
            _node(unit, reshape, shown, opsets, types, contents)
            unit.graph.vertices[-1] = replace(unit.graph.vertices[-1], added=True)
    for output in model.graph.output:
        if output.name not in unit.made:
            raise CheckFailure(f"output {output.name!r}", "nothing makes it")
        unit.graph.outputs[output.name] = unit.made[output.name]
    return unit


def _leaf(unit: Unit, name: str, exact: Hashable, kind: Type, leaf: str, content: Hashable, source: object) -> None:
    made = unit.graph.add(Vertex(exact, exact, (), name, leaf=leaf, content=content, source=source), [kind])
    unit.values.append(name)
    unit.made[name] = made[0]


def _constant(unit: Unit, name: str, tensor: Content, contents: Contents) -> None:
    key, dims = contents.key(tensor), tuple(tensor.dims)
    real = tensor.data_type in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
    content = (key, tensor.data_type) if real and prod(dims) >= SMALL else None
    unit.tensors[name] = tensor
    if tensor.data_type in FOLDED and prod(dims) <= SIZES:
        unit.known[name] = array_of(tensor)
    exact, mark = ("constant", tensor.data_type, dims, key), contents.mark(tensor, key)
    vertex = Vertex(exact, mark, (), name, leaf="constant", content=content, source=tensor)
    made = unit.graph.add(vertex, [(dims, str(tensor.data_type))])
    unit.values.append(name)
    unit.made[name] = made[0]


def _mark(tensor: Content) -> Hashable:
    if isinstance(tensor, Uniform):
        kind, name, _, bits = content_mark(tensor.value)
        return kind, name, prod(tensor.dims), bits * prod(tensor.dims) % 2**64
    if tensor.data_type == TensorProto.STRING or not prod(tensor.dims):
        return "constant", tensor.data_type, prod(tensor.dims)
    return content_mark(array_of(tensor))


def _node(
    unit: Unit, node: NodeProto, shown: str, opsets: Mapping[str, int], types: dict[str, TypeProto], contents: Contents
) -> None:
    domain = "" if node.domain == "ai.onnx" else node.domain
    if node.op_type == "Constant" and not domain and node.attribute and node.attribute[0].name == "value":
        _constant(unit, node.output[0], _named(node.attribute[0].t, ""), contents)
        return
    if node.op_type == "Identity" and not domain and node.input[0] in unit.tensors:
        _constant(unit, node.output[0], unit.tensors[node.input[0]], contents)
        return
    called = unit.functions.get((node.domain, node.op_type))
    operands: list[int] = []
    absent: list[int] = []
    for k, name in enumerate(reads_of(node)):
        if not name:
            absent.append(k)
        elif name not in unit.made:
            raise CheckFailure(f"node {shown!r}", f"reads {name!r} before it is made")
        else:
            operands.append(unit.made[name])
    if all(n in unit.known for n in node.input if n) or node.op_type in ("Shape", "Size"):
        number = folded(node, opsets.get("", 0), unit.known, lambda n: _numbers_of(types.get(n)))
        if number is not None:
            tensor = numpy_helper.from_array(number)
            _constant(unit, node.output[0], tensor, contents)
            return
    even = _uniform(unit, node)
    if even is not None:
        _constant(unit, node.output[0], even, contents)
        return
    if called is None and any(o and type_of(types.get(o))[0] is None for o in node.output):
        types.update(_inferred_node(unit, node, opsets, types))
    attributes = tuple(sorted(a.SerializeToString(deterministic=True) for a in node.attribute))
    body = b"" if called is None else called.SerializeToString(deterministic=True)
    outputs = tuple(bool(o) for o in node.output)
    exact = domain, node.op_type, opsets.get(domain, 0), attributes, tuple(absent), outputs, body
    kinds = [type_of(types.get(o)) for o in node.output]
    vertex = Vertex(
        exact, (domain, node.op_type), tuple(operands), shown, clear=node.op_type in CLEAR and not domain,
        pure=not is_random(node, unit.functions, unit.known), source=node,
    )  # fmt: skip
    made = unit.graph.add(vertex, kinds, [_cuttable(k) for k in kinds])
    for name, value in zip(node.output, made, strict=True):
        unit.values.append(name)
        if name:
            unit.made[name] = value


def _inferred_node(
    unit: Unit, node: NodeProto, opsets: Mapping[str, int], types: Mapping[str, TypeProto]
) -> dict[str, TypeProto]:
    """The types of a node's outputs, given the numbers of its small whole operands, which inference does not fold."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    try:
        schema = defs.get_schema(node.op_type, opsets.get(domain, 1), domain)
        ins = {n: types[n] for n in node.input if n and n in types}
        if any(d.dim_value < 0 for x in ins.values() for d in x.tensor_type.shape.dim):
            return {}  # inference got it wrong, and may end this process on it
        data = {n: numpy_helper.from_array(unit.known[n], n) for n in node.input if n in unit.known}
        imports = [helper.make_opsetid(d, v) for d, v in opsets.items()]
        found = shape_inference.infer_node_outputs(schema, node, ins, data, opset_imports=imports)
    except Exception:  # an operator that onnx does not know, or a node that it finds wrong: the types stay unknown
        return {}
    return dict(found)


def _uniform(unit: Unit, node: NodeProto) -> Uniform | None:
    if node.op_type != "ConstantOfShape" or node.domain not in ("", "ai.onnx") or node.input[0] not in unit.known:
        return None
    dims = tuple(int(d) for d in unit.known[node.input[0]])
    value = np.zeros(1, np.float32)
    for a in node.attribute:
        value = array_of(a.t)
    if not 0 < prod(dims) <= EVEN or value.size != 1:
        return None
    return Uniform(dims, helper.np_dtype_to_tensor_dtype(value.dtype), value.reshape(()))


def _numbers_of(proto: TypeProto | None) -> tuple[int, ...] | None:
    dims = type_of(proto)[0]
    return None if dims is None else tuple(int(str(d)) for d in dims)


def _named(tensor: TensorProto, name: str) -> TensorProto:
    copy = TensorProto()
    copy.CopyFrom(tensor)
    copy.name = name
    return copy


def _cuttable(kind: Type) -> bool:
    """Whether any values of a type will do: not for integers that may be sizes or positions."""
    dims, element = kind
    if dims is None:
        return False
    whole = element in (str(TensorProto.INT64), str(TensorProto.INT32))
    return not (whole and len(dims) <= 1 and prod(d for d in dims if isinstance(d, int)) <= SIZES)


def array_of(tensor: Content) -> NDArray:
    """The numbers of a tensor."""
    if isinstance(tensor, Uniform):
        return np.broadcast_to(tensor.value, tensor.dims)
    return np.asarray(numpy_helper.to_array(tensor))
