"""Writing an operator through a type that onnxruntime's kernels have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.models.package import element_type
from eqsat.onnx.kernels import ARITHMETIC, via
from eqsat.onnx.writer import Writer

CHOICE, INTEGERS = 9, 12
"""The opsets from which on there is a Where, and from which on Min and Max take integers."""


def cast_name(w: Writer, name: str, old: str, new: str, out: str = "") -> str:
    """Write a plain Cast; nothing where the types are equal."""
    return name if old == new else w.step("Cast", [name], {"to": element_type(new)}, old, out)


def run_op(
    w: Writer,
    op: str,
    args: Sequence[str],
    dtype: str,
    attrs: Mapping[str, object] | None = None,
    tests: bool = False,
    out: str = "",
    more: Sequence[str] = (),
) -> str:
    """Write an operator over values of one type, through another type where the kernels need it.

    The first argument of a Where is its condition; `tests` says that the result is bool, whatever goes in; `more` are
    parameters of other types. In a program that came from a model, arithmetic of float16 stays as it was there.
    """
    inner = dtype if dtype == "float16" and not w.exact and op in ARITHMETIC else via(op, dtype)
    if op in ("Min", "Max") and CHOICE <= w.opset < INTEGERS and inner in ("int32", "int64"):
        return _chosen(w, op, [cast_name(w, a, dtype, inner) for a in args], (dtype, inner), out)
    kept = 1 if op == "Where" else 0
    names = [*args[:kept], *(cast_name(w, a, dtype, inner) for a in args[kept:]), *more]
    first = "bool" if op == "Where" else inner
    last = tests or inner == dtype
    made = w.step(op, names, attrs, first, out if last else "", inner)
    return made if last else cast_name(w, made, inner, dtype, out)


def _chosen(w: Writer, op: str, args: Sequence[str], dtypes: tuple[str, str], out: str) -> str:
    """The least or the greatest of integers, where Min and Max have none: whichever is less; as the first of two types,
    computed in the second."""
    dtype, inner = dtypes
    found = args[0]
    for k, other in enumerate(args[1:], 2):
        pair = [found, other]
        test = w.step("Less", pair if op == "Min" else pair[::-1], {}, inner)
        found = w.step("Where", [test, *pair], {}, "bool", out if k == len(args) and inner == dtype else "", inner)
    return cast_name(w, found, inner, dtype, out)
