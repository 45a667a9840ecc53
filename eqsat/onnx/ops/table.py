"""The table of ONNX operators: an entry is a formula (a View or a Compute) or a signature, and nothing about layouts.

Reading applies an entry to a node; writing proposes a node, applies the entry to it and compares. Both therefore mean
the same, and an operator is added by one entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.tensors.tensor import Compute, Opaque, OperatorImpl, Tag, Tensor, View
from eqsat.ir.terms.shape import Shape
from eqsat.onnx.call import Call, Declined, Type, items_of, symbolic, to_node
from eqsat.onnx.declare import Declared, declare

PREFIX = "onnx:"
OPSET, SLOTS, OUTPUT, LISTED = "onnx.opset", "onnx.slots", "onnx.output", "onnx.listed"
TIED = "onnx.tied."
"""Prefix of a parameter that looks like an axis, but does not follow one axis alone."""
TABLES = ("math", "pointwise", "signatures", "views")
"""The modules of entries."""
SMALL = 64
"""Parameters longer than this are not kept in tags; the formula has them."""

Entry = Callable[[Call], "Tensor | Sequence[Tensor]"]


@dataclass(frozen=True)
class Operator:
    """An entry, and what it understands."""

    entry: Entry
    declared: Declared


_operators: dict[str, Operator] = {}


def define(names: str, inputs: str, attributes: str = "", constants: str = "") -> Callable[[Entry], Entry]:
    """Register one entry for operators of the default domain, with all that it understands (see `declare`)."""

    def register(entry: Entry) -> Entry:
        for name in names.split():
            if name in _operators:
                raise EqsatError(f"ONNX operator {name}", "is defined twice")
            _operators[name] = Operator(entry, declare(inputs, attributes, constants))
        return entry

    return register


def lookup(op: str, domain: str = "") -> Operator | None:
    """The entry of an operator, or None: a barrier.

    >>> lookup("Conv") is not None, lookup("NonZero") is None
    (True, True)
    """
    for table in TABLES:
        import_module(f"eqsat.onnx.ops.{table}")
    return _operators.get(op) if domain in ("", "ai.onnx") else None


def operator_names() -> tuple[str, ...]:
    """All ONNX operators with an entry."""
    lookup("Add")
    return tuple(sorted(_operators))


def apply(call: Call) -> tuple[Tensor, ...]:
    """The outputs of a call as program nodes, tagged with the operator; Declined where it has no entry."""
    found = lookup(call.op, call.domain)
    if found is None:
        raise Declined(f"ONNX {call.op}", "is not in the table")
    call = found.declared.admit(call)
    result = found.entry(call)
    outputs = (result,) if isinstance(result, Tensor) else tuple(result)
    for n, x in enumerate(outputs):
        known = call.types[n] if n < len(call.types) else None
        if known is not None and (known[1] != x.dtype or not _may_agree(known[0], x.shape)):
            raise Declined(f"ONNX {call.op}", f"output {n} is {x!r}, the model says {known}")
    old = {x.node.serial for x in call.tensors}
    for n, x in enumerate(outputs):
        if isinstance(x.node, (View, Compute)) and x.node.serial not in old:
            x.node.tag = _tag(call, n if call.op == "Split" else None)
    return outputs


def _may_agree(a: Shape, b: Shape) -> bool:
    return len(a) == len(b) and all(
        p == q for p, q in zip(a, b, strict=True) if isinstance(p, int) and isinstance(q, int)
    )


def _tag(call: Call, output: int | None) -> Tag:
    def plain(value: Any) -> bool:
        return not symbolic(value) and len(items_of(value)) <= SMALL

    attrs = {k: v for k, v in call.attrs.items() if plain(v)}
    attrs[SLOTS] = call.slots
    if output is not None:
        attrs[OUTPUT], attrs[LISTED] = output, call.listed
    return Tag(PREFIX + call.op, tuple(sorted(attrs.items())))


def tag_call(tag: Tag, operands: Sequence[Tensor], opset: int) -> Call | None:
    """The call that a tag remembers, with the given operands in its slots; None where it is no ONNX operator."""
    if not tag.name.startswith(PREFIX):
        return None
    attrs = {k: v for k, v in tag.attrs if not k.startswith("onnx.")}
    listed = tag.get(LISTED, 1)
    return Call(
        tag.name.removeprefix(PREFIX), in_slots(operands, tag.get(SLOTS, ())), attrs, opset, count=listed, listed=listed
    )


def in_slots(operands: Sequence[Tensor], slots: Sequence[int]) -> tuple[Tensor | None, ...]:
    """Operands at their input positions."""
    table = dict(zip(slots, operands, strict=False))
    return tuple(table.get(n) for n in range(max(table, default=-1) + 1))


# -- operators without a formula ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnnxImpl(OperatorImpl):
    """The numpy meaning of an operator: the node alone in a model, run."""

    call: Call
    types: tuple[Type, ...]

    def __call__(self, *arrays: NDArray) -> list[Any]:
        from onnx import TensorProto, helper, numpy_helper

        from eqsat.models.package import element_type, run_model

        constants: list[TensorProto] = []

        def add(array: NDArray) -> str:
            constants.append(numpy_helper.from_array(array, f"c{len(constants)}"))
            return constants[-1].name

        table = dict(zip(self.call.slots, range(len(arrays)), strict=True))
        names = [f"x{table[n]}" if n in table else "" for n in range(len(self.call.operands))]
        outputs = [f"y{n}" for n in range(len(self.types))]
        node = to_node(self.call, names, outputs, add)
        ins = [
            helper.make_tensor_value_info(f"x{n}", element_type(a.dtype.name), a.shape) for n, a in enumerate(arrays)
        ]
        outs = [
            helper.make_tensor_value_info(y, element_type(d), [None] * len(s))
            for y, (s, d) in zip(outputs, self.types, strict=True)
        ]
        graph = helper.make_graph([node], "one", ins, outs, constants)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid(self.call.domain, self.call.opset)], ir_version=8
        )
        return run_model(model, {f"x{n}": a for n, a in enumerate(arrays)})

    def with_attrs(
        self, node: Opaque, operands: Sequence[Tensor], outputs: Sequence[Type], attrs: Mapping[str, Any]
    ) -> Opaque:
        return with_attrs(node, operands, outputs, attrs)


def opaque(
    call: Call, signature: Signature, outputs: Sequence[Type] | None = None, tied: Sequence[str] = ()
) -> tuple[Tensor, ...]:
    """An operator as one node with a signature; output types come from the model, else from the labels.

    `tied` names parameters that nobody may change to move an axis.
    """
    types = list(outputs) if outputs is not None else _types(call, signature)
    try:
        signature.check([x.shape for x in call.tensors], [s for s, _ in types], call.op)
    except EqsatError as error:
        raise Declined(call.op, error.problem) from error
    attrs = {f"{TIED}{k}" if k in tied else k: v for k, v in call.attrs.items()}
    attrs.update({OPSET: call.opset, SLOTS: call.slots})
    from eqsat.onnx.defined.definitions import definition

    bare = replace(call, operands=tuple(call.operands), types=())
    impl = OnnxImpl(_without_tensors(bare), tuple(types))
    node = Opaque(PREFIX + call.op, call.tensors, types, attrs, signature, impl, definition(call, types))
    return tuple(Tensor(node, n) for n in range(len(types)))


def _without_tensors(call: Call) -> Call:
    """The call with stand-ins for its operands, so that an implementation does not keep a program alive."""
    from eqsat.ir.tensors.tensor import input

    return replace(call, operands=tuple(None if x is None else input("x", (), x.dtype) for x in call.operands))


def _types(call: Call, signature: Signature) -> list[Type]:
    if call.types and all(x is not None for x in call.types):
        return [x for x in call.types if x is not None]
    extents: dict[str, Any] = {}
    for dims, x in zip(signature.operands, call.tensors, strict=True):
        extents.update({d[0]: e for d, e in zip(dims, x.shape, strict=True) if len(d) == 1})
    types: list[Type] = []
    for dims in signature.outputs:
        if any(len(d) > 1 or (d and d[0] not in extents) for d in dims):
            raise Declined(call.op, "the shape of its output is not known")
        types.append((tuple(extents[d[0]] if d else 1 for d in dims), call.tensors[0].dtype))
    return types


def _parameters(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The operator's own parameters among the attributes of a node."""
    plain = {k: v for k, v in attrs.items() if not k.startswith("onnx.")}
    return plain | {k.removeprefix(TIED): v for k, v in attrs.items() if k.startswith(TIED)}


