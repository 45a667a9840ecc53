"""Operators that are one node for a target but have a definition: name -> outputs, signature and definition.

Adding one is one function here: it answers an `OperatorSpec` for given operands and attributes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat.ir.dtypes import is_float
from eqsat.ir.errors import EqsatError, TypeMismatch
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.tensors.tensor import Opaque, Tensor, data_dtype
from eqsat.ir.terms.shape import Shape, as_shape, normalize_axis

Definition = Callable[..., "Tensor | Sequence[Tensor]"]


@dataclass(frozen=True)
class OperatorSpec:
    """What an operator makes of its operands: output types, what layouts may do to it, and its meaning."""

    outputs: tuple[tuple[Shape, str], ...]
    signature: Signature
    definition: Definition


Spec = Callable[..., OperatorSpec]
_operators: dict[str, Spec] = {}


def define(name: str) -> Callable[[Spec], Spec]:
    """Register an operator; the decorated function answers its OperatorSpec from (operands, attrs)."""

    def register(spec: Spec) -> Spec:
        if name in _operators:
            raise EqsatError(f"operator {name}", "is defined twice")
        _operators[name] = spec
        return spec

    return register


def operator_names() -> tuple[str, ...]:
    """The names of all defined operators."""
    return tuple(_operators)


def specification(name: str, operands: Sequence[Tensor], attrs: Mapping[str, Any] | None = None) -> OperatorSpec:
    """What a defined operator makes of these operands; an error where the name or the attributes are not known."""
    if name not in _operators:
        known = ", ".join(sorted(_operators))
        raise EqsatError(f"operator {name!r}", "is not defined", f"one of {known}, or eq.opaque")
    try:
        inspect.signature(_operators[name]).bind(tuple(operands), **dict(attrs or {}))
    except TypeError as error:
        raise EqsatError(f"operator {name}", str(error)) from error
    return _operators[name](tuple(operands), **dict(attrs or {}))


def operator(name: str, operands: Sequence[Tensor], attrs: Mapping[str, Any] | None = None) -> list[Tensor]:
    """The outputs of a defined operator.

    >>> import eqsat as eq
    >>> operator("softmax", [eq.input("x", (2, 3), "float32")], {"axis": 1})[0].shape
    (2, 3)
    """
    spec = specification(name, operands, attrs)
    values = dict(attrs or {})
    node = Opaque(name, operands, spec.outputs, values, spec.signature, definition=spec.definition)
    return [Tensor(node, k) for k in range(len(spec.outputs))]


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
def _softmax(operands: tuple[Tensor, ...], axis: int) -> OperatorSpec:
    from eqsat.ir.tensors.reductions import softmax_definition

    if len(operands) != 1:
        raise TypeMismatch("softmax", f"{len(operands)} operands, expected 1")
    x = operands[0]
    if not is_float(x.dtype):
        raise TypeMismatch(f"softmax of {x!r}", f"needs a float type, not {x.dtype}")
    n = normalize_axis(axis, x.rank, "softmax")
    labels = tuple((f"a{k}",) for k in range(x.rank))
    roles = {f"a{k}": "equivariant" if k == n else "map" for k in range(x.rank)}
    signature = Signature((labels,), (labels,), roles)

    def definition(y: Tensor) -> Tensor:
        return softmax_definition(y, n)

    return OperatorSpec(((x.shape, x.dtype),), signature, definition)
