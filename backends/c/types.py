"""C names of data types, literals, and the helper functions that give C numpy's meaning, printed on demand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.backends.c.math import MATH
from eqsat.backends.lowering.index_simplifier import INDEX_LIMIT
from eqsat.ir.dtypes import BFLOAT16, BOOL, COMPLEX, FLOATS, INTS, UINTS, is_float, itemsize

C_TYPES = {
    **{BOOL: "uint8_t", "float16": "eqsat_half", BFLOAT16: "eqsat_bfloat16", "float32": "float", "float64": "double"},
    **{d: f"{d}_t" for d in (*INTS, *UINTS)},
    **{d: f"eqsat_{d}" for d in COMPLEX},
}

WIDENED = {"float16": ("half_to_float", "float_to_half"), BFLOAT16: ("bfloat16_to_float", "float_to_bfloat16")}
"""The types that are computed in float: the functions that widen and round, by dtype."""

INDEX_CLAMP = {"int64": "index_of_int64", "uint64": "index_of_uint64"}
"""Helpers that make 64-bit data an index, by dtype."""


def c_type(dtype: str, index: str) -> str:
    """The C type of a dtype; `index` is the one of index terms."""
    return C_TYPES.get(dtype, index)


def unsigned(dtype: str) -> str:
    """The C type in which the arithmetic of an integer dtype wraps without undefined behaviour."""
    return "uint64_t" if itemsize(dtype) == 8 else "uint32_t"


def int_literal(value: int, dtype: str) -> str:
    """An integer constant, in a type of at least its width."""
    if dtype == "uint64":
        return f"UINT64_C({value})"
    if dtype == "uint32":
        return f"{value}u"
    if value == -(1 << 63):
        return "INT64_MIN"
    if dtype == "int64" or not -(1 << 31) < value < 1 << 31:
        return f"INT64_C({value})" if value >= 0 else f"(-INT64_C({-value}))"
    return str(value) if value >= 0 else f"({value})"


def float_literal(value: Any, dtype: str) -> str:
    """A float constant that the compiler reads back exactly (half and bfloat16 as float)."""
    if np.isnan(value):
        return "NAN"
    if np.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    text = repr(float(value)) if dtype == "float64" else str(np.float32(value))
    if not any(c in text for c in ".e"):
        text += ".0"
    text += "" if dtype == "float64" else "f"
    return f"({text})" if text.startswith("-") else text


def literal(value: Any, dtype: str) -> str:
    """A constant of a data type."""
    if dtype == BOOL:
        return "1" if value else "0"
    if dtype in WIDENED:
        return f"{WIDENED[dtype][1]}({float_literal(value, dtype)})"
    if dtype in COMPLEX:
        part = "float32" if dtype == "complex64" else "float64"
        return f"({C_TYPES[dtype]}){{{float_literal(value.real, part)}, {float_literal(value.imag, part)}}}"
    return float_literal(value, dtype) if is_float(dtype) else int_literal(int(value), dtype)


SOME_NEEDED = """#ifdef __clang__
#pragma clang diagnostic ignored "-Wunused-function" /* a processor may need some of these functions only */
#endif"""


def prelude(pieces: Sequence[str], text: str) -> list[str]:
    """The functions that stand before a text of C which calls them, and what keeps compilers silent about those
    that it calls under a condition of the preprocessor, which gcc does not mind.

    >>> prelude([helper("max_float32")], "#if 1")[0].splitlines()[0]
    '#ifdef __clang__'
    """
    some = any("static inline" in piece for piece in pieces) and any("#if" in part for part in (*pieces, text))
    return [SOME_NEEDED, *pieces] if some else [*pieces]


def helper(name: str) -> str:
    """The text of a helper function, by its name: an operation and one or two dtypes, `floordiv_int32`."""
    if name in MATH:
        return MATH[name]
    op, _, rest = name.partition("_")
    if name in INDEX_CLAMP.values():
        limit = f"INT64_C({INDEX_LIMIT})"
        low = f"x < -{limit} ? -{limit} : " if name == INDEX_CLAMP["int64"] else ""
        body = f"    return {low}x > {limit} ? {limit} : (int64_t)x;"
        return f"static inline int64_t {name}({'int64_t' if low else 'uint64_t'} x)\n{{\n{body}\n}}"
    if op == "cast":
        source, _, target = rest.partition("_to_")
        return _saturate(name, source, target)
    text = _float_helper(op, rest) if rest in FLOATS else _int_helper(op, rest)
    return f"static inline {C_TYPES[rest]} {name}{text}"


