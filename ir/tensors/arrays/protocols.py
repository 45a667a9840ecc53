"""numpy's own functions on tensors: `np.exp(x)`, `np.transpose(x)` and `np.add(a, x)` give what eqsat's give.

What eqsat does not have is an error that names the alternative; nothing makes an array of a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from eqsat.ir.errors import MissingMethod, TypeMismatch
from eqsat.ir.tensors.arrays import namespace, reducing
from eqsat.ir.tensors.arrays.types import as_tensor
from eqsat.ir.tensors.arrays.ufuncs import UFUNCS, apply
from eqsat.ir.tensors.tensor import Tensor

MODULES = ("numpy", "numpy.linalg", "numpy.lib.stride_tricks", "numpy.lib._stride_tricks_impl")
RENAMED = {"amax": "max", "amin": "min", "around": "round", "cumulative_sum": "cumsum", "cumulative_prod": "cumprod"}
"""numpy's second names of functions."""

INSTEAD = {
    "array2string": "str(x)",
    "array_repr": "repr(x)",
    "array_str": "str(x)",
    "argsort": "sort the array that eq.evaluate gives",
    "average": "(x * weights).sum(axis) / weights.sum(axis)",
    "block": "eq.concatenate",
    "choose": "eq.where",
    "compress": "x[mask] with a constant mask, or eq.where",
    "copy": "x itself: a tensor is never written",
    "copyto": "eq.where(mask, new, old)",
    "cross": "eq.einsum, or products of x[..., k]",
    "delete": "eq.take with the positions to keep",
    "divmod": "divmod(x, y)",
    "empty_like": "eq.zeros_like",
    "extract": "x[mask] with a constant mask",
    "fill_diagonal": "eq.where(eq.eye(n, dtype=bool), value, x)",
    "histogram": "eq.compute with a sum over eq.where",
    "insert": "eq.concatenate of slices",
    "isclose": "eq.abs(a - b) <= atol + rtol * eq.abs(b)",
    "allclose": "eq.verify, or np.allclose of what eq.evaluate gives",
    "array_equal": "eq.verify, or np.array_equal of what eq.evaluate gives",
    "kron": "eq.einsum('ij,kl->ikjl', a, b).reshape(...)",
    "median": "the median of the array that eq.evaluate gives",
    "nan_to_num": "eq.where(eq.isnan(x), 0.0, x)",
    "nanmax": "eq.where(eq.isnan(x), -eq.inf, x).max(axis)",
    "nanmean": "x.mean(axis, where=~eq.isnan(x))",
    "nansum": "x.sum(axis, where=~eq.isnan(x))",
    "nonzero": "a mask and eq.where: a shape cannot depend on data",
    "place": "eq.where(mask, new, old)",
    "put": "eq.where(mask, new, old)",
    "put_along_axis": "eq.compute",
    "putmask": "eq.where(mask, new, old)",
    "save": "eq.onnx.save, or np.save of what eq.evaluate gives",
    "searchsorted": "(edges <= x[..., None]).sum(-1)",
    "select": "eq.where inside of eq.where",
    "sort": "the sort of the array that eq.evaluate gives",
    "take_along_axis": "eq.compute with x[i, eq.cast(index[i, j], 'index')]",
    "unique": "np.unique of what eq.evaluate gives",
    **dict.fromkeys(("item", "tolist", "tobytes", "data", "flat"), "eq.evaluate gives an array, which has it"),
    **dict.fromkeys(("strides", "flags", "ctypes", "base"), "a tensor has no memory; arrays of eq.evaluate have"),
    **dict.fromkeys(("fill", "resize"), "a tensor is never written; eq.full, eq.pad and slices make others"),
    "view": "x.astype computes with another type",
}
"""What to write for functions of numpy, and methods of its arrays, that tensors lack."""

