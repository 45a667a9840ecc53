"""Operators of domains that eqsat does not know, by the signatures that a user or a package has told of them.

They hold inside of `telling`: what reads and writes models there takes such a node for an operator with that signature,
the same on the same operands with the same attributes. Elsewhere it is carried as it stands.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from onnx import NodeProto, helper, numpy_helper

from eqsat.ir.errors import EqsatError
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.tensors.told import KnownOperator
from eqsat.onnx.call import Call, Declined, TensorAttr, Type

SEPARATOR = "::"
_told: ContextVar[Mapping[str, KnownOperator] | None] = ContextVar("told", default=None)


@contextmanager
def telling(operators: Mapping[str, KnownOperator]) -> Generator[None]:
    """Let the operators of these names, `DOMAIN::NAME`, have signatures inside of the block."""
    before = _told.set({name: x for name, x in operators.items() if SEPARATOR in name})
    try:
        yield
    finally:
        _told.reset(before)


def told(domain: str, op: str) -> KnownOperator | None:
    """What was told of an operator of a domain."""
    return (_told.get() or {}).get(f"{domain}{SEPARATOR}{op}")


def is_custom(op: str) -> bool:
    """Whether the operator of a call is one of a domain that eqsat does not know."""
    return SEPARATOR in op


def domain_of(op: str) -> str:
    """The domain of a custom operator.

    >>> domain_of("com.acme::FusedGelu")
    'com.acme'
    """
    return op.partition(SEPARATOR)[0]


def signature_and_types(call: Call) -> tuple[Signature, list[Type]]:
    """The signature of a custom operator over its operands, and the types of its outputs: of the model where it has
    them, else by the labels, in the type of the first operand. Declined where it has neither, or they do not fit."""
    known = told(domain_of(call.op), call.op.partition(SEPARATOR)[2])
    if known is None:
        raise Declined(call.op, "no signature was told")
    if None in call.operands or not call.operands:
        raise Declined(call.op, "leaves out an input")
    shapes = [x.shape for x in call.tensors]
    given = [k for k in call.types[: call.count] if k is not None]
    try:
        if len(given) < call.count:
            found = known.shapes(shapes)
            if found is None or len(found) < call.count:
                raise Declined(call.op, "the type of an output is not known")
            given = [(s, call.tensors[0].dtype) for s in found[: call.count]]
        return known.signature(shapes, [s for s, _ in given]), given
    except Declined:
        raise
    except EqsatError as error:
        raise Declined(call.op, error.problem) from error


def custom_node(call: Call, inputs: Sequence[str], outputs: Sequence[str], name: str = "") -> NodeProto:
    """The node of a call: nothing is known of its attributes, so they are as they were read."""
    domain, _, op = call.op.partition(SEPARATOR)
    node = NodeProto(op_type=op, name=name, domain=domain, input=list(inputs), output=list(outputs))
    for key, value in sorted(call.attrs.items()):
        plain: Any = value
        if isinstance(value, TensorAttr):
            plain = numpy_helper.from_array(value.array)
        elif isinstance(value, str):
            plain = value.encode("utf-8", "surrogateescape")
        elif isinstance(value, tuple):
            plain = list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        node.attribute.append(helper.make_attribute(key, plain))
    return node
