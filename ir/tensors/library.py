"""Operators that are one node for a target: their formulas by name.

Adding one is one function here, its formula. The output types follow from it, and the signature: which axes of operands
and outputs are one, and what layouts may do to them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from eqsat.ir.dtypes import is_float
from eqsat.ir.errors import EqsatError, TypeMismatch
from eqsat.ir.tensors.incidence import signature_of
from eqsat.ir.tensors.reductions import softmax_formula
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.tensors.tensor import Definition, Opaque, Tensor, data_dtype, input
from eqsat.ir.terms.shape import as_shape, normalize_axis

_operators: dict[str, Definition] = {}


def define(name: str) -> Callable[[Definition], Definition]:
    """Register an operator by its formula: the decorated function makes outputs of operands and attributes.

    >>> import eqsat as eq
    >>> @define("swish")
    ... def swish(x, slope=1.0):
    ...     return x * eq.sigmoid(x * slope)
    >>> y = operator("swish", [eq.input("x", (2, 3), "float32")], {"slope": 2.0})[0]
    >>> str(y.node.signature), y.shape
    ('a0 a1 -> a0 a1', (2, 3))
    """

    def register(definition: Definition) -> Definition:
        if name in _operators:
            raise EqsatError(f"operator {name}", "is defined twice")
        _operators[name] = definition
        return definition

    return register


def operator_names() -> tuple[str, ...]:
    """The names of all defined operators."""
    return tuple(_operators)


def operator_node(name: str, operands: Sequence[Tensor], attrs: Mapping[str, Any] | None = None) -> Opaque:
    """The node of a defined operator; an error where the name or the attributes are not known."""
    if name not in _operators:
        known = ", ".join(sorted(_operators))
        raise EqsatError(f"operator {name!r}", "is not defined", f"one of {known}, or eq.opaque")
    values = dict(attrs or {})
    try:
        inspect.signature(_operators[name]).bind(*operands, **values)
    except TypeError as error:
        raise EqsatError(f"operator {name}", str(error)) from error
    definition = partial(_operators[name], **values)
    inputs = [input(f"operand{n}", x.shape, x.dtype) for n, x in enumerate(operands)]
    made = definition(*inputs)
    outputs = [made] if isinstance(made, Tensor) else list(made)
    types = [(y.shape, y.dtype) for y in outputs]
    return Opaque(name, operands, types, values, signature_of(inputs, outputs), definition=definition)


def operator(name: str, operands: Sequence[Tensor], attrs: Mapping[str, Any] | None = None) -> list[Tensor]:
    """The outputs of a defined operator.

    >>> import eqsat as eq
    >>> operator("softmax", [eq.input("x", (2, 3), "float32")], {"axis": 1})[0].shape
    (2, 3)
    """
    node = operator_node(name, operands, attrs)
    return [Tensor(node, k) for k in range(len(node.outputs))]


def opaque(
    op: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[tuple[Any, Any]],
    attrs: Mapping[str, Any] | None = None,
    signature: Signature | None = None,
    impl: Callable[..., Any] | None = None,
    pure: bool = True,
) -> list[Tensor]:
    """An operator without a formula; `impl(*arrays)` computes numpy outputs, no signature makes it a barrier.

    >>> import eqsat as eq
    >>> x = eq.input("x", (2, 3), "float32")
    >>> eq.opaque("MyOp", [x], outputs=[((2, 3), "float32")])[0].shape
    (2, 3)
    """
    types = [(as_shape(s), data_dtype(d)) for s, d in outputs]
    node = Opaque(op, inputs, types, attrs, signature, impl, pure=pure)
    return [Tensor(node, k) for k in range(len(types))]


@define("softmax")
def _softmax(x: Tensor, axis: int) -> Tensor:
    if not is_float(x.dtype):
        raise TypeMismatch(f"softmax of {x!r}", f"needs a float type, not {x.dtype}")
    return softmax_formula(x, (normalize_axis(axis, x.rank, "softmax"),))
