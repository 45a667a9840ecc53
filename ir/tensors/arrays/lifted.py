"""Functions of terms and tensors alike: what a term gives to a scalar, a tensor gives to numpy's rules of types."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any, Protocol, overload

from eqsat.ir.errors import TypeMismatch
from eqsat.ir.tensors import pointwise
from eqsat.ir.tensors.arrays import ufuncs
from eqsat.ir.tensors.arrays.types import common, elementwise, loop_types, refuse
from eqsat.ir.tensors.tensor import Tensor
from eqsat.ir.terms import build
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, TermLike

OUT = "use what it returns; a kernel writes to out="


class Unary(Protocol):
    """A function of one term or tensor."""

    @overload
    def __call__(self, a: Term, /) -> Term: ...
    @overload
    def __call__(self, a: Tensor, /, *, out: None = None, where: bool = True, dtype: Any = None) -> Tensor: ...


class Binary(Protocol):
    """A function of two operands: terms and numbers, or tensors, arrays and numbers."""

    @overload
    def __call__(self, a: Tensor, b: Any, /, *, out: None = None, where: bool = True, dtype: Any = None) -> Tensor: ...
    @overload
    def __call__(self, a: Any, b: Tensor, /, *, out: None = None, where: bool = True, dtype: Any = None) -> Tensor: ...
    @overload
    def __call__(self, a: TermLike, b: TermLike, /) -> Term: ...


def _described(function: Callable[..., Any], name: str, text: str, example: str) -> Any:
    """The function under its public name; the docstring has an example, an expression and what it prints."""
    call, _, shown = example.partition(" is ")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{text}\n\n    >>> import eqsat as eq\n    >>> {call}\n    {shown}\n    "
    return function


def refuse_targets(name: str, out: Any, where: Any) -> None:
    """Refuse numpy's keywords that say where a result goes."""
    refuse(name, "out", out, OUT)
    refuse(name, "where", None if where is True else where, "eq.where(mask, result, other)")


def _tensors(name: str, ufunc: str, operands: tuple[Any, ...], out: Any, where: Any, dtype: Any) -> Tensor:
    """A function of tensors; by the name of numpy's ufunc, or of one that numpy lacks."""
    refuse_targets(name, out, where)
    if ufunc in ufuncs.UFUNCS:
        return ufuncs.apply(ufunc, *operands, dtype=dtype)
    refuse(name, "dtype", dtype, "x.astype(dtype) converts")
    return _ONLY_HERE[ufunc](*operands)


def _as_exp(name: str, scalar: Callable[[Term], Term]) -> Callable[[Any], Tensor]:
    """A float function that numpy lacks, in the types of exp."""
    return lambda a: elementwise(name, scalar, loop_types("exp", [a])[0], a)


def _in_common(op: str) -> Callable[[Any, Any], Tensor]:
    """An operator that numpy lacks, in the operands' common type."""

    def apply(a: Any, b: Any) -> Tensor:
        x, y = common(op, a, b)
        return pointwise.operator(op, x, y)

    return apply


_ONLY_HERE: dict[str, Callable[..., Tensor]] = {
    "erf": _as_exp("erf", lambda a: t.unary("erf", a)),
    "sigmoid": _as_exp("sigmoid", build.sigmoid),
    "truncdiv": _in_common("truncdiv"),
    "truncmod": _in_common("truncmod"),
}


def unary_function(name: str, ufunc: str, scalar: Callable[[Term], Term], text: str, example: str) -> Unary:
    """A function of one operand, a term or a tensor."""

    def apply(a: Any, /, *, out: None = None, where: Any = True, dtype: Any = None) -> Any:
        if isinstance(a, Tensor):
            return _tensors(name, ufunc, (a,), out, where, dtype)
        if not isinstance(a, Term):
            raise TypeMismatch(f"{name} of {a!r}", "not a term or a tensor", "eq.const(value, dtype) makes a term")
        return scalar(a)

    return typing.cast(Unary, _described(apply, name, text, example))


def float_function(name: str, ufunc: str, what: str, at: str, value: str) -> Unary:
    """A function of floats, as numpy computes it, and its value at a point."""
    text = f"{what}, of a float term or each element of a tensor, in the precision in which numpy computes it."
    example = f'print(eq.{name}(eq.const({at}, "float64")).evaluate({{}})) is {value}'
    known = ufuncs.UFUNCS.get(ufunc)

    def scalar(a: Term) -> Term:
        return t.unary(name, a) if known is None or name in t.FLOAT_UNARY + t.FLOAT_TEST else known[1](a)

    return unary_function(name, ufunc, scalar, text, example)


def binary_function(name: str, ufunc: str, scalar: Callable[[Any, Any], Term], text: str, example: str) -> Binary:
    """A function of two operands, terms or tensors."""

    def apply(a: Any, b: Any, /, *, out: None = None, where: Any = True, dtype: Any = None) -> Any:
        if isinstance(a, Tensor) or isinstance(b, Tensor):
            return _tensors(name, ufunc, (a, b), out, where, dtype)
        return scalar(a, b)

    text = f"{text} Of terms and numbers, or of tensors by element, broadcast."
    return typing.cast(Binary, _described(apply, name, text, example))
