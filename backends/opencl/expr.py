"""Scalar terms as OpenCL C: printed as C, whose names are then spelled as OpenCL has them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from eqsat.backends.c.expr import ATOM, CAST, COMPARED, Expressions, Scope, Text, wrap
from eqsat.backends.c.math import MATH
from eqsat.backends.c.types import helper
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.opencl.image import SAMPLER, Image, read_pixel
from eqsat.ir.dtypes import BOOL
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, int_value

_NAMES = {
    "int8_t": "char", "int16_t": "short", "int32_t": "int", "int64_t": "long", "uint8_t": "uchar",
    "uint16_t": "ushort", "uint32_t": "uint", "uint64_t": "ulong", "eqsat_half": "ushort", "INT64_MIN": "LONG_MIN",
}  # fmt: skip
# OpenCL's mathematical functions are overloaded: the same name for float and double.
_FUNCTIONS = ("fmod", "copysign", "rint", "fabs", "pow", *t.FLOAT_UNARY)
_WORD = re.compile(
    rf"\b(?:(?P<name>{'|'.join(_NAMES)})\b|(?P<function>{'|'.join(_FUNCTIONS)})f(?=\()"
    r"|(?P<wide>U?)INT64_C\((?P<digits>\d+)\))"
)

HALVES = {
    "half_to_float": """static inline float half_to_float(ushort h)
{
    return vload_half(0, (const __private half *)&h);
}""",
    "float_to_half": """static inline ushort float_to_half(float x)
{
    ushort h;
    vstore_half_rte(x, 0, (__private half *)&h);
    return h;
}""",
    "double_to_half": """static inline ushort double_to_half(double x)
{
    ushort h;
    vstore_half_rte(x, 0, (__private half *)&h);
    return h;
}""",
}
"""binary16 without cl_khr_fp16: held as its bits, computed in float, rounded to nearest even where it is made."""

LANES = {
    f"lane_{v}": f"""static inline {s} lane_{v}({v} x, int k)
{{
    return k < 2 ? (k == 0 ? x.x : x.y) : (k == 2 ? x.z : x.w);
}}"""
    for v, s in (("float4", "float"), ("int4", "int"), ("uint4", "uint"))
}
"""One channel of a pixel, by a number that is only known when the kernel runs."""


def spell(text: str) -> str:
    """C text with OpenCL's names of types, constants and functions.

    >>> spell("const uint8_t t1 = (uint8_t)expf(x) + INT64_C(4);")
    'const uchar t1 = (uchar)exp(x) + 4L;'
    """

    def word(found: re.Match[str]) -> str:
        if found["name"]:
            return _NAMES[found["name"]]
        return found["function"] or f"{found['digits']}{found['wide']}L"

    return _WORD.sub(word, text)


def helper_texts(helpers: Collection[str], text: str) -> list[str]:
    """The helper functions that a text calls, each before it is used."""
    found = [LANES[h] if h in LANES else spell(helper(h)) for h in helpers]
    every = "\n".join([*found, text])
    sampler = [SAMPLER] if "read_image" in every else []
    return [*sampler, *(body for name, body in HALVES.items() if f"{name}(" in every), *found]


class ClExpressions(Expressions):
    """Prints the terms of one kernel; loads from images have a row, a column and a channel as their indices.

    `exact` says whether float division and square root round correctly; else they are computed in double, of numbers
    that no float is: compilers make an operation in float of one whose operands and result are floats.
    """

    def __init__(
        self,
        buffers: Mapping[str, str],
        index: str,
        simplifier: IndexSimplifier,
        images: Mapping[str, Image],
        exact: bool,
    ) -> None:
        super().__init__(buffers, index, simplifier)
        self.images = images
        self.exact = exact

    def strict(self, node: Term, scope: Scope) -> Text:
        """The text of an operation on texts."""
        if node.op == "load" and node.payload in self.images:
            return self.channel(node, self.images[node.payload], scope)
        text = super().strict(node, scope)
        if node.op == "const" and node.dtype == "float64" and "N" in text[0]:
            # NAN and INFINITY are float: overloaded functions need to hear that a double is meant.
            return f"(double){text[0]}", CAST
        return text

    def channel(self, node: Term, image: Image, scope: Scope) -> Text:
        """One channel of a pixel."""
        texts = [scope.find(a) for a in node.args]
        row, column, channel = (x[0] for x in texts if x is not None)
        text = read_pixel(image.kind, self.buffers[node.payload], column, row)
        number = int_value(node.args[2])
        if number is not None:
            text += f".{'xyzw'[number]}"
        else:
            text = self.helper(f"lane_{image.vector}", (text, ATOM), (channel, ATOM))[0]
        if node.dtype == BOOL:
            return f"{text} != 0", COMPARED - 1
        return (f"float_to_half({text})" if node.dtype == "float16" else self.narrowed(node.dtype, text)), CAST

    def _float_in(self, dtype: str, node: Term, args: list[Text]) -> Text:
        if node.op == "erf" or f"{node.op}_{dtype}" in MATH:
            return f"{node.op}({args[0][0]})", ATOM
        if not self.exact and dtype == "float32" and node.op in ("div", "sqrt"):
            wide = [f"(double){wrap(a, CAST)} * 0x1p-600" for a in args]
            if node.op == "div":
                return f"(float)(({wide[0]}) / ({wide[1]}))", CAST
            return f"(float)(sqrt({wide[0]}) * 0x1p300)", CAST
        return super()._float_in(dtype, node, args)