def opaque_call(node: Opaque) -> Call:
    """The call of an Opaque made by the table, in the opset it was read in."""
    attrs = _parameters(node.attrs)
    operands = in_slots(node.operands, node.attrs[SLOTS])
    return Call(
        node.op.removeprefix(PREFIX),
        operands,
        attrs,
        node.attrs[OPSET],
        types=tuple(node.outputs),
        count=len(node.outputs),
    )


def same_roles(a: Signature, b: Signature) -> bool:
    """Whether two signatures are equal up to the names of their labels."""
    if [len(d) for d in (*a.operands, *a.outputs)] != [len(d) for d in (*b.operands, *b.outputs)]:
        return False
    names: dict[str, str] = {}
    back: dict[str, str] = {}
    for p, q in zip((*a.operands, *a.outputs), (*b.operands, *b.outputs), strict=True):
        for d, e in zip(p, q, strict=True):
            if len(d) != len(e):
                return False
            for x, y in zip(d, e, strict=True):
                if names.setdefault(x, y) != y or back.setdefault(y, x) != x or a.role(x) != b.role(y):
                    return False
    return True


def with_attrs(node: Opaque, operands: Sequence[Tensor], types: Sequence[Type], attrs: Mapping[str, Any]) -> Opaque:
    """The same operator over other operands and with other parameters, as the table has it.

    Errors: Declined where the table has no such operator.
    """
    call = replace(opaque_call(node), operands=in_slots(operands, node.attrs[SLOTS]), types=tuple(types))
    made = apply(replace(call, attrs={**call.attrs, **_parameters(attrs)}))[0].node
    if not isinstance(made, Opaque):
        raise Declined(node.op, "is no single node with these parameters")
    return made


