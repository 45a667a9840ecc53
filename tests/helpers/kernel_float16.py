"""Bodies over binary16 numbers, and all the halves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import Phase

from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors import pointwise
from eqsat.ir.tensors.tensor import Tensor, input

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def same(got: NDArray, want: NDArray) -> None:
    """Equal bits; a NaN is a NaN."""
    kind = f"u{got.dtype.itemsize}"
    wrong = (got.view(kind) != want.view(kind)) & ~(np.isnan(got) & np.isnan(want))
    assert not wrong.any(), (got[wrong][:5], want[wrong][:5])


UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
"""Every example is compiled: a smaller one would take minutes to find."""
Unary = Callable[[Tensor], Tensor]
UNARY: dict[str, Unary] = {
    "double": lambda x: x * 2, "third": lambda x: x / 3, "negative": lambda x: -x, "relu": lambda x: x.relu(),
    "size": lambda x: x.abs() + 0.1, "whole": lambda x: (x * 0.37).floor(), "clipped": lambda x: x.clip(-1, 2),
    "wide": lambda x: (x.cast("float32") * 1.1).cast("float16"),
    "wider": lambda x: (x.cast("float64") * 1.1 + 1e-7).cast("float16"),
    "chosen": lambda x: pointwise.where(x < 1, x - 1, x * x),
}  # fmt: skip


def operand(name: str, shape: tuple[int, int], kind: str, dtype: str) -> Tensor:
    """A half matrix: as it lies in memory, turned, one row for all, one number a row, or another type."""
    rows, columns = shape
    given = {"turned": (columns, rows), "row": (columns,), "column": (rows, 1)}.get(kind, shape)
    x = input(name, given, dtype)
    x = x.permute_dims((1, 0)) if kind == "turned" else x
    return x if dtype == "float16" else x.cast("float16")


def image(name: str, shape: tuple[int, ...], last: bool, channels: int, border: int, blocked: bool) -> Tensor:
    """Bytes as halves: channels last or not, with more channels and a border of zeros, in blocks of 16 or last."""
    n, h, w, c = shape
    x = input(name, (n, h, w, c) if last else (n, c, h, w), "uint8")
    y = ((x.cast("float32") - 127.5) / 255.0).cast("float16")
    y = y.permute_dims((0, 3, 1, 2)) if last else y
    y = y.pad(((0, 0), (0, channels - c), (border, border), (border, 0)))
    if not blocked:
        return y.permute_dims((0, 2, 3, 1))
    tall, wide = (d for d in y.shape[2:] if isinstance(d, int))
    return y.reshape((n, channels // 16, 16, tall, wide)).permute_dims((0, 1, 3, 4, 2))


def images() -> dict[str, Tensor]:
    """Images of odd sizes: rows of the result have three channels, or more than the image."""
    return {
        "3 to 16": image("a", (2, 9, 37, 3), True, 16, 0, True),
        "planes": image("b", (1, 8, 70, 3), False, 16, 2, True),
        "4 to 16": image("c", (1, 5, 130, 4), True, 16, 1, False),
        "3 last": image("d", (2, 7, 51, 3), False, 3, 0, False),
        "20 to 32": image("e", (1, 6, 45, 20), False, 32, 0, True),
        "2 last": image("f", (1, 40, 33, 2), False, 2, 0, False),
        "apart": image("g", (1, 40, 33, 3), True, 3, 0, False).permute_dims((0, 3, 1, 2)),
    }


def all_halves() -> dict[str, Tensor]:
    """Every half through each operation, in rows and turned."""
    x, y = input("x", (128, 512), "float16"), input("y", (512, 128), "float32")
    outputs = {name: change(x) for name, change in UNARY.items()}
    turned = y.permute_dims((1, 0)).cast("float16")
    return outputs | {"turned": turned, "mixed": turned * x, "to float": x.permute_dims((1, 0)).cast("float32")}


def odd_rows() -> dict[str, Tensor]:
    """Rows that end inside of a vector, and operands that lie otherwise."""
    a, b, c = (operand(f"odd{k}", (5, 301), kind, "float16") for k, kind in enumerate(("plain", "turned", "column")))
    return {"sums": a + b * c, "odd row": a.slice((0, 3), (5, 257)) * 3, "bytes": (a * 2).cast("int8")}
