"""One application of an ONNX operator, wherever its parameters stand: attributes and constant inputs are one table.

Axes, shapes and pads moved from attributes to inputs over the opsets. A `Call` holds them by name; the schema of an
opset says how to spell them in a node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto, helper, numpy_helper

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError, FrontendError
from eqsat.ir.tensors.tensor import Tensor
from eqsat.ir.terms.shape import Shape, normalize_axes
from eqsat.ir.terms.term import Term
from eqsat.onnx.added import added

Type = tuple[Shape, str]


class Declined(EqsatError):
    """An operator, or this use of it, has no formula or signature here: it stays a barrier."""


@dataclass(frozen=True)
class TensorAttr:
    """A tensor-valued attribute, comparable by its bits."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @property
    def array(self) -> NDArray:
        return np.frombuffer(self.data, self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class Call:
    """An operator applied to operands (by input slot, None where absent) with parameters by name.

    `types` are the types of the outputs where they are known from elsewhere; inference made up the symbols in them that
    have the serials `open`; `count` is the number of outputs up to the
    last one that is in use, or that every node of the operator has; `listed` the number of all that the node names.
    """

    op: str
    operands: tuple[Tensor | None, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    opset: int = 17
    domain: str = ""
    types: tuple[Type | None, ...] = ()
    count: int = 1
    listed: int = 1
    open: frozenset[int] = frozenset()

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The operands that are present."""
        return tuple(x for x in self.operands if x is not None)

    @property
    def slots(self) -> tuple[int, ...]:
        """The input positions of `tensors`."""
        return tuple(n for n, x in enumerate(self.operands) if x is not None)

    def one(self) -> Tensor:
        """The only operand; declined where parameters that must be constants are computed."""
        if len(self.tensors) != 1 or self.operands[0] is None:
            raise Declined(self.op, "a parameter is not a constant")
        return self.operands[0]

    def get(self, name: str, default: Any = None) -> Any:
        return self.attrs.get(name, default)

    def parameter(self, name: str) -> Any:
        """A parameter, by default what the schema says; numbers with a point are float32 there as in a node.

        >>> Call("LeakyRelu", ()).parameter("alpha")
        0.009999999776482582
        """
        return self.attrs[name] if name in self.attrs else default(self.op, self.opset, self.domain, name)


@lru_cache(maxsize=4096)
def schema(op: str, opset: int, domain: str = "") -> Any:
    """The operator's schema in an opset, or None where it has none."""
    if domain:
        return added(op, domain)
    try:
        return onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return None


def single(value: float) -> float:
    """A number as the functions by which ONNX defines operators hold it: in float32, whatever the data is."""
    return float(np.float32(value))


@lru_cache(maxsize=4096)
def default(op: str, opset: int, domain: str, name: str) -> Any:
    """What a parameter of an operator is where a node does not give it; Declined where the schema says nothing."""
    found = schema(op, opset, domain)
    if found is None or name not in found.attributes or not found.attributes[name].default_value.name:
        raise Declined(op, f"{name} is not given, and opset {opset} has no default for it")
    return attribute_value(found.attributes[name].default_value)


def schema_default(call: Call, name: str, otherwise: Any) -> Any:
    """What a parameter is where a node does not give it, by the schema of its opset, else as said here.

    >>> schema_default(Call("TopK", (), opset=11), "axis", -2), schema_default(Call("Det", ()), "axis", 3)
    (-1, 3)
    """
    try:
        return default(call.op, call.opset, call.domain, name)
    except Declined:
        return otherwise


_TYPE_NAMES = {"float32": "float", "float64": "double"}


def accepts(call: Call) -> bool:
    """Whether the opset has the operator for the types of the operands.

    >>> from eqsat.ir.tensors.tensor import input
    >>> x = input("x", (2,), "int32")
    >>> accepts(Call("Relu", (x,), opset=13)), accepts(Call("Relu", (x,), opset=14))
    (False, True)
    """
    found = schema(call.op, call.opset, call.domain)
    if found is None:
        return False
    constraints = {c.type_param_str: c.allowed_type_strs for c in found.type_constraints}
    for slot, x in enumerate(call.operands):
        if x is None:
            continue
        if not found.inputs:
            return False
        place = found.inputs[min(slot, len(found.inputs) - 1)].type_str
        name = f"tensor({_TYPE_NAMES.get(x.dtype, x.dtype)})"
        if name not in constraints.get(place, (place,)):
            return False
    return True


def attribute_value(attribute: AttributeProto) -> Any:
    """A plain, hashable value of an attribute; Declined for graphs, sparse tensors and types that are not modelled."""
    kind = attribute.type
    if attribute.ref_attr_name:
        raise Declined(attribute.name, "refers to an attribute of its function")
    if kind == AttributeProto.STRING:
        return attribute.s.decode("utf-8", "surrogateescape")
    if kind in (AttributeProto.INT, AttributeProto.FLOAT):
        return attribute.i if kind == AttributeProto.INT else attribute.f
    if kind == AttributeProto.INTS:
        return tuple(attribute.ints)
    if kind == AttributeProto.FLOATS:
        return tuple(attribute.floats)
    if kind == AttributeProto.TENSOR:
        from eqsat.models.package import dtype_name

        name = dtype_name(attribute.t.data_type)
        if name is not None:
            array = numpy_helper.to_array(attribute.t)
            return TensorAttr(name, tuple(array.shape), np.ascontiguousarray(array).tobytes())
    raise Declined(attribute.name, "an attribute of this type is not modelled")


def parameter(array: NDArray) -> Any:
    """A constant input as a plain value: a number for rank 0, else a tuple."""
    if array.ndim > 1:
        raise Declined("parameter", f"has rank {array.ndim}")
    return array.item() if array.ndim == 0 else tuple(array.tolist())


def symbolic(value: Any) -> bool:
    """Whether a parameter holds symbolic sizes."""
    return any(isinstance(v, Term) for v in items_of(value))


def items_of(value: Any) -> tuple[Any, ...]:
    """A parameter as a tuple: its items, or itself."""
    return tuple(cast("tuple[Any, ...]", value)) if isinstance(value, (tuple, list)) else (value,)


AddConstant = Callable[[NDArray], str]


def to_node(
    call: Call, inputs: Sequence[str], outputs: Sequence[str], add_constant: AddConstant, name: str = ""
) -> NodeProto:
    """The node that spells a call in its opset: `inputs` name its operands by slot ("" where absent).

    Parameters become attributes where the schema has them, else constant inputs; an error where the opset has neither.
    """
    found = schema(call.op, call.opset, call.domain)
    if found is None:
        raise FrontendError(f"ONNX {call.op}", f"does not exist in opset {call.opset}", "raise the model's opset")
    slots = [str(p.name).lower() for p in found.inputs]
    names = list(inputs)
    if "axes" in call.attrs and "axes" not in found.attributes and "axes" not in slots:
        call = _for_all_axes(call)
    attributes: list[AttributeProto] = []
    for key, value in call.attrs.items():
        if key in found.attributes:
            attributes.append(_attribute(key, value, found))
        elif key in slots:
            place = slots.index(key)
            names += [""] * (place + 1 - len(names))
            if names[place]:
                raise FrontendError(f"ONNX {call.op}", f"parameter {key} is given twice")
            names[place] = add_constant(_parameter_array(value, found.inputs[place], found.inputs[0], call))
        else:
            raise FrontendError(
                f"ONNX {call.op}", f"opset {call.opset} cannot express {key}={value}", "raise the opset"
            )
    while names and not names[-1]:
        names.pop()
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    for place, given in enumerate(names[: len(slots)]):
        if not given and found.inputs[place].option == single:  # older opsets want an empty tensor
            names[place] = add_constant(np.zeros(0, np.float32))
    node = NodeProto(op_type=call.op, name=name, domain=call.domain, input=names, output=list(outputs))
    node.attribute.extend(sorted(attributes, key=lambda a: a.name))
    return node


def _for_all_axes(call: Call) -> Call:
    """A call whose lists are for the axes that it names, as one that has them for all axes of its output: a size is
    what it is there, a scale 1."""
    shape = call.types[0][0] if call.types and call.types[0] is not None else ()
    axes, attrs = items_of(call.attrs["axes"]), {k: v for k, v in call.attrs.items() if k != "axes"}
    for key, value in attrs.items():
        if isinstance(value, tuple) and len(items_of(value)) == len(axes):
            whole: list[Any] = [d if isinstance(items_of(value)[0], int) else 1.0 for d in shape]
            for n, v in zip(axes, items_of(value), strict=True):
                whole[n] = v
            attrs[key] = tuple(whole)
    return replace(call, attrs=attrs)


def _attribute(key: str, value: Any, found: Any) -> AttributeProto:
    if isinstance(value, TensorAttr):
        return helper.make_attribute(key, numpy_helper.from_array(value.array))
    if isinstance(value, str):
        return helper.make_attribute(key, value.encode("utf-8", "surrogateescape"))
    kind = int(found.attributes[key].type)
    if kind == AttributeProto.INTS or kind == AttributeProto.FLOATS:
        value = list(items_of(value))
    elif isinstance(value, tuple):
        value = items_of(value)[0]
    return helper.make_attribute(key, value, attr_type=kind)


def _parameter_array(value: Any, place: Any, first: Any, call: Call) -> NDArray:
    if isinstance(value, TensorAttr):
        return value.array
    text = str(place.type_str)
    if text == str(first.type_str) and call.tensors:
        dtype = call.tensors[0].dtype
    elif text.startswith("tensor("):
        dtype = {"float": "float32", "double": "float64"}.get(text[7:-1], text[7:-1])
    else:
        kinds: set[object] = {type(v) for v in items_of(value)}
        dtype = "bool" if bool in kinds else "float32" if float in kinds else "int64"
    return np.asarray(value, dtype)


def ints(value: Any, op: str) -> list[int]:
    """A parameter as whole numbers."""
    items = items_of(value)
    if not all(isinstance(v, int) for v in items):
        raise Declined(op, "a size is symbolic")
    return [int(v) for v in items]


def reduced_axes(c: Call, x: Tensor) -> tuple[int, ...]:
    """The axes parameter of a reduction; empty where it then does nothing."""
    axes = ints(c.get("axes", ()), c.op)
    if not axes and c.get("noop_with_empty_axes", 0):
        return ()
    return tuple(sorted(normalize_axes(axes or None, x.rank, c.op)))
