"""Moves of random shapes and element types, machines to choose their schedules for, and how results are compared."""

from __future__ import annotations

from math import prod

import numpy as np

from eqsat.backends.c.kernel import CKernel
from eqsat.backends.lowering.lower import Lowered
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import Machine
from eqsat.backends.schedules.choose import schedule_moves
from eqsat.backends.schedules.schedule import Schedule
from eqsat.ir.dtypes import NDArray, is_float, itemsize
from eqsat.ir.tensors import tensor
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Program, Tensor, compute, input

MARGIN = 256
MACHINES = [
    Machine(32), Machine(16, second=1 << 14), Machine(64, strip=128), Machine(32, last=1 << 8, shuffled=16),
    Machine(16, last=1 << 8), Machine(64, second=1 << 10, last=1 << 8),
]  # fmt: skip
"""Vector widths; a tiny last cache makes every kernel stream its result."""


def random_bits(shape: tuple[int, ...], dtype: str, seed: int = 0) -> NDArray:
    """Every bit pattern, but for bool and for NaN, of which numpy has one."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    raw = rng.integers(0, 256, prod(shape) * np.dtype(dtype).itemsize, dtype=np.uint8).view(dtype).reshape(shape)
    with np.errstate(invalid="ignore"):
        return np.where(np.isnan(raw), np.ones((), dtype), raw) if is_float(dtype) else raw


def guarded(shape: tuple[int, ...], dtype: str, shift: int) -> tuple[NDArray, NDArray]:
    """An array `shift` elements behind a line, and the bytes around and under it."""
    size = np.dtype(dtype).itemsize
    nbytes = prod(shape) * size
    raw = np.full(nbytes + 2 * MARGIN + 64, 0xA5, np.uint8)
    start = MARGIN + (-(raw.ctypes.data + MARGIN) % 64) + shift * size % 64
    return raw[start : start + nbytes].view(dtype).reshape(shape), raw


def check_bits(outputs: dict[str, Tensor], threads: int, machine: Machine, shift: int = 0) -> None:
    """Outputs equal numpy's bits, and nothing around them is written."""
    inputs = {x.name: x for y in outputs.values() for x in leaves_of(y)}
    program = Program(list(inputs.values()), outputs)
    feeds = {n: random_bits(tuple(int(str(d)) for d in x.shape), x.dtype) for n, x in inputs.items()}
    want = evaluate_outputs(program, feeds, undef=0)
    places = {n: guarded(a.shape, a.dtype.name, shift) for n, a in want.items()}
    held = {n: guarded(a.shape, a.dtype.name, shift + 1) for n, a in feeds.items()}
    for n, (array, _) in held.items():
        array[...] = feeds[n]
    CKernel(program, threads, machine)({n: a for n, (a, _) in held.items()}, out={n: a for n, (a, _) in places.items()})
    for n, (array, raw) in places.items():
        np.testing.assert_array_equal(array.reshape(-1).view(np.uint8), want[n].reshape(-1).view(np.uint8), err_msg=n)
        used = np.zeros(raw.size, bool)
        first = array.ctypes.data - raw.ctypes.data
        used[first : first + array.nbytes] = True
        assert (raw[~used] == 0xA5).all(), n


def leaves_of(y: Tensor) -> list[Tensor]:
    return [Tensor(n) for n in tensor.node_order([y]) if isinstance(n, tensor.Input)]


def nchw(c: int, h: int, w: int, dtype: str) -> Tensor:
    return input(f"x_{c}_{h}_{w}_{dtype}", (2, c, h, w), dtype)


DTYPES = ("int8", "float16", "float32", "float64", "bool")


