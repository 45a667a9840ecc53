"""Cases beyond transposes: h pointwise work on the way, x indices that no strides describe, r flips and rolls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import eqsat as eq
from eqsat.ir.dtypes import NDArray, is_float
from eqsat.ir.tensors.tensor import Tensor
from eqsat.ir.terms.term import Term
from kernel_suite.native import Call

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Fused:
    """A case with its own program, numpy meaning, spellings for numpy and torch, and C expression of x and i0, i1, ....

    `tables` are C declarations that the expression uses.
    """

    name: str
    family: str
    dtype: str
    shape: Shape
    out_dtype: str
    out_shape: Shape
    program: Callable[[], Tensor]
    reference: Callable[[NDArray], NDArray]
    with_numpy: Callable[[NDArray, NDArray], Call]
    with_torch: Callable[[Any, NDArray, NDArray], Call] | None
    expression: str
    tables: str = ""

    @property
    def moved(self) -> int:
        """The bytes read and written, each once."""
        sizes = ((self.shape, self.dtype), (self.out_shape, self.out_dtype))
        return sum(prod(shape) * np.dtype(dtype).itemsize for shape, dtype in sizes)

    def sample(self, rng: np.random.Generator) -> NDArray:
        """Random numbers of the input's shape."""
        if is_float(self.dtype):
            return (rng.random(self.shape, np.float32) - np.float32(0.5)).astype(self.dtype)
        return rng.integers(0, 128, self.shape).astype(self.dtype)


SCALE = (np.array([1 / 0.229, 1 / 0.224, 1 / 0.225]) / 255).astype("float32")
SHIFT = -np.array([0.485 / 0.229, 0.456 / 0.224, 0.406 / 0.225]).astype("float32")


def image() -> Fused:
    """A batch of uint8 NHWC images, normalised, as float16 NCHW16c with a border of 3 and 13 channels of zeros."""
    n, h, w, c, border = 8, 224, 224, 3, 3
    tall, wide = h + 2 * border, w + 2 * border
    out_shape = (n, 1, tall, wide, 16)

    def program() -> Tensor:
        x = eq.input("x", (n, h, w, c), "uint8")
        y = eq.cast(eq.cast(x, "float32") * eq.constant(SCALE) + eq.constant(SHIFT), "float16")
        y = y.permute_dims((0, 3, 1, 2)).pad([(0, 0), (0, 16 - c), (border, border), (border, border)], 0)
        return y.reshape((n, 1, 16, tall, wide)).permute_dims((0, 1, 3, 4, 2))

    def reference(x: NDArray) -> NDArray:
        out = np.zeros(out_shape, "float16")
        inner = x.astype("float32") * SCALE + SHIFT
        out[:, 0, border : h + border, border : w + border, :c] = inner.astype("float16")
        return out

    def with_numpy(x: NDArray, out: NDArray) -> Call:
        scratch = np.empty(x.shape, "float32")
        inner = out[:, 0, border : h + border, border : w + border, :c]

        def run() -> None:
            np.multiply(x, SCALE, out=scratch)
            np.add(scratch, SHIFT, out=scratch)
            out.fill(0)
            np.copyto(inner, scratch, casting="same_kind")

        return run

    def with_torch(torch: Any, x: NDArray, out: NDArray) -> Call:
        source, target, scale, shift = (torch.from_numpy(a) for a in (x, out, SCALE, SHIFT))
        inner = target[:, 0, border : h + border, border : w + border, :c]

        def run() -> None:
            target.zero_()
            inner.copy_(source.float().mul_(scale).add_(shift))

        return run

    row, column = f"(unsigned)(i2 - {border}) < {h}", f"(unsigned)(i3 - {border}) < {w}"
    value = f"x[((i0 * {h} + i2 - {border}) * {w} + i3 - {border}) * {c} + i4] * scale[i4] + shift[i4]"
    tables = "".join(
        f"static const float {name}[3] = {{{', '.join(float(v).hex() + 'f' for v in values)}}};\n"
        for name, values in (("scale", SCALE), ("shift", SHIFT))
    )
    return Fused(
        "image_u8_8x224x224x3_f16_nchw16c_pad3", "h", "uint8", (n, h, w, c), "float16", out_shape, program, reference,
        with_numpy, with_torch, f"i4 < {c} && {row} && {column} ? (_Float16)({value}) : (_Float16)0", tables,
    )  # fmt: skip


