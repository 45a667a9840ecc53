"""`eqsat kernel`: the source of one layout conversion, and how fast it is beside a plain copy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eqsat.backends.compile import compile
from eqsat.backends.targets import Kernel
from eqsat.cli.output import Output, writable, write_file
from eqsat.ir.dtypes import BOOL, ELEMENTS, is_float
from eqsat.ir.errors import EqsatError, ParseError
from eqsat.ir.layouts.layout import Layout
from eqsat.ir.tensors.run import evaluate
from eqsat.ir.tensors.tensor import Tensor, input
from eqsat.ir.terms.shape import require_static
from eqsat.timing import interleaved


@dataclass(frozen=True)
class Timing:
    """Median seconds of the kernel and of a copy of as many bytes, and the bytes that the kernel reads and writes."""

    kernel: float
    copy: float
    moved: int

    @property
    def gigabytes(self) -> float:
        """What the kernel moves, in GB per second."""
        return self.moved / self.kernel / 1e9

    @property
    def ratio(self) -> float:
        """The speed of the kernel in speeds of the copy; 1 is as fast as copying."""
        return self.copy / self.kernel


def conversion_of(text: str, shape: tuple[int, ...], dtype: str, pad_value: float | None = None) -> Tensor:
    """The conversion that a text such as "NCHW -> NCHW16c" or "i, j -> j, i" means, of an input x.

    >>> conversion_of("NCHW -> NCHW16c", (1, 64, 56, 56), "float32").shape
    (1, 4, 56, 56, 16)
    """
    sides = [side.strip() for side in text.split("->")]
    if len(sides) != 2 or not all(sides):
        raise ParseError(f"conversion {text!r}", "is not two sides and one '->'", "for example 'NCHW -> NCHW16c'")
    if dtype not in ELEMENTS:
        raise EqsatError(f"--dtype {dtype}", "is not an element type", f"one of {', '.join(ELEMENTS)}")
    x = input("x", shape, dtype)
    if all(_is_layout(side) for side in sides):
        return x.layout_transform(Layout(sides[0]), Layout(sides[1]), pad_value=pad_value)
    return x.layout_transform(text, pad_value=pad_value)


def _is_layout(side: str) -> bool:
    """Capital letters begin layouts; index maps have names of indices, apart by commas."""
    return side[:1].isupper() and "," not in side


def shape_of(text: str) -> tuple[int, ...]:
    """The shape that a text such as 1,64,56,56 means.

    >>> shape_of("1, 64"), shape_of("")
    ((1, 64), ())
    """
    inside = text.strip().strip("()").strip().removesuffix(",")
    pieces = [p.strip() for p in inside.split(",")] if inside else []
    if not all(p.isascii() and p.isdecimal() for p in pieces):
        raise EqsatError(f"--shape {text!r}", "is not a list of sizes", "for example --shape 1,64,56,56")
    return tuple(map(int, pieces))


def number_of(text: str, dtype: str) -> float | int | bool:
    """The element of a dtype that a text such as 0, -1.5, nan or true means.

    >>> number_of("0", "uint8"), number_of("0", "float32"), number_of("0", "bool"), number_of("inf", "float16")
    (0, 0.0, False, inf)
    """
    try:
        if dtype == BOOL:
            return {"0": False, "false": False, "1": True, "true": True}[text.strip().lower()]
        return float(text) if is_float(dtype) else int(text)
    except (KeyError, ValueError) as error:
        raise EqsatError(f"--pad-value {text}", f"is not a {dtype} value") from error


def run_kernel(
    text: str, shape: str, dtype: str, target: str, pad_value: str | None, path: Path | None, bench: bool, out: Output
) -> int:
    """Do it; the answer is the exit code."""
    file = writable(path)
    y = conversion_of(text, shape_of(shape), dtype, None if pad_value is None else number_of(pad_value, dtype))
    with out.progress("compiling"):
        kernel = compile(y, target=target)
    timing = None
    if bench:
        with out.progress("timing"):
            timing = timed(y, kernel, dtype)
    if file is not None:
        write_file(file, kernel.source)
    data: dict[str, Any] = {
        "conversion": text,
        "shape": list(require_static(_input(y).shape, "kernel")),
        "output_shape": list(require_static(y.shape, "kernel")),
        "dtype": dtype,
        "target": target,
        "written": None if path is None else str(path),
        "source": kernel.source,
    }
    lines = [kernel.source.rstrip("\n")] if file is None else [f"written: {path}"]
    if timing is not None:
        data["bench"] = {
            "gb_per_second": timing.gigabytes,
            "of_copy": timing.ratio,
            "milliseconds": timing.kernel * 1e3,
        }
        line = (
            f"{timing.gigabytes:.2f} GB/s, {timing.ratio:.2f} of a copy of the same size ({timing.kernel * 1e3:.3f} ms)"
        )
        lines.append(f"/* {line} */" if file is None else line)
    out.answer(data, "\n".join(lines))
    return 0


def _input(y: Tensor) -> Tensor:
    while y.node.operands:
        y = y.node.operands[0]
    return y


def timed(y: Tensor, kernel: Kernel, dtype: str) -> Timing:
    """Time a kernel and a copy in turns, after comparing the kernel's answer with numpy's."""
    x = _input(y)
    shape = require_static(x.shape, "kernel")
    array = np.resize(np.arange(251).astype(dtype), shape)
    result: Any = kernel({x.name: array})
    expected: Any = evaluate(y, {x.name: array})
    if not np.array_equal(result, expected, equal_nan=is_float(dtype)):
        raise RuntimeError("the compiled kernel and numpy disagree")
    moved = array.nbytes + result.nbytes
    source, target = np.ones(moved // 2, np.uint8), np.zeros(moved // 2, np.uint8)
    ours, copy = interleaved([kernel.bind({x.name: array}, out=result), lambda: np.copyto(target, source)])
    return Timing(ours, copy, moved)