def chosen_cases(dtypes: tuple[str, ...] = DTYPES) -> dict[str, Tensor]:
    """Small relatives of what users do, of every element size."""
    cases: dict[str, Tensor] = {}
    for dtype in dtypes:
        for c in (3, 16, 33, 70):
            x = nchw(c, 9, 15, dtype)
            cases[f"nhwc {c} {dtype}"] = x.permute_dims((0, 2, 3, 1))
            y = input(f"z_{c}_{dtype}", (2, 9, 15, c), dtype)
            cases[f"nchw {c} {dtype}"] = y.permute_dims((0, 3, 1, 2))
        x = nchw(20, 6, 17, dtype)
        filled = x.pad(((0, 0), (0, 12), (0, 0), (0, 0)), dtype == "bool" or 3)
        cases[f"blocked {dtype}"] = filled.reshape((2, 2, 16, 6, 17)).permute_dims((0, 1, 3, 4, 2))
        cases[f"border {dtype}"] = x.pad(((0, 0), (0, 0), (1, 2), (3, 1)), False if dtype == "bool" else 0)
        cases[f"border nhwc {dtype}"] = x.pad(((0, 0), (0, 0), (1, 2), (3, 1)), dtype == "bool" or 5).permute_dims(
            (0, 2, 3, 1)
        )
        cases[f"crop {dtype}"] = x.crop((0, 3, 1, 2), (2, 13, 4, 13)).permute_dims((0, 2, 1, 3))
        v = input(f"v_{dtype}", (6, 2, 5, 16), dtype)
        cases[f"interleaved {dtype}"] = v.permute_dims((0, 2, 3, 1))
        cases[f"repeated {dtype}"] = v.tile((1, 2, 1, 1)).permute_dims((0, 3, 2, 1)).tile((1, 1, 1, 3))
        cases[f"spread {dtype}"] = input(f"w_{dtype}", (5, 1, 8), dtype).broadcast_to((5, 3, 8)).permute_dims((2, 0, 1))
        m = input(f"m_{dtype}", (70, 129), dtype)
        cases[f"matrix {dtype}"] = m.permute_dims((1, 0))
        s = input(f"s_{dtype}", (256, 1024), dtype)
        cases[f"power of two {dtype}"] = s.permute_dims((1, 0))
        cases[f"crowded {dtype}"] = input(f"c_{dtype}", (523, 1024), dtype).permute_dims((1, 0))
        cases[f"many rows {dtype}"] = input(f"r_{dtype}", (130, 2100), dtype).permute_dims((1, 0))
        for r, (high, wide) in ((2, (6, 64)), (3, (5, 43))):
            image = input(f"u_{r}_{dtype}", (3, high * r, wide * r), dtype).reshape((3, high, r, wide, r))
            cases[f"pixels apart {r} {dtype}"] = image.permute_dims((0, 2, 4, 1, 3))
        narrow = input(f"q_{dtype}", (300, 3, 16), dtype).flip(1)
        cases[f"one block wide {dtype}"] = narrow.permute_dims((2, 1, 0))
        page = min(4096 // itemsize(dtype), 2048)
        shapes = {"read": (300, page - 1), "written": (page - 1, 300), "both": (page + 1, page // 2 - 1)}
        shapes["both, in lines"] = (page, page // 2)
        for name, shape in shapes.items():
            cases[f"crowded when {name} {dtype}"] = input(f"c_{name}_{dtype}", shape, dtype).permute_dims((1, 0))
        short = input(f"a_{dtype}", (31, 5, 3, 4), dtype)
        cases[f"short rows {dtype}"] = short.permute_dims((2, 1, 3, 0))
        for c in (3, 5, 7):
            cases[f"woven {c} {dtype}"] = input(f"o_{c}_{dtype}", (2, c, 70), dtype).permute_dims((0, 2, 1))
            cases[f"taken apart {c} {dtype}"] = input(f"p_{c}_{dtype}", (2, 70, c), dtype).permute_dims((0, 2, 1))
        b = input(f"b_{dtype}", (3, 9, 70), dtype)
        cases[f"backwards {dtype}"] = b.flip(2)
        cases[f"backwards with border {dtype}"] = b.flip(2).pad(((0, 0), (0, 0), (3, 2)), dtype == "bool" or 2)
        cases[f"backwards, long {dtype}"] = input(f"l_{dtype}", (70_001,), dtype).flip(0)
        packed = input(f"k_{dtype}", (40, 21 * 16), dtype).reshape((40, 21, 16))
        cases[f"panels {dtype}"] = packed.permute_dims((1, 0, 2))
        cases[f"strips {dtype}"] = input(f"n_{dtype}", (2, 16, 1024), dtype).permute_dims((0, 2, 1))
        if dtype == "float64":
            cases[f"parts {dtype}"] = input(f"g_{dtype}", (65 * 8, page + 5), dtype).permute_dims((1, 0))
        half = 32 // itemsize(dtype)
        cases[f"half lines {dtype}"] = input(f"h_{dtype}", (40 * 2 * half, half), dtype).permute_dims((1, 0))
        fours = input(f"f_{dtype}", (48, 96), dtype).reshape((12, 4, 6, 16))
        cases[f"woven in panels {dtype}"] = fours.permute_dims((2, 0, 3, 1))
        fours = input(f"d_{dtype}", (2, 256, 192), dtype).reshape((2, 64, 4, 12, 16))
        cases[f"woven in panels that alias {dtype}"] = fours.permute_dims((0, 3, 1, 4, 2))
        near = input(f"e_{dtype}", (2, 160, 100), dtype)
        cases[f"near {dtype}"] = near.permute_dims((0, 2, 1))
        t = input(f"t_{dtype}", (5, 3, 24, 7, 24), dtype)
        cases[f"chains {dtype}"] = t.permute_dims((4, 1, 3, 2, 0))
        cases[f"rows {dtype}"] = t.permute_dims((2, 1, 0, 3, 4))
        cases[f"reversed {dtype}"] = t.permute_dims((4, 3, 2, 1, 0))
    return cases


def parts(low: Lowered, machine: Machine, threads: int = 1) -> list[tuple[Move, Schedule]]:
    return [part for moves in low.moves.values() for part in schedule_moves(moves, machine, threads) or []]


def small_orders(dtype: str) -> dict[str, Tensor]:
    """Orders of axes and directions inside of 16 bytes and around them."""
    count = 16 // np.dtype(dtype).itemsize
    cases = {"pairs": input("a", (33, 5, 2), dtype).flip(2), "back": input("b", (7, 3, count), dtype).flip(2)}
    cases["rows"] = input("c", (9, 2, count // 2 or 1), dtype).flip(1)
    if count > 1:
        cases["halves"] = input("d", (9, 6, count), dtype).reshape((9, 12, count // 2)).flip(2)
    cases["square"] = input("e", (10, 4, 4), dtype).permute_dims((0, 2, 1))
    cases["box"] = input("f", (10, 2, 2, 2), dtype).permute_dims((0, 3, 1, 2))
    cases["beyond"] = input("g", (3, 8, 2), dtype).permute_dims((0, 2, 1))
    return cases


BITS = ("int8", "float16", "float32", "float64", "bool")


def rotated(name: str, dtype: str, shape: tuple[int, int], columns: int, factor: int, sign: int, shift: int) -> Tensor:
    """Row i begins at place factor * i + shift, and goes round."""
    x = input(name, shape, dtype)
    return compute((shape[0], columns), lambda i, j: x[i, (factor * i + sign * j + shift) % shape[1]])


def swizzled(name: str, dtype: str, shape: tuple[int, int], turns: int, run: int) -> Tensor:
    """Blocks of `run` elements of row i change places by an exclusive or with i % turns."""
    x = input(name, shape, dtype)
    return compute(shape, lambda i, j: x[i, (j // run ^ (i % turns)) * run + j % run])


def bodies() -> dict[str, Tensor]:
    """Work on rotated and swizzled elements; indices that wrap in an outer loop, twice, or not at all."""
    x, w = input("x", (20, 65), "float32"), input("w", (3, 20, 33), "uint8")
    return {
        "relu": compute((20, 65), lambda i, j: x[i, (i + j) % 65]).relu() * 2,
        "both": compute((20, 65), lambda i, j: x[i, (i + j) % 65] + x[(i + j) % 20, j] - x[i, (j - i) % 65]),
        "outer": compute((20, 65), lambda i, j: x[(i + j) % 20, j]),
        "deep": compute((3, 20, 33), lambda a, i, j: w[a, i, (j + a + i) % 33]),
        "sums": compute((20,), lambda i, j: x[i, (i + j) % 65] * x[i, j], reduce=(65,)),
        "twice round": compute((20, 130), lambda i, j: x[i, (i + j) % 65]),
        "turned": compute((64, 16), lambda i, j: w[i % 3, j, (i ^ j) % 33]),
    }
