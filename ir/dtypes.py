"""Types of terms: `index` (mathematical integers) and the numpy data types, with constants compared by their bits.

bfloat16 is the type of the package ml_dtypes, which is imported where it is first asked for: its operations compute in
float32 and round the result to nearest even. Complex numbers are moved, and nothing else.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import import_module
from typing import Any, cast

import numpy as np

from eqsat.ir.errors import TypeMismatch

INDEX = "index"
BOOL = "bool"
INTS = ("int8", "int16", "int32", "int64")
UINTS = ("uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
DATA = (BOOL, *INTS, *UINTS, *FLOATS)
BFLOAT16 = "bfloat16"
COMPLEX = ("complex64", "complex128")
ELEMENTS = (*DATA, BFLOAT16, *COMPLEX)
"""All types of elements: those that numpy computes with, and those of which `eqsat.ir.dtypes` says what they can."""

_VECTOR = re.compile(r"(complex\d+|(?!complex)[a-z]+[0-9]*)x([1-9][0-9]{0,4})", re.ASCII)

NDArray = np.ndarray[Any, Any]


@lru_cache(maxsize=1)
def _ml_dtypes() -> Any:
    """The package that gives numpy the type bfloat16."""
    try:
        return import_module("ml_dtypes")
    except ImportError as error:
        raise TypeMismatch("dtype bfloat16", "needs the package ml_dtypes", "pip install ml_dtypes") from error


@lru_cache(maxsize=256)
def name_of(dtype: np.dtype[Any]) -> str:
    """The name of a numpy dtype, which numpy makes anew each time that it is asked."""
    return dtype.name


@lru_cache(maxsize=256)
def as_dtype(dtype: Any) -> str:
    """The canonical name of a data type given as a name, a numpy dtype or a scalar class.

    >>> as_dtype(np.float32), as_dtype("f2"), as_dtype("index")
    ('float32', 'float16', 'index')
    """
    if isinstance(dtype, str) and dtype == BFLOAT16:
        _ml_dtypes()
    if isinstance(dtype, str) and dtype == INDEX:
        return INDEX
    if dtype is None:
        raise TypeMismatch("dtype None", "not a data type", f"one of {', '.join(ELEMENTS)}")
    try:
        name = np.dtype(dtype).name
    except (TypeError, ValueError, SyntaxError) as error:
        raise TypeMismatch(f"dtype {dtype!r}", "not a data type", f"one of {', '.join(ELEMENTS)}") from error
    if name not in ELEMENTS:
        raise TypeMismatch(f"dtype {name}", "not supported", f"one of {', '.join(ELEMENTS)}")
    return name


@lru_cache(maxsize=256)
def split_vector(dtype: str) -> tuple[str, int]:
    """The name of one lane and the number of lanes, of the name of a type.

    >>> split_vector("float32x4"), split_vector("complex64")
    (('float32', 4), ('complex64', 1))
    """
    found = _VECTOR.fullmatch(dtype)
    return (found.group(1), int(found.group(2))) if found else (dtype, 1)


def is_float(dtype: str) -> bool:
    return dtype in FLOATS or dtype == BFLOAT16


def has_floats(array: NDArray) -> bool:
    """Whether the elements of an array are floats, of which NaN is not equal to itself."""
    return array.dtype.kind == "f" or array.dtype.name == BFLOAT16


def unmasked(value: Any) -> Any:
    """A value as it is; TypeError for a masked array, whose mask would be lost.

    >>> unmasked(5)
    5
    """
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError("a masked array, whose mask would be lost (pass what filled(value) gives)")
    return value


def array_of(value: Any) -> NDArray:
    """What numpy makes of a value.

    >>> array_of([1, 2]).shape
    (2,)

    Raises TypeError for a masked array, and what numpy does for values of which it makes no array.
    """
    return np.asarray(unmasked(value))


def float_info(dtype: str) -> Any:
    """What numpy's finfo tells of a float type.

    >>> float(float_info("float16").max)
    65504.0
    """
    return _ml_dtypes().finfo(BFLOAT16) if dtype == BFLOAT16 else np.finfo(dtype)


def is_int(dtype: str) -> bool:
    return dtype in INTS or dtype in UINTS


def itemsize(dtype: str) -> int:
    """Bytes of one element."""
    return 2 if dtype == BFLOAT16 else int(np.dtype(dtype).itemsize)


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
    array = np.zeros((), _type(dtype))
    with np.errstate(all="ignore"):
        array[()] = value
        if is_float(dtype) and np.isnan(array):  # of bfloat16, a NaN that signals would be reported
            array[()] = np.nan
    return int.from_bytes(array.astype(array.dtype.newbyteorder("<")).tobytes(), "little")


def from_bits(bits: int, dtype: str) -> Any:
    """The numpy scalar with these bits."""
    raw = bits.to_bytes(itemsize(dtype), "little")
    return np.frombuffer(raw, _type(dtype).newbyteorder("<")).astype(dtype)[0]


def _type(dtype: str) -> np.dtype[Any]:
    """numpy's type of this name."""
    if dtype == BFLOAT16:
        _ml_dtypes()
    return np.dtype(dtype)


def check_value(value: Any, dtype: str) -> None:
    """Refuse a Python value that the dtype cannot hold (300 in uint8, 0.5 in int32, 1.0 or True in an int).

    >>> check_value(300, "uint8")
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.TypeMismatch: constant 300: does not fit uint8
    """
    if not holds_value(value, dtype):
        known = isinstance(value, (bool, int, float, complex, np.generic))
        raise TypeMismatch(f"constant {value!r}", f"does not fit {dtype}" if known else f"is not a {dtype} value")


def holds_value(value: Any, dtype: str) -> bool:
    """Whether a Python or numpy scalar is a value of the dtype; a float type holds every number within its range.

    >>> holds_value(3, "float16"), holds_value(3.0, "int8"), holds_value(True, "int8"), holds_value(1j, "complex64")
    (True, False, False, True)
    """
    number = cast(Any, value).item() if isinstance(value, np.generic) else value
    if isinstance(number, bool) or dtype == BOOL:
        return isinstance(number, bool) and dtype == BOOL
    if dtype in COMPLEX:
        return isinstance(number, (int, float, complex))
    if isinstance(number, int):
        if dtype == INDEX:
            return True
        if is_float(dtype):
            return abs(number) <= float(float_info(dtype).max)
        return int(np.iinfo(dtype).min) <= number <= int(np.iinfo(dtype).max)
    return isinstance(number, float) and is_float(dtype)
