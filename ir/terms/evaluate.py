"""The numpy meaning of terms, vectorised. Undefinedness (a load out of range, a zero divisor) is carried as a mask, so
that `where`, `and` and `or` are lazy without evaluating anything twice; what is undefined at the end is an error.

Index terms are exact: they are computed in int64 where that is shown to suffice, and in Python integers elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, cast

import numpy as np

from eqsat.ir import clock
from eqsat.ir.dtypes import BFLOAT16, BOOL, COMPLEX, INDEX, NDArray, has_floats, is_float
from eqsat.ir.errors import EvaluationError
from eqsat.ir.terms.exact import INT64_MAX, actual_magnitude, exact_operation, magnitude, narrowed
from eqsat.ir.terms.term import MAX_SHIFT, Term, const_value, int_value
from eqsat.ir.terms.walk import postorder

Mask = NDArray | None
LoadFunction = Callable[[Any, Sequence[NDArray]], tuple[NDArray, Mask]]
HoleFunction = Callable[[int, str, Sequence[NDArray]], NDArray]

_erf = np.frompyfunc(math.erf, 1, 1)
_FUNCTIONS: dict[str, Any] = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc,
    "isnan": np.isnan, "isinf": np.isinf, "neg": np.negative, "abs": np.abs, "bitnot": np.invert,
}  # fmt: skip
_BINARY: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "min": np.minimum, "max": np.maximum,
    "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor,
    "lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip


def combine_masks(*masks: Mask) -> Mask:
    """The cells where any part is undefined."""
    result: Mask = None
    for mask in masks:
        if mask is not None:
            result = mask if result is None else np.logical_or(result, mask)
    return result


def cast_array(a: NDArray, dtype: str) -> NDArray:
    """Convert as `cast` does: float to integer truncates and saturates, NaN gives 0; integers wrap; bfloat16 is made of
    float32, rounded to nearest even.

    >>> cast_array(np.array([-1.5, 300.0, np.nan]), "uint8")
    array([  0, 255,   0], dtype=uint8)
    """
    target = np.dtype(np.int64 if dtype == INDEX else dtype)
    if has_floats(a) and target.kind in "iu":
        info = np.iinfo(target)
        whole = np.trunc(np.where(np.isnan(a), 0.0, a.astype(np.float64)))
        above, below = whole >= float(info.max), whole <= float(info.min)
        result = np.where(above | below, 0.0, whole).astype(target)
        result = np.where(above, np.asarray(info.max, target), result)
        return np.where(below, np.asarray(info.min, target), result)
    if a.dtype == object and dtype == BFLOAT16:
        return np.asarray(_floats(a), np.float32).astype(target)
    if a.dtype == object:
        wrap = (1 << (8 * target.itemsize)) - 1
        whole_bits = np.dtype(f"u{target.itemsize}")
        if target.kind == "f":
            return np.asarray(_floats(a), np.float64).astype(target)
        if target.kind == "b":
            return np.asarray(a != 0, bool)
        return np.asarray(np.bitwise_and(a, wrap)).astype(whole_bits).view(target)
    with np.errstate(all="ignore"):
        return (a.astype(np.float32) if dtype == BFLOAT16 != a.dtype.name else a).astype(target)


def _to_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


_floats = np.frompyfunc(_to_float, 1, 1)


def _divide(op: str, a: NDArray, b: NDArray) -> tuple[NDArray, Mask]:
    if has_floats(a):
        return (np.floor_divide if op == "floordiv" else np.mod)(a, b), None
    divisor, bad = _nonzero(b)
    if op == "floordiv":
        return np.floor_divide(a, divisor), bad
    if op == "mod":
        return np.mod(a, divisor), bad
    remainder = np.fmod(a, divisor)
    return (remainder if op == "truncmod" else np.floor_divide(a - remainder, divisor)), bad


def _nonzero(b: NDArray) -> tuple[NDArray, Mask]:
    zero = np.asarray(b == 0)
    return (np.where(zero, np.ones((), b.dtype), b), zero) if bool(zero.any()) else (b, None)


def _shift(op: str, a: NDArray, b: NDArray, index: bool) -> tuple[NDArray, Mask]:
    wrong = np.asarray((b < 0) | (b > MAX_SHIFT) if index else (b < 0) | (b >= a.dtype.itemsize * 8))
    bad: Mask = wrong if bool(wrong.any()) else None
    amount = b if bad is None else np.where(wrong, np.zeros((), b.dtype), b)
    if index:
        amount = np.minimum(amount, 63)  # only 0 is shifted left that far here; shifted right, 0 or -1 is left
    return (np.left_shift if op == "shl" else np.right_shift)(a, amount), bad


def _power(a: NDArray, b: NDArray) -> tuple[NDArray, Mask]:
    if has_floats(a):
        made, root = np.power(a, b), np.asarray(b == 0.5)
        if root.any():  # numpy takes sqrt where the exponent is one number: another result for -inf and -0.0
            made = np.where(root & (np.isinf(a) | (a == 0)), np.abs(a), made)
        return made, None
    negative = np.asarray(b < 0)
    bad: Mask = negative if bool(negative.any()) else None
    return np.power(a, b if bad is None else np.where(negative, np.zeros((), b.dtype), b)), bad


def _apply(term: Term, values: Sequence[NDArray]) -> tuple[NDArray, Mask]:
    """The value of a strict operation on defined operands; of bfloat16 computed in float32."""
    if term.op != "cast" and any(a.dtype == BFLOAT16 for a in term.args):
        wide = [v.astype(np.float32) if v.dtype.name == BFLOAT16 else v for v in values]
        value, bad = _applied(term, "float32" if term.dtype == BFLOAT16 else term.dtype, wide)
        return cast_array(value, BFLOAT16) if term.dtype == BFLOAT16 else value, bad
    return _applied(term, "int64" if term.dtype == INDEX else term.dtype, values)


def _applied(term: Term, wanted: str, values: Sequence[NDArray]) -> tuple[NDArray, Mask]:
    """The value of an operation, in the type that is wanted."""
    op = term.op
    if op == "sum":
        constant, coefficients = term.payload
        total: NDArray = np.asarray(constant, np.int64)
        for c, v in zip(coefficients, values, strict=True):
            total = total + (v if c == 1 else c * v)
        return total, None
    if op == "prod":
        total = values[0]
        for v in values[1:]:
            total = total * v
        return total, None
    if op in ("floordiv", "mod", "truncdiv", "truncmod"):
        if op in ("floordiv", "mod") and (int_value(term.args[1]) or 0) > 0:
            return (np.floor_divide if op == "floordiv" else np.mod)(values[0], values[1]), None
        return _divide(op, values[0], values[1])
    if op in ("shl", "shr"):
        return _shift(op, values[0], values[1], term.dtype == INDEX)
    if op == "pow":
        return _power(values[0], values[1])
    if op == "erf":
        return np.asarray(_erf(values[0]), np.float64).astype(values[0].dtype), None
    if op == "cast":
        return cast_array(values[0], term.dtype), None
    if op == "not":
        return np.logical_not(values[0]), None
    if op == "broadcast":
        return np.broadcast_to(values[0], (*values[0].shape[:-1], term.lanes)), None
    if op == "ramp":
        return values[0][..., None] + values[1][..., None] * np.arange(term.lanes), None
    function = _BINARY.get(op) or _FUNCTIONS.get(op)
    if function is None:
        raise EvaluationError(f"evaluation of {op}", "has no value outside an engine")
    result = np.asarray(function(*values))
    return (result if result.dtype.name == wanted else result.astype(wanted)), None


def _exact(term: Term, values: Sequence[NDArray]) -> tuple[NDArray, Mask]:
    """An index operation in Python integers."""
    bad: Mask = None
    if term.op in ("floordiv", "mod", "truncdiv", "truncmod"):
        divisor, bad = _nonzero(values[1])
        values = [values[0], divisor]
    elif term.op in ("shl", "shr"):
        wrong = np.asarray((values[1] < 0) | (values[1] > MAX_SHIFT), bool)
        bad = wrong if bool(wrong.any()) else None
        values = [values[0], np.where(wrong, 0, values[1])]
    return exact_operation(term, values), bad


def _lazy(term: Term, pairs: Sequence[tuple[NDArray, Mask]]) -> tuple[NDArray, Mask]:
    if term.op == "where":
        (c, bad_c), (a, bad_a), (b, bad_b) = pairs
        bad = bad_c
        if bad_a is not None:
            bad = combine_masks(bad, np.logical_and(c, bad_a))
        if bad_b is not None:
            bad = combine_masks(bad, np.logical_and(np.logical_not(c), bad_b))
        return np.where(c, a, b), bad
    if term.op == "given":
        (c, bad_c), (a, bad_a) = pairs
        return a, combine_masks(bad_c, None if bad_a is None else np.logical_and(c, bad_a))
    result, bad = pairs[0]
    for value, bad_value in pairs[1:]:
        reached = result if term.op == "and" else np.logical_not(result)
        if bad_value is not None:
            bad = combine_masks(bad, np.logical_and(reached, bad_value))
        result = np.logical_and(result, value) if term.op == "and" else np.logical_or(result, value)
    return result, bad


Order = tuple[list[Term], dict[Term, int]]
"""The nodes of terms, operands first, and how often each is used."""


def order_of(roots: Sequence[Term], env: Mapping[Term, NDArray]) -> Order:
    """The order in which terms are evaluated where `env` gives values: the same for all values."""
    nodes = list(postorder(*roots, done=env))
    uses: dict[Term, int] = dict.fromkeys(roots, 1)
    for node in nodes:
        for a in node.args:
            uses[a] = uses.get(a, 0) + 1
    return nodes, uses


class _Evaluation:
    """One evaluation: the values still needed, and how large index values can be."""

    def __init__(self, env: Mapping[Term, NDArray], load: LoadFunction | None, hole: HoleFunction | None) -> None:
        self.env, self.load, self.hole = env, load, hole
        self.values: dict[Term, tuple[NDArray, Mask]] = {}
        self.magnitudes: dict[Term, int] = {}

    def roots(self, roots: Sequence[Term], order: Order) -> list[tuple[NDArray, Mask]]:
        for known in self.env:
            self._keep(known, np.asarray(self.env[known]), None)
        nodes, uses = order[0], dict(order[1])
        for node in nodes:
            clock.check()
            value, bad = self._node(node)
            self._keep(node, value, bad)
            for a in node.args:
                uses[a] -= 1
                if not uses[a] and a not in self.env:
                    del self.values[a]
        return [self.values[r] for r in roots]

    def _keep(self, node: Term, value: NDArray, bad: Mask) -> None:
        if node.dtype == INDEX and node not in self.magnitudes:
            self.magnitudes[node] = actual_magnitude(value)
        self.values[node] = (value, bad)

    def _node(self, node: Term) -> tuple[NDArray, Mask]:
        op = node.op
        if op in ("axis", "var", "sym"):
            raise EvaluationError(f"evaluation of {node}", "no value was given for it")
        if op == "const":
            if node.dtype == INDEX:
                size = self.magnitudes[node] = abs(node.payload)
                return np.asarray(node.payload, np.int64 if size <= INT64_MAX else object), None
            return np.asarray(const_value(node), node.dtype), None
        pairs = [self._lanes(self.values[a], a, node) for a in node.args]
        if op in ("where", "given", "and", "or"):
            value, bad = _lazy(node, pairs)
            return (narrowed(value) if value.dtype == object else value), bad
        values = [p[0] for p in pairs]
        bad = combine_masks(*(p[1] for p in pairs))
        if op in ("load", "hole"):
            value, more = self._read(node, [_as_int64(v) for v in values])
        elif node.dtype == INDEX and self._needs_exact(node, values):
            value, more = _exact(node, values)
        else:
            value, more = _apply(node, values)
        return value, combine_masks(bad, more)

    def _lanes(self, pair: tuple[NDArray, Mask], arg: Term, node: Term) -> tuple[NDArray, Mask]:
        """A scalar beside vectors gets an axis for the lanes."""
        if node.lanes == arg.lanes or node.op == "ramp":
            return pair
        return pair[0][..., None], None if pair[1] is None else pair[1][..., None]

    def _read(self, node: Term, index: Sequence[NDArray]) -> tuple[NDArray, Mask]:
        if node.op == "hole":
            return (_poison(node) if self.hole is None else self.hole(node.payload, node.dtype, index)), None
        if self.load is None:
            raise EvaluationError(f"evaluation of {node}", "loads need a program")
        return self.load(node.payload, index)

    def _needs_exact(self, node: Term, values: Sequence[NDArray]) -> bool:
        """Whether int64 may not hold an index operation; the size of the actual values decides where types do not."""
        if any(v.dtype == object for v in values):
            return True
        if node.op == "cast":
            return values[0].dtype.name == "uint64" and bool((values[0] > np.uint64(INT64_MAX)).any())
        if node.op == "sum" and any(abs(c) > INT64_MAX for c in node.payload[1]):
            return True
        size = magnitude(node, [self.magnitudes[a] for a in node.args])
        if size > INT64_MAX:
            size = magnitude(node, [actual_magnitude(v) for v in values])
        if size > INT64_MAX:
            return True
        self.magnitudes[node] = size
        return False


def _as_int64(index: NDArray) -> NDArray:
    """An index array for a load: what int64 does not hold is out of every range."""
    return np.asarray(np.clip(index, -INT64_MAX, INT64_MAX), np.int64) if index.dtype == object else index


def evaluate_masked(
    roots: Sequence[Term],
    env: Mapping[Term, NDArray],
    load: LoadFunction | None = None,
    hole: HoleFunction | None = None,
    order: Order | None = None,
) -> list[tuple[NDArray, Mask]]:
    """The values of terms and where they are undefined; `env` gives axes, variables and symbols.

    An index term whose values leave int64 is an array of Python integers. order: what `order_of` answers for these
    terms, for those that evaluate them often.
    """
    with np.errstate(all="ignore"):
        return _Evaluation(env, load, hole).roots(roots, order_of(roots, env) if order is None else order)


def blocks(extents: Sequence[int], limit: int) -> Iterator[tuple[slice, ...]]:
    """A box cut into boxes of at most `limit` points, in row-major order; an empty box has no pieces.

    >>> [[(s.start, s.stop) for s in block] for block in blocks((3, 4), 8)]
    [[(0, 2), (0, 4)], [(2, 3), (0, 4)]]
    """
    steps: list[int] = []
    room = max(1, limit)
    for extent in reversed(extents):
        steps.append(max(1, min(extent, room)))
        room //= steps[-1]
    ranges = [range(0, extent, step) for extent, step in zip(extents, reversed(steps), strict=True)]
    for starts in product(*ranges):
        yield tuple(
            slice(low, min(low + step, extent))
            for low, step, extent in zip(starts, reversed(steps), extents, strict=True)
        )


def poison(dtype: str) -> Any:
    """The default value of a hole: NaN, or the least integer, so that a use is seen."""
    if is_float(dtype) or dtype in COMPLEX:
        return np.asarray(np.nan, dtype)
    return np.asarray(True if dtype == BOOL else np.iinfo(dtype).min, dtype)


def _poison(node: Term) -> NDArray:
    return cast(NDArray, poison(node.dtype))


def as_integers(value: Any, what: str, inside: object) -> NDArray:
    """An array of integers as an index value: int64, or Python integers where that is too narrow.

    what, inside: what an error calls the value, and what it belongs to.
    """
    array: NDArray = np.asarray(value)
    if array.dtype.kind not in "iuO" or (array.dtype == object and not all(type(v) is int for v in array.flat)):
        raise EvaluationError(f"{what} {inside}", f"is {array.dtype}, not an integer")
    return narrowed(array) if array.dtype.kind in "uO" else array.astype(np.int64)


def evaluate_named(term: Term, env: Mapping[Any, Any]) -> Any:
    """The value of a term whose variables and symbols are given by the names that its text shows, or as they are."""
    from eqsat.ir.terms.tables import load_table
    from eqsat.ir.terms.text import names_in

    known: dict[Term, NDArray] = {}
    for node, name in names_in(term).items():
        if node in env or name in env:
            value = env[node] if node in env else env[name]
            known[node] = as_integers(value, f"{name} in the evaluation of", term)
    value, bad = evaluate_masked([term], known, load_table)[0]
    if bad is not None and bool(np.any(bad)):
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise EvaluationError(f"evaluation of {term}", f"undefined (a zero divisor or a bad shift) at {at}")
    return value[()] if value.ndim == 0 else value
