"""Shape arithmetic on symbolic sizes: what Shape, Gather, Concat, ... of tiny tensors compute, as index terms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from eqsat.ir.errors import EqsatError
from eqsat.ir.flat.size_terms import as_extent, as_size
from eqsat.ir.flat.sizes import Size, div, least, leaves_room, total
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, as_dim
from eqsat.ir.terms.term import Term
from eqsat.onnx.call import Call, Declined
from eqsat.onnx.ops.views import extents
from eqsat.onnx.slice import taken

Sizes = np.ndarray[Any, np.dtype[np.object_]]
MOST = 64
"""Tensors of more elements are no shapes."""


def size_array(items: Sequence[Any]) -> Sizes:
    """A vector of numbers and index terms."""
    result = np.empty(len(items), object)
    result[:] = list(items)
    return result


def sizes_of(call: Call, values: Mapping[int, Sizes]) -> Sizes | None:
    """The value of a node over symbolic sizes; `values` are the known operands by slot. None: not shape arithmetic."""
    try:
        return _value(call, values)
    except (EqsatError, ValueError, IndexError, TypeError):
        return None  # not a value that shape arithmetic has; the node then stays a barrier


def _value(call: Call, values: Mapping[int, Sizes]) -> Sizes | None:
    x, op = values.get(0), call.op
    if op == "Shape" and call.operands and call.operands[0] is not None:
        return size_array(call.operands[0].shape[slice(call.get("start", 0), call.get("end"))])
    if len(values) != len(call.tensors) or x is None:
        return None
    if op in ("Identity", "Cast"):
        return x if op == "Identity" or call.get("to") in (6, 7) else None
    if op == "Concat":
        return np.concatenate([np.atleast_1d(v) for v in values.values()])
    if op == "Gather":
        picked = values[1].astype(np.int64)
        return size_array([x[int(k)] for k in picked.reshape(-1)]).reshape(picked.shape) if x.ndim == 1 else None
    if op == "Squeeze":
        return x.reshape(()) if x.size == 1 else None
    if op == "Unsqueeze" or (op == "Reshape" and len(call.get("shape", ())) == 1):
        return x.reshape(-1)
    if op == "Slice":
        starts, ends, steps = (call.get(k, (1,) if k == "steps" else ()) for k in ("starts", "ends", "steps"))
        if x.ndim != 1 or not len(starts) == len(ends) == len(steps) == 1 or steps[0] == 0:
            return None
        if not all(isinstance(bound, int) for bound in (starts[0], ends[0])):
            return None
        first, count = taken(x.size, int(starts[0]), int(ends[0]), int(steps[0]))
        return x[first + int(steps[0]) * np.arange(count)]
    if op == "ReduceProd":
        total = size_array([t.product([t.as_index(v) for v in x.reshape(-1)])])
        return total if call.get("keepdims", 1) else total.reshape(())
    if op in ELEMENTWISE:
        return reduce(lambda a, b: _broadcast(ELEMENTWISE[op], a, b), values.values())
    if op == "Where":
        return _broadcast(_chosen, x, values[1], values[2])
    if op == "Expand":
        wanted = [_whole(n) for n in call.attrs["shape"]]
        return np.broadcast_to(x, np.broadcast_shapes(wanted, x.shape)) if prod(wanted) <= MOST else None
    return None


def _broadcast(function: Callable[..., Any], *operands: Sizes) -> Sizes:
    every = np.broadcast_arrays(*operands)
    return size_array([function(*row) for row in zip(*(x.reshape(-1) for x in every), strict=True)]).reshape(
        every[0].shape
    )


def _chosen(condition: Any, a: Any, b: Any) -> Any:
    return a if _whole(condition) else b


def _whole(n: Any) -> int:
    found = _plain(n)
    if isinstance(found, Term):
        raise Declined("sizes", f"{n} is no number")
    return int(found)


def _size(n: Any) -> Size:
    found = _plain(n)
    return as_size(as_dim(found)) if isinstance(found, Term) else int(found)


def _most(a: Any, b: Any) -> Any:
    """The larger one of two sizes, where that is certain."""
    x, y = _size(a), _size(b)
    if leaves_room(x, y):
        return b
    if leaves_room(y, x):
        return a
    raise Declined("Max", f"{a} may be less than {b}, and more")


def _least(a: Any, b: Any) -> Any:
    return b if _most(a, b) is a else a


def _equal(a: Any, b: Any) -> int:
    """Whether two sizes are equal, where that is certain."""
    x, y = _size(a), _size(b)
    if leaves_room(x, y) and leaves_room(y, x):
        return 1
    if leaves_room(total(x, 1), y) or leaves_room(total(y, 1), x):
        return 0
    raise Declined("Equal", f"{a} may be {b}, or not")


def _quotient(a: Term, b: Term) -> Term:
    """An exact quotient; where there is a rest, rounding would have to be known."""
    quotient = div(as_size(as_dim(a)), as_size(as_dim(b)))
    if quotient is None:
        raise Declined("Div", f"{a} does not divide by {b}")
    return t.as_index(as_extent(quotient))


ELEMENTWISE: dict[str, Callable[[Any, Any], Any]] = {
    "Add": lambda a, b: t.as_index(a) + t.as_index(b),
    "Sub": lambda a, b: t.as_index(a) - t.as_index(b),
    "Mul": lambda a, b: t.as_index(a) * t.as_index(b),
    "Div": lambda a, b: _quotient(t.as_index(a), t.as_index(b)),
    "Max": _most,
    "Min": _least,
    "Equal": _equal,
}


def _plain(v: Any) -> Any:
    number = t.int_value(v) if isinstance(v, Term) else int(v)
    return v if number is None else number


def as_parameter(value: Sizes) -> Any:
    """Sizes as a parameter of a call: numbers where they are numbers."""
    return _plain(value.reshape(-1)[0]) if value.ndim == 0 else tuple(_plain(v) for v in value)


def asked_for(call: Call) -> Iterator[tuple[Dim, Dim]]:
    """The extents that a Reshape is asked for while the model runs, each with what it makes instead of 0: the extent of
    its operand there, or 1 where it makes nothing at all.

    >>> from eqsat.ir.tensors.tensor import input
    >>> n, m = t.sym("N", lower=0), t.sym("M", lower=0)
    >>> x = input("x", (n, m, 6), "float32")
    >>> [(str(a), str(b)) for a, b in asked_for(Call("Reshape", (x,), {"shape": (n, 2, m * 3)}, 13))]
    [('N', 'N'), ('3*M', '6')]
    >>> [(str(a), str(b)) for a, b in asked_for(Call("Reshape", (x,), {"shape": (0, -1)}, 13))]
    [('N', '1')]
    """
    if call.op != "Reshape" or call.domain or call.get("allowzero", 0) or call.get("shape") is None:
        return
    source, wanted = call.tensors[0].shape, extents(call.attrs["shape"])
    for n, d in enumerate(wanted):
        if isinstance(d, Term):
            yield d, source[n] if n < len(source) else 1
    if any(isinstance(d, int) and d == -1 for d in wanted):  # of nothing, no extent can be counted
        made = (source[n] if isinstance(d, int) and d == 0 and n < len(source) else d for n, d in enumerate(wanted))
        yield from ((d, 1) for d in made if isinstance(d, Term))


def inhabited(asked: Collection[tuple[Dim, Dim]]) -> set[Term]:
    """The symbols that are at least 1 wherever each extent is what is asked for.

    >>> n, m, k = (t.sym(name, lower=0) for name in "NMK")
    >>> sorted(str(x) for x in inhabited([(n, n), (k, m), (m, 6)]))  # M: nothing is 0 there; so is K, as M is not
    ['K', 'M']
    """
    found: set[Term] = set()

    def never_zero(d: Dim) -> bool:
        size = as_size(d)
        if isinstance(size, int):
            return size > 0
        return all(f in found or (least(f) or 0) > 0 for f in size.factors)

    known = -1
    while known < len(found):
        known = len(found)
        for d, otherwise in asked:
            if never_zero(otherwise) and not isinstance(size := as_size(d), int):
                found |= {f for f in size.factors if f.op == "sym"}
    return found