def _saturate(name: str, source: str, target: str) -> str:
    info = np.iinfo(target)
    low, high = (float_literal(float(v), source) for v in (info.min, info.max))
    least, most = int_literal(int(info.min), target), int_literal(int(info.max), target)
    c, t = C_TYPES[source], C_TYPES[target]
    return (
        f"static inline {t} {name}({c} x)\n{{\n    if (!(x > {low})) return isnan(x) ? 0 : {least};\n"
        f"    return x < {high} ? ({t})x : {most};\n}}"
    )


_INT_SIGNED = {
    "floordiv": """    if (b == 0) return 0;
    if (b == -1) return ({t})(0 - ({u})a);
    return ({t})(a / b - ((a % b != 0) & ((a % b < 0) != (b < 0))));""",
    "mod": """    if (b == 0 || b == -1) return 0;
    return ({t})(a % b + (((a % b != 0) & ((a % b < 0) != (b < 0))) ? b : 0));""",
    "truncdiv": """    if (b == 0) return 0;
    return b == -1 ? ({t})(0 - ({u})a) : ({t})(a / b);""",
    "truncmod": "    return b == 0 || b == -1 ? ({t})0 : ({t})(a % b);",
}
_INT_ANY = {
    "min": "    return a < b ? a : b;",
    "max": "    return a > b ? a : b;",
    "shl": "    return ({t})(({u})a << (({u})b & {mask}));",
    "shr": "    return ({t})(a >> (({u})b & {mask}));",
    "pow": """    {u} result = 1, base = ({u})a;
    for (; b > 0; b = ({t})(b / 2)) {{
        if (b % 2 != 0) result *= base;
        base *= base;
    }}
    return ({t})result;""",
}


def _int_helper(op: str, dtype: str) -> str:
    t, u = C_TYPES[dtype], unsigned(dtype)
    if op == "abs":
        return f"({t} a)\n{{\n    return a < 0 ? ({t})(0 - ({u})a) : a;\n}}"
    if op in _INT_ANY:
        body = _INT_ANY[op]
    elif dtype in INTS:
        body = _INT_SIGNED[op]
    else:
        body = f"    return b == 0 ? ({{t}})0 : ({{t}})(a {'/' if op.endswith('div') else '%'} b);"
    text = body.format(t=t, u=u, mask=itemsize(dtype) * 8 - 1)
    return f"({t} a, {t} b)\n{{\n{text}\n}}"


_FLOAT = {
    # NaN of either operand comes through; in minn, maxn, mine, maxe the first operand is a number. Of two zeros numpy
    # answers the second one; the first one in float16, and where the number stands second: min1, max1, mine, maxe.
    # Two plain choices, the first of which is one instruction, become vector code; one choice by an `or` does not.
    "min": "    const {t} m = a < b ? a : b;\n    return isnan(a) ? a : m;",
    "max": "    const {t} m = a > b ? a : b;\n    return isnan(a) ? a : m;",
    "min1": "    const {t} m = a <= b ? a : b;\n    return isnan(a) ? a : m;",
    "max1": "    const {t} m = a >= b ? a : b;\n    return isnan(a) ? a : m;",
    "minn": "    return a < b ? a : b;",
    "maxn": "    return a > b ? a : b;",
    "mine": "    return a <= b ? a : b;",
    "maxe": "    return a >= b ? a : b;",
    # pow(a, 0.5), for which gcc takes sqrt where errno is not asked for: of -inf and -0.0 that is another number.
    "root": "    (void)b;\n    return isinf(a) ? fabs{f}(a) : sqrt{f}(a + 0);",
    "mod": """    {t} r = fmod{f}(a, b);
    if (b == 0) return r;
    if (r == 0) return copysign{f}(0, b);
    return (r < 0) != (b < 0) ? r + b : r;""",
    "floordiv": """    {t} r, q, whole;
    if (b == 0) return a / b;
    r = fmod{f}(a, b);
    q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;
    if (q == 0) return copysign{f}(0, a / b);
    whole = floor{f}(q);
    return q - whole > ({t})0.5 ? whole + 1 : whole;""",
}


def _float_helper(op: str, dtype: str) -> str:
    t, f = C_TYPES[dtype], "" if dtype == "float64" else "f"
    return f"({t} a, {t} b)\n{{\n{_FLOAT[op].format(t=t, f=f)}\n}}"