REDUCED: dict[str, Callable[..., Any]] = {
    "add": reducing.sum, "multiply": reducing.prod, "maximum": reducing.max, "minimum": reducing.min,
    "logical_or": reducing.any, "logical_and": reducing.all,
}  # fmt: skip
RUNNING: dict[str, Callable[..., Any]] = {"add": reducing.cumsum, "multiply": reducing.cumprod}
ANY = "eq.compute writes any formula; eq.evaluate gives an array"
OUT = "write a = a + x for a += x, or use what it returns"


@cache
def _functions() -> Mapping[str, Callable[..., Any]]:
    return {name: getattr(namespace, name) for name in namespace.__all__}


def array_function(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A function of numpy that was called with a tensor: eqsat's of the same name."""
    name = str(func.__name__)
    module = str(func.__module__)
    found = _functions().get(RENAMED.get(name, name)) if module in MODULES else None
    if found is None:
        known = INSTEAD.get(name, ANY)
        raise TypeMismatch(f"{module.replace('numpy', 'np', 1)}.{name} of a tensor", "is not there for tensors", known)
    try:
        return found(*args, **{k: v for k, v in kwargs.items() if k not in ("like", "subok")})
    except TypeError as error:
        raise TypeMismatch(f"np.{name} of a tensor", str(error), f"see help(eq.{found.__name__})") from error


def missing(name: str) -> AttributeError:
    """The error of an attribute that tensors lack: what to write instead of one of numpy's arrays."""
    if name.startswith("_") or not hasattr(np.ndarray, name):
        return AttributeError(f"'Tensor' object has no attribute {name!r}")
    return MissingMethod(f"x.{name} of a tensor", "is not there for tensors", INSTEAD.get(name, ANY))


def array_ufunc(ufunc: Any, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A ufunc of numpy that was called with a tensor."""
    name = str(ufunc.__name__)
    what = f"np.{name}" + ("" if method == "__call__" else f".{method}")
    options = dict(kwargs)
    if any(o is not None for o in options.pop("out", None) or ()):
        raise TypeMismatch(what, "takes no out= for tensors", OUT)
    if method == "__call__":
        return _called(name, what, inputs, options)
    if method == "reduce" and name in REDUCED:
        initial = options.pop("initial", None)
        more = {} if initial is None else {"initial": initial}
        axis = inputs[1] if len(inputs) > 1 else options.pop("axis", 0)
        return REDUCED[name](inputs[0], axis, **more, **options)
    if method == "accumulate" and name in RUNNING:
        return RUNNING[name](*inputs, **{"axis": 0, **options})
    if method == "outer" and len(inputs) == 2:
        a, b = (as_tensor(v, what) for v in inputs)
        return _called(name, what, (a[(..., *(None,) * b.rank)], b), options)
    known = {"reduce": "x.sum(axis), x.max(axis), ...", "accumulate": "eq.cumsum, eq.cumprod", "at": "eq.where"}
    raise TypeMismatch(what, "is not there for tensors", known.get(method, "eq.compute writes any formula"))


def _called(name: str, what: str, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
    where = options.pop("where", True)
    if where is not True:
        raise TypeMismatch(what, "takes no where= for tensors", "eq.where(mask, result, other)")
    dtype = options.pop("dtype", None)
    for key in ("casting", "order", "subok"):
        options.pop(key, None)
    axis = {key: options.pop(key) for key in ("axis",) if name == "vecdot" and key in options}
    if options:
        raise TypeMismatch(what, f"takes no {next(iter(options))}= for tensors", "x.astype(dtype) converts")
    if name in UFUNCS:
        return apply(name, *inputs, dtype=dtype)
    if name == "matmul":
        return namespace.matmul(*inputs, dtype=dtype)
    if name == "vecdot":
        return namespace.vecdot(*inputs, **axis)
    known = INSTEAD.get(name, ANY)
    raise TypeMismatch(what, "is not there for tensors", known)


def refuse_array(x: Tensor) -> Any:
    """The error of `np.asarray(x)`."""
    raise TypeMismatch(f"array of {x!r}", "a tensor has no values until it is evaluated", "use eq.evaluate")
