"""Types of terms: `index` (mathematical integers) and the numpy data types, with constants compared by their bits."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import numpy as np

from eqsat.ir.errors import TypeMismatch

INDEX = "index"
BOOL = "bool"
INTS = ("int8", "int16", "int32", "int64")
UINTS = ("uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
DATA = (BOOL, *INTS, *UINTS, *FLOATS)

NDArray = np.ndarray[Any, Any]


@lru_cache(maxsize=256)
def as_dtype(dtype: Any) -> str:
    """The canonical name of a data type given as a name, a numpy dtype or a scalar class.

    >>> as_dtype(np.float32), as_dtype("f2"), as_dtype("index")
    ('float32', 'float16', 'index')
    """
    if isinstance(dtype, str) and dtype == INDEX:
        return INDEX
    if dtype is None:
        raise TypeMismatch("dtype None", "not a data type", f"one of {', '.join(DATA)}")
    try:
        name = np.dtype(dtype).name
    except (TypeError, ValueError, SyntaxError) as error:
        raise TypeMismatch(f"dtype {dtype!r}", "not a data type", f"one of {', '.join(DATA)}") from error
    if name not in DATA:
        raise TypeMismatch(f"dtype {name}", "not supported", f"one of {', '.join(DATA)}")
    return name


def is_float(dtype: str) -> bool:
    return dtype in FLOATS


def is_int(dtype: str) -> bool:
    return dtype in INTS or dtype in UINTS


def itemsize(dtype: str) -> int:
    """Bytes of one element."""
    return int(np.dtype(dtype).itemsize)


def lowest(dtype: str) -> Any:
    """The neutral element of max: -inf, the least integer, or False."""
    if is_float(dtype):
        return -np.inf
    return False if dtype == BOOL else int(np.iinfo(dtype).min)


def highest(dtype: str) -> Any:
    """The neutral element of min: +inf, the greatest integer, or True."""
    if is_float(dtype):
        return np.inf
    return True if dtype == BOOL else int(np.iinfo(dtype).max)


def to_bits(value: Any, dtype: str) -> int:
    """The bits of a constant as an unsigned integer; every NaN has the bits of the default NaN.

    >>> to_bits(0.0, "float32") == to_bits(-0.0, "float32")
    False
    """
    array = np.zeros((), dtype)
    with np.errstate(all="ignore"):
        array[()] = value
    if is_float(dtype) and np.isnan(array):
        array[()] = np.nan
    return int.from_bytes(array.astype(array.dtype.newbyteorder("<")).tobytes(), "little")


def from_bits(bits: int, dtype: str) -> Any:
    """The numpy scalar with these bits."""
    raw = bits.to_bytes(itemsize(dtype), "little")
    return np.frombuffer(raw, np.dtype(dtype).newbyteorder("<")).astype(dtype)[0]


def check_value(value: Any, dtype: str) -> None:
    """Refuse a Python value that the dtype cannot hold (300 in uint8, 0.5 in int32, 1.0 or True in an int).

    >>> check_value(300, "uint8")
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.TypeMismatch: constant 300: does not fit uint8
    """
    if not holds_value(value, dtype):
        known = isinstance(value, (bool, int, float, np.generic))
        raise TypeMismatch(f"constant {value!r}", f"does not fit {dtype}" if known else f"is not a {dtype} value")


def holds_value(value: Any, dtype: str) -> bool:
    """Whether a Python or numpy scalar is a value of the dtype; a float type holds every number within its range.

    >>> holds_value(3, "float16"), holds_value(3.0, "int8"), holds_value(True, "int8")
    (True, False, False)
    """
    number = cast(Any, value).item() if isinstance(value, np.generic) else value
    if isinstance(number, bool) or dtype == BOOL:
        return isinstance(number, bool) and dtype == BOOL
    if isinstance(number, int):
        if dtype == INDEX:
            return True
        if is_float(dtype):
            return abs(number) <= float(np.finfo(dtype).max)
        return int(np.iinfo(dtype).min) <= number <= int(np.iinfo(dtype).max)
    return isinstance(number, float) and is_float(dtype)