def moved(node: Opaque, operands: Sequence[Tensor], types: Sequence[Type], signature: Signature) -> Opaque | None:
    """The same operator over re-laid operands, with outputs of the given types, where ONNX can spell it; else None.

    `signature` is the node's own one with its axes in the wanted order. Only axis parameters change.
    """
    if OPSET not in node.attrs:
        return None
    for attrs in _axis_candidates(opaque_call(node), signature):
        try:
            made = with_attrs(node, operands, types, attrs)
        except EqsatError:
            continue
        if made.signature is not None and same_roles(made.signature, signature):
            return made
    return None


def _axis_candidates(call: Call, wanted: Signature) -> list[Mapping[str, Any]]:
    dims = wanted.operands[0]
    special = tuple(n for n, d in enumerate(dims) if any(wanted.role(x) != "map" for x in d))
    result: list[Mapping[str, Any]] = [{}]
    if "axis" in call.attrs:
        result += [{"axis": n} for n in range(len(dims))]
    if "axes" in call.attrs:
        result.append({"axes": special})
    return result


def merged(call: Call, **attrs: Any) -> Call:
    """A call with some parameters replaced; None removes one."""
    table: Mapping[str, Any] = {**call.attrs, **attrs}
    return replace(call, attrs={k: v for k, v in table.items() if v is not None})