def relu_blocked() -> Fused:
    """relu on the way from NCHW to NCHW16c."""
    n, c, h, w = 8, 64, 56, 56
    split, axes = (n, c // 16, 16, h, w), (0, 1, 3, 4, 2)

    def program() -> Tensor:
        return eq.input("x", (n, c, h, w), "float32").relu().reshape(split).permute_dims(axes)

    def view(x: NDArray) -> NDArray:
        return x.reshape(split).transpose(axes)

    def with_torch(torch: Any, x: NDArray, out: NDArray) -> Call:
        source, target = torch.from_numpy(view(x)), torch.from_numpy(out)
        return lambda: torch.clamp_min(source, 0, out=target)

    at = f"x[((i0 * {c // 16} + i1) * 16 + i4) * {h * w} + i2 * {w} + i3]"
    return Fused(
        "relu_nchw2nchw16c_8x64x56x56", "h", "float32", (n, c, h, w), "float32", (n, c // 16, h, w, 16), program,
        lambda x: np.ascontiguousarray(np.maximum(view(x), np.float32(0))),
        lambda x, out: lambda: np.maximum(view(x), np.float32(0), out=out),
        with_torch, f"{at} > 0 ? {at} : 0",
    )  # fmt: skip


def cast_nhwc() -> Fused:
    """float32 NCHW to float16 NHWC."""
    shape, axes = (8, 64, 56, 56), (0, 2, 3, 1)

    def program() -> Tensor:
        return eq.cast(eq.input("x", shape, "float32"), "float16").permute_dims(axes)

    def with_torch(torch: Any, x: NDArray, out: NDArray) -> Call:
        source, target = torch.from_numpy(x.transpose(axes)), torch.from_numpy(out)
        return lambda: target.copy_(source)

    return Fused(
        "cast_f4f2_nchw2nhwc_8x64x56x56", "h", "float32", shape, "float16", (8, 56, 56, 64), program,
        lambda x: np.ascontiguousarray(x.transpose(axes).astype("float16")),
        lambda x, out: lambda: np.copyto(out, x.transpose(axes), casting="same_kind"),
        with_torch, "(_Float16)x[(i0 * 64 + i3) * 3136 + i1 * 56 + i2]",
    )  # fmt: skip


def gathered(name: str, dtype: str, shape: tuple[int, int], index: NDArray, program: Callable[[], Tensor], c: str,
             tables: str = "") -> Fused:  # fmt: skip
    """A matrix whose element (i, j) comes from position `index[i, j]` of the flat input."""
    flat = np.ascontiguousarray(index.reshape(-1), np.int64)

    def with_torch(torch: Any, x: NDArray, out: NDArray) -> Call:
        source, target, places = (torch.from_numpy(a.reshape(-1)) for a in (x, out, flat))
        return lambda: torch.index_select(source, 0, places, out=target)

    def with_numpy(x: NDArray, out: NDArray) -> Call:
        source, target = x.reshape(-1), out.reshape(-1)
        return lambda: np.take(source, flat, out=target, mode="clip")

    return Fused(
        name, "x", dtype, shape, dtype, shape, program, lambda x: x.reshape(-1)[flat].reshape(shape), with_numpy,
        with_torch, c, tables,
    )  # fmt: skip


def generic() -> list[Fused]:
    """Swizzles, a skew and gathers: no loop order makes their addresses linear."""
    shape = (4096, 1024)
    columns = shape[1]
    i, j = np.indices(shape)
    table = np.random.default_rng(7).permutation(columns)
    declared = f"static const int table[{columns}] = {{{', '.join(map(str, table))}}};\n"

    def swizzled(dtype: str, step: int, rows: int = 8) -> Fused:
        def program() -> Tensor:
            x = eq.input("x", shape, dtype)
            return eq.compute(shape, lambda i, j: x[i, j ^ (i % rows * step)])

        source = i * columns + (j ^ (i % rows * step))
        at = f"x[i0 * {columns} + (i1 ^ (i0 % {rows} * {step}))]"
        name = f"swizzle_4096x1024_by{step}" + (f"of{rows}" if rows != 8 else "")
        return gathered(f"{name}_{dtype}", dtype, shape, source, program, at)

    def skewed(dtype: str) -> Fused:
        def program() -> Tensor:
            x = eq.input("x", shape, dtype)
            return eq.compute(shape, lambda i, j: x[i, (i + j) % columns])

        name = "skew_4096x1024" + (f"_{dtype}" if dtype != "float32" else "")
        at = f"x[i0 * {columns} + (i0 + i1) % {columns}]"
        return gathered(name, dtype, shape, i * columns + (i + j) % columns, program, at)

    def picked(of_rows: bool) -> Callable[[], Tensor]:
        def program() -> Tensor:
            x, t = eq.input("x", shape, "float32"), eq.constant(table.astype("int32"))

            def element(i: Any, j: Any) -> Any:
                entry: Term = t[i % columns if of_rows else j]
                place = eq.minimum(eq.maximum(eq.cast(entry, "index"), 0), columns - 1)
                return x[place, j] if of_rows else x[i, place]

            return eq.compute(shape, element)

        return program

    return [
        swizzled("float32", 4),
        swizzled("float16", 8),
        swizzled("int8", 1),
        swizzled("float32", 1, 64),
        swizzled("int8", 1, 1024),
        skewed("float32"),
        skewed("int8"),
        gathered(
            "take_columns_4096x1024", "float32", shape, i * columns + table[j], picked(False),
            f"x[i0 * {columns} + table[i1]]", declared,
        ),
        gathered(
            "take_rows_4096x1024", "float32", shape, table[i % columns] * columns + j, picked(True),
            f"x[table[i0 % {columns}] * {columns} + i1]", declared,
        ),
    ]  # fmt: skip


def flipped(name: str, dtype: str, shape: Shape, axis: int) -> Fused:
    """A reversed axis."""
    letters = [f"i{k}" if k != axis else f"({n - 1} - i{k})" for k, n in enumerate(shape)]
    at = letters[0]
    for letter, n in zip(letters[1:], shape[1:], strict=True):
        at = f"({at}) * {n} + {letter}"

    def view(x: NDArray) -> NDArray:
        return np.flip(x, axis)

    def with_torch(torch: Any, x: NDArray, out: NDArray) -> Call:
        source, target, places = torch.from_numpy(x), torch.from_numpy(out), torch.arange(shape[axis] - 1, -1, -1)
        return lambda: torch.index_select(source, axis, places, out=target)

    return Fused(
        name, "r", dtype, shape, dtype, shape, lambda: eq.input("x", shape, dtype).flip(axis),
        lambda x: np.ascontiguousarray(view(x)), lambda x, out: lambda: np.copyto(out, view(x)), with_torch, f"x[{at}]",
    )  # fmt: skip


def rolled(dtype: str, rows: int, columns: int, by: int) -> Fused:
    """Columns moved to the right, the last ones to the front."""
    shape = (rows, columns)

    def parts(x: NDArray, out: NDArray) -> list[tuple[NDArray, NDArray]]:
        return [(out[:, by:], x[:, :-by]), (out[:, :by], x[:, -by:])]

    def with_numpy(x: NDArray, out: NDArray) -> Call:
        return lambda: [np.copyto(target, source) for target, source in parts(x, out)]

    def with_torch(torch: Any, x: NDArray, out: NDArray) -> Call:
        pairs = [(torch.from_numpy(target), torch.from_numpy(source)) for target, source in parts(x, out)]
        return lambda: [target.copy_(source) for target, source in pairs]

    return Fused(
        f"roll_{rows}x{columns}_by{by}_{dtype}", "r", dtype, shape, dtype, shape,
        lambda: eq.input("x", shape, dtype).roll(by, 1), lambda x: np.roll(x, by, 1), with_numpy, with_torch,
        f"x[i0 * {columns} + (i1 < {by} ? i1 + {columns - by} : i1 - {by})]",
    )  # fmt: skip


def fused_cases() -> list[Fused]:
    """Families h, x and r."""
    return [
        image(),
        relu_blocked(),
        cast_nhwc(),
        *generic(),
        flipped("flip_w_8x224x224x3_u1", "uint8", (8, 224, 224, 3), 2),
        flipped("flip_1d_4194304", "float32", (4194304,), 0),
        flipped("flip_rows_1024x1024_f2", "float16", (1024, 1024), 1),
        rolled("float32", 2048, 2048, 700),
        rolled("int8", 1024, 4096, 13),
    ]
