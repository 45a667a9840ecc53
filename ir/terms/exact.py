"""Index arithmetic without overflow: how large a value can be, and operations on Python integers in object arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from eqsat.ir import clock
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError
from eqsat.ir.terms.term import Term, fold_index

INT64_MAX = (1 << 63) - 1
MOST_BITS = 1 << 16  # of a product: a chain of squarings has no other end


class TooLarge(EvaluationError):
    """A number that is not worth computing."""


def actual_magnitude(value: NDArray) -> int:
    """The greatest absolute value in an integer array.

    >>> actual_magnitude(np.array([-5, 3]))
    5
    """
    if not value.size:
        return 0
    if not value.ndim:
        return abs(int(value))
    return max(abs(int(value.min())), abs(int(value.max())))


def magnitude(node: Term, sizes: Sequence[int]) -> int:
    """A bound on the absolute value of an index operation, and of every step towards it, from those of its operands."""
    op = node.op
    if op == "sum":
        constant, coefficients = node.payload
        return abs(constant) + sum(abs(c) * s for c, s in zip(coefficients, sizes, strict=True))
    if op == "prod":
        return prod(max(1, s) for s in sizes)
    if op == "shl":
        return sizes[0] << sizes[1] if sizes[1] < 64 else INT64_MAX + 1
    if op == "ramp":
        return sizes[0] + sizes[1] * node.payload
    if op in ("bitand", "bitor", "bitxor"):
        return (1 << max(s.bit_length() for s in sizes)) - 1
    return max((1, *sizes))


def narrowed(value: NDArray) -> NDArray:
    """An integer array as int64 where it fits, else as Python integers."""
    if value.dtype == np.int64 or not value.size:
        return value.astype(np.int64)
    if actual_magnitude(value) <= INT64_MAX:
        return value.astype(np.int64)
    return value.astype(object)


def integers(start: int, stop: int, step: int = 1) -> NDArray:
    """The numbers of a range: as int64 where it holds them, else as Python integers.

    >>> integers(2**63, 2**63 + 2).tolist() == [2**63, 2**63 + 1], integers(3, 9, 3)
    (True, array([3, 6]))
    """
    if start >= -INT64_MAX and stop <= INT64_MAX:
        return np.arange(start, stop, step, dtype=np.int64)
    return np.array(range(start, stop, step), dtype=object)


def exact_operation(term: Term, values: Sequence[NDArray]) -> NDArray:
    """An index operation in Python integers, on operands for which it is defined.

    >>> from eqsat.ir.terms.term import var
    >>> exact_operation(var("i") * var("j"), [np.array([2**62]), np.array([2**62])])
    array([21267647932558653966460912964485513216], dtype=object)
    """
    if term.op == "ramp":
        base, stride = np.asarray(values[0], object), np.asarray(values[1], object)
        return narrowed(np.asarray(base[..., None] + stride[..., None] * np.arange(term.lanes).astype(object)))
    result: Any
    if term.op == "sum":
        constant, coefficients = term.payload
        result = constant
        for coefficient, value in zip(coefficients, values, strict=True):
            result = result + coefficient * np.asarray(value).astype(object)
    elif term.op == "prod":  # by twos: numpy takes no function of more than 63 arrays
        by_twos = np.frompyfunc(integer_function(term), 2, 1)
        result = reduce(by_twos, values)
    else:
        result = np.frompyfunc(integer_function(term), len(values), 1)(*values)
    return narrowed(np.asarray(result, dtype=object))


def integer_function(term: Term) -> Callable[..., int]:
    """An index operation as a function of integers, exact at any size; numpy's own, which do not grow, are taken too.

    >>> from eqsat.ir.terms.term import var
    >>> integer_function(var("i") // 4)(-1, 4)
    -1

    Raises EvaluationError where the operation is undefined, and TooLarge for a product that is not worth computing.
    """
    op = term.op

    def weighted_sum(*values: Any) -> int:
        constant, coefficients = term.payload
        return constant + sum(c * int(v) for c, v in zip(coefficients, values, strict=True))

    def multiply(*values: Any) -> int:
        clock.check()
        if sum(int(v).bit_length() for v in values) > MOST_BITS:
            raise TooLarge("evaluation of a product", f"its value has more than {MOST_BITS} bits")
        return prod(int(v) for v in values)

    def absolute(value: Any) -> int:
        return abs(int(value))

    def fold(a: Any, b: Any) -> int:
        value = fold_index(op, int(a), int(b))
        if value is None:
            raise EvaluationError(f"{op} of {a} and {b}", "is undefined")
        return value

    return {"sum": weighted_sum, "prod": multiply, "abs": absolute, "cast": int}.get(op, fold)
