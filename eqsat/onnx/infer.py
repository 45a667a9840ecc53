"""Types and shapes of all values of a model, from the model's own claims and onnx.shape_inference."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, helper

from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, Shape, same_dim
from eqsat.ir.terms.term import Term
from eqsat.models.guarded import infer_shapes, shaped
from eqsat.models.package import dtype_name, element_type
from eqsat.onnx.bounds import check_functions, follows_large_values
from eqsat.onnx.graphs import subgraphs
from eqsat.onnx.slice import settle
from eqsat.onnx.trust import attending, miscounted, prepare, unfit, window_axes

SMALL_TENSOR = 1024
"""Initialisers of more elements are left out where only types are asked for."""


def elements(tensor: TensorProto) -> int:
    """The number of elements an initialiser declares."""
    total = 1
    for d in tensor.dims:
        total *= d
    return total


def skeleton(model: ModelProto) -> ModelProto:
    """The model with large initialisers turned into inputs: all that a checker and shape inference need."""
    copy = ModelProto()
    for name, _ in model.ListFields():
        if name.name not in ("graph", "training_info"):
            copy_field(copy, model, name.name)
    graph, source = copy.graph, model.graph
    for name, _ in source.ListFields():
        if name.name != "initializer":
            copy_field(graph, source, name.name)
    listed = {x.name for x in source.input}
    for tensor in source.initializer:
        if elements(tensor) <= SMALL_TENSOR and tensor.data_location != TensorProto.EXTERNAL:
            graph.initializer.add().CopyFrom(tensor)
        elif tensor.name not in listed:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    return copy


def copy_field(target: ModelProto | GraphProto, source: ModelProto | GraphProto, name: str) -> None:
    """Copy one field of a message to another one, which has it empty."""
    value = getattr(source, name)
    if hasattr(value, "MergeFrom") and hasattr(value, "append"):
        getattr(target, name).MergeFrom(value)
    elif hasattr(value, "CopyFrom"):
        getattr(target, name).CopyFrom(value)
    else:
        setattr(target, name, value)


@dataclass
class Types:
    """The type of every named value, and the symbols of named dimensions."""

    protos: dict[str, TypeProto]
    symbols: dict[str, Term] = field(default_factory=dict[str, Term])
    taken: set[str] = field(default_factory=set[str])
    unknown: set[str] = field(default_factory=set[str])
    inhabited: frozenset[str] = frozenset()
    """The names of dimensions that are at least 1."""

    def modelled(self, name: str) -> tuple[Shape, str] | None:
        """The shape and dtype of a value, or None where programs do not model its type or its rank is unknown."""
        proto = self.protos.get(name)
        if proto is None or proto.WhichOneof("value") != "tensor_type" or not proto.tensor_type.HasField("shape"):
            return None
        dtype = dtype_name(proto.tensor_type.elem_type)
        if dtype is None:
            return None
        return tuple(self._dim(d) for d in proto.tensor_type.shape.dim), dtype

    def not_modelled(self) -> dict[str, TypeProto]:
        """The types of tensors of known rank whose elements programs have no type for."""
        ranked = {n: x for n, x in self.protos.items() if x.tensor_type.HasField("shape") and x.tensor_type.elem_type}
        return {name: x for name, x in ranked.items() if dtype_name(x.tensor_type.elem_type) is None}

    def fix_unknown(self, protos: Iterable[TypeProto]) -> None:
        """Give every unknown extent a symbol of its own, that may be 0 because it may depend on data."""
        for proto in protos:
            if proto.WhichOneof("value") == "tensor_type":
                for d in proto.tensor_type.shape.dim:
                    if not d.dim_param and (not d.HasField("dim_value") or d.dim_value < 0):
                        name = self._free("u")
                        d.dim_param = name
                        self.symbols[name] = self._symbol(name, name)
                        self.unknown.add(name)

    def open(self, known: Iterable[tuple[Shape, str] | None]) -> frozenset[int]:
        """The serials of the symbols in types that inference made up."""
        made = {x.serial for name in self.unknown if (x := self.symbols.get(name)) is not None}
        return frozenset(d.serial for k in known if k is not None for d in k[0] if isinstance(d, Term)) & made

    def learn(self, name: str, shape: Shape) -> None:
        """Take over extents of a value that inference only made up symbols for."""
        proto = self.protos[name]
        for d, found in zip(proto.tensor_type.shape.dim, shape, strict=True):
            if d.dim_param in self.unknown and not same_dim(self._dim(d), found):
                self.unknown.discard(d.dim_param)
                self.symbols[d.dim_param] = t.as_index(found)

    def vague(self, name: str) -> bool:
        """Whether the rank of a value or one of its extents is unknown."""
        proto = self.protos.get(name)
        if proto is None or not proto.WhichOneof("value"):
            return True
        if proto.WhichOneof("value") != "tensor_type":
            return False
        return not proto.tensor_type.HasField("shape") or any(
            d.dim_param in self.unknown for d in proto.tensor_type.shape.dim
        )

    def proto(self, shape: Shape, dtype: str) -> TypeProto:
        """The type of a tensor as ONNX writes it."""
        back = {symbol: name for name, symbol in self.symbols.items()}
        dims = [d if isinstance(d, int) else back.get(d) for d in shape]
        return helper.make_tensor_type_proto(element_type(dtype), dims)

    def refine(self, name: str, proto: TypeProto) -> None:
        """Take over what another inference knows better."""
        old = self.protos.get(name)
        if proto.WhichOneof("value") != "tensor_type" or not proto.tensor_type.HasField("shape"):
            return
        if old is not None and old.WhichOneof("value") == "tensor_type" and old.tensor_type.HasField("shape"):
            if len(old.tensor_type.shape.dim) != len(proto.tensor_type.shape.dim):
                return
            for d, new in zip(old.tensor_type.shape.dim, proto.tensor_type.shape.dim, strict=True):
                known = new.HasField("dim_value") and new.dim_value >= 0  # windows that do not fit make it negative
                if d.dim_param in self.unknown and (known or new.dim_param):
                    d.CopyFrom(new)
            return
        self.protos[name] = proto
        self.fix_unknown([proto])

    def _dim(self, d: onnx.TensorShapeProto.Dimension) -> Dim:
        if not d.dim_param:
            return int(d.dim_value)
        if d.dim_param not in self.symbols:
            plain = re.sub(r"\W+", "_", d.dim_param, flags=re.ASCII).strip("_") or "d"
            plain = plain if not plain[0].isdigit() else f"d{plain}"
            name = plain if plain == d.dim_param else self._free(plain[:40])
            self.symbols[d.dim_param] = self._symbol(d.dim_param, name)
        return self.symbols[d.dim_param]

    def _symbol(self, dimension: str, name: str) -> Term:
        return t.sym(name, lower=int(dimension in self.inhabited))

    def _free(self, wish: str) -> str:
        name, number = wish, 0
        while name in self.taken:
            number += 1
            name = f"{wish}{number}"
        self.taken.add(name)
        return name


def infer(model: ModelProto, positive: frozenset[str] = frozenset()) -> Types:
    """The types of all values; FrontendError where the model is not valid ONNX.

    An unnamed unknown dimension gets a symbol of its own. Symbols may be 0, but those of some dimensions, by name.
    """
    check_functions(model)
    protos, without = dict[str, TypeProto](), dict[str, tuple[int, ...]]()
    inferred = _inferred(model, without)
    while found := {o: axes for o, axes in _wrong(model, inferred).items() if o not in without}:
        without |= found
        inferred = _inferred(model, without)
    graph = inferred.graph
    for value in (*graph.input, *graph.output, *graph.value_info):
        old = protos.get(value.name)
        if old is None or not shaped(old):
            protos[value.name] = value.type
    for tensor in model.graph.initializer:
        protos[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
    named = {d.dim_param for x in model.graph.input for d in x.type.tensor_type.shape.dim}
    types = Types(protos, inhabited=positive)
    # Names that inference (ours, or an exporter's) made up mark equal extents, but not known ones.
    types.unknown.update(
        d.dim_param for p in protos.values() for d in p.tensor_type.shape.dim if d.dim_param not in named
    )
    types.taken.update(d.dim_param for p in protos.values() for d in p.tensor_type.shape.dim)
    types.fix_unknown(protos.values())
    return types


def _inferred(model: ModelProto, without: Mapping[str, tuple[int, ...]]) -> ModelProto:
    """The model with what onnx infers; nothing about some axes of some values."""
    bare = skeleton(model)
    for value in (*bare.graph.input, *bare.graph.output, *bare.graph.value_info):
        for d in value.type.tensor_type.shape.dim:
            if d.dim_value < 0:  # some exporters mark unknown extents so, and inference counts with them
                d.ClearField("dim_value")
    for value in (*bare.graph.output, *bare.graph.value_info) if without else ():
        for d in value.type.tensor_type.shape.dim:
            if d.HasField("dim_value") and not d.dim_value:  # a claim that may come from the same inference
                d.ClearField("dim_value")
    settle(bare.graph)
    follow = not follows_large_values(bare)
    plain = skeleton(model) if prepare(bare, without) else None
    return infer_shapes(bare, data_prop=follow, valid=True, plain=plain)


def _wrong(model: ModelProto, inferred: ModelProto) -> dict[str, tuple[int, ...]]:
    """The axes of values that inference gets wrong, as its answer shows."""
    graph = inferred.graph
    shapes = {
        x.name: [d.dim_value if d.HasField("dim_value") else None for d in x.type.tensor_type.shape.dim]
        for x in (*graph.input, *graph.value_info, *graph.output)
    }
    found = dict[str, tuple[int, ...]]()
    for node in model.graph.node:
        if node.input and unfit(node, shapes.get(node.input[0], ())):
            found.update(dict.fromkeys((o for o in node.output if o), window_axes(node)))
    for node in attending(model.graph.node, model):
        found |= miscounted(node, shapes)
    return found


def captured(node: NodeProto) -> list[str]:
    """Names of outer values that the subgraphs of a node use, in order."""
    found: dict[str, None] = {}
    stack: list[tuple[GraphProto, frozenset[str]]] = [(g, frozenset()) for g in subgraphs(node)]
    while stack:
        graph, outer = stack.pop()
        inner = outer | _defined(graph)
        for child in graph.node:
            found.update(dict.fromkeys(n for n in child.input if n and n not in inner))
            stack.extend((g, inner) for g in subgraphs(child))
        found.update(dict.fromkeys(o.name for o in graph.output if o.name not in inner))
    return list(found)


def _defined(graph: GraphProto) -> frozenset[str]:
    names: Iterable[str] = (
        *(x.name for x in graph.input),
        *(x.name for x in graph.initializer),
        *(x.values.name for x in graph.sparse_initializer),
        *(o for n in graph.node for o in n.output),
    )
    return frozenset(names)
