"""What operands become, and in which types numpy computes: Python numbers are weak, all else has its own type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from eqsat.ir.dtypes import BOOL, ELEMENTS, INDEX, NDArray, is_float
from eqsat.ir.errors import ShapeError, TypeMismatch
from eqsat.ir.tensors import pointwise
from eqsat.ir.tensors.tensor import Tensor, constant, data_dtype, tensor_of
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, check_real


class DataType(str):
    """The name of a data type, equal to what tensors have as `.dtype`; called, it makes one number of the type.

    >>> import eqsat as eq
    >>> eq.input("x", (2,), "float32").dtype == eq.float32, eq.float32(2)
    (True, np.float32(2.0))
    """

    __slots__ = ()

    def __call__(self, value: Any = 0) -> np.generic[Any]:
        return np.dtype(str(self)).type(value)


def is_weak(value: Any) -> bool:
    """Whether a value is a Python number, which takes the type of what it meets."""
    return isinstance(value, (bool, int, float)) and not isinstance(value, np.generic)


def truth(value: Any, what: str) -> Tensor:
    """An operand as bools: whether each element is not 0."""
    x = as_tensor(value, what)
    return x if x.dtype == BOOL else pointwise.pointwise("not_equal", lambda a: t.compare("ne", a, 0), x)


def as_tensor(value: Any, what: str, like: str | None = None) -> Tensor:
    """A tensor from a tensor, a load without axes, an array or numbers; a Python number takes the type `like`.

    >>> as_tensor([1, 2, 3], "stack").dtype, as_tensor(1, "add", "int8").dtype
    ('int64', 'int8')
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Term):
        return tensor_of(value, what)
    if like is not None and (like == BOOL or isinstance(value, bool)) and is_weak(value):
        return constant(np.asarray(value).astype(like))
    if is_weak(value) and like is not None:
        return constant(t.const_value(t.const(value, like)))
    if isinstance(value, (bool, int, float, np.generic, np.ndarray)):
        return constant(value)
    if isinstance(value, (list, tuple)):
        if _tensors_in(cast("Sequence[Any]", value)):
            raise TypeMismatch(f"{what} of a list", "holds tensors", "eq.stack(xs) makes one tensor")
        return constant(cast(Any, value))
    raise TypeMismatch(f"{what} of {type(value).__name__}", "is not a tensor, an array or a number")


def _tensors_in(values: Sequence[Any]) -> bool:
    return any(
        _tensors_in(cast("Sequence[Any]", v)) if isinstance(v, (list, tuple)) else isinstance(v, (Tensor, Term))
        for v in values
    )


def type_of(value: Any, what: str) -> Any:
    """What numpy's rules of types are asked about: Python's type of a weak number, else the data type."""
    if isinstance(value, (bool, np.bool_)):
        return np.dtype(BOOL)
    if is_weak(value):
        return int if isinstance(value, int) else float
    if isinstance(value, Term) and value.dtype != INDEX:
        return np.dtype(value.dtype)
    return np.dtype(as_tensor(value, what).dtype)


def result_type(what: str, *values: Any) -> str:
    """The type in which numpy combines operands.

    >>> result_type("add", constant([1], "int8"), 2), result_type("add", constant([1], "int8"), 0.5)
    ('int8', 'float64')
    """
    weak: dict[Any, Any] = {int: 1, float: 1.0}
    kinds = [type_of(v, what) for v in values]
    try:
        parts: list[Any] = [k if isinstance(k, np.dtype) else weak[k] for k in kinds]
        name = str(np.result_type(*parts).name)
    except TypeError as error:
        raise TypeMismatch(what, str(error)) from error
    return supported(what, name)


def supported(what: str, name: str) -> str:
    if name not in ELEMENTS:
        raise TypeMismatch(what, f"its result type would be {name}", f"one of {', '.join(ELEMENTS)}")
    return name


def loop_types(name: str, values: Sequence[Any], dtype: Any = None) -> tuple[tuple[str, ...], str]:
    """The types of operands and result of a numpy ufunc: those of its loop for such operands.

    >>> loop_types("exp", [constant([1], "int8")])
    (('float16',), 'float16')
    """
    ufunc: Any = getattr(np, name)
    if len(values) != ufunc.nin:
        raise TypeMismatch(name, f"{len(values)} operands, not {ufunc.nin}")
    kinds = tuple(type_of(v, name) for v in values)
    chosen = {} if dtype is None else {"signature": (*(None,) * ufunc.nin, np.dtype(data_dtype(dtype)))}
    try:
        found: Any = ufunc.resolve_dtypes((*kinds, None), **chosen)
    except (TypeError, ValueError) as error:
        shown = ", ".join(k.name if isinstance(k, np.dtype) else f"a Python {k.__name__}" for k in kinds)
        raise TypeMismatch(f"{name} of {shown}", str(error).split("\n")[0], "x.astype(dtype) converts") from error
    names = [supported(name, d.name) for d in found]
    check_real(name, *names)
    return tuple(names[:-1]), names[-1]


def common(what: str, *values: Any, dtype: Any = None) -> list[Tensor]:
    """Operands as tensors of numpy's common type, or of the one given."""
    target = result_type(what, *values) if dtype is None else data_dtype(dtype)
    return [pointwise.cast(as_tensor(v, what, target), target) for v in values]


def elementwise(tag: str, scalar: Callable[..., Term], types: Sequence[str], *values: Any) -> Tensor:
    """A scalar function of operands converted to `types`, broadcast."""
    operands = [pointwise.cast(as_tensor(v, tag, d), d) for v, d in zip(values, types, strict=True)]
    return pointwise.pointwise(tag, scalar, *operands)


def float_type(dtype: str) -> str:
    """The type in which numpy averages: float64 for whole numbers and bools.

    >>> float_type("uint8"), float_type("float16")
    ('float64', 'float16')
    """
    return dtype if is_float(dtype) else "float64"


def sum_type(dtype: str) -> str:
    """The type in which numpy sums: whole numbers and bools in at least the platform's integer."""
    return np.add.reduce(np.empty(0, dtype)).dtype.name


def refuse(what: str, keyword: str, value: Any, fix: str) -> None:
    """Refuse a numpy keyword that a program cannot have, with what to write in its place."""
    if value is not None:
        raise TypeMismatch(what, f"takes no {keyword}=", fix)


def array_of(value: Any, what: str) -> NDArray:
    """Constant whole numbers as an array."""
    given: NDArray = np.asarray(value)
    if given.size and given.dtype.kind not in "iu":
        raise ShapeError(what, f"{value!r} are not integers")
    return given.astype(np.int64)
