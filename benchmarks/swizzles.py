"""What a swizzled layout is worth: banks of a GPU's local memory, and sets of a CPU's cache.

    python benchmarks/swizzles.py [--only gpu|cpu] [--side N] [--rounds N] [--json FILE]

`gpu`: transposes whose tiles go through local memory (32 x 32; 64 x 64 of elements of less than a word), printed by
target "opencl" with the tile laid out plain, with a spare word in each row, and swizzled by `column ^ row`; how often
the banks are asked for a row and for a column, by `local_tiles.conflicts`; GB/s, bytes read plus written, beside a
copy by the device. Then the reads of columns alone: a tile is loaded once and its columns are read again and again.
Times are the device's own (events), median of the rounds, in turns. It takes the first GPU that pyopencl finds, else
the first device, which may have no banks.

`cpu`: a matrix is written column by column, its rows 4096 bytes apart, so that all lines of a column meet in one set of
the first cache; `eq.Schedule.transform_layout` gives it a spare line in each row, or swizzles each row's lines.
Processor time, median of the rounds, in turns.

Every result is compared with numpy's before anything is timed.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from device_times import Timed, buffers, check, device, launch, medians, printed, seconds_of, spoil
from gallery import processor

import eqsat as eq
from eqsat.backends.c.expr import Scope
from eqsat.backends.cache_sets import PERIOD
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.machine import LINE
from eqsat.backends.opencl.device import OpenDevice, build, opencl
from eqsat.backends.opencl.expr import ClExpressions, spell
from eqsat.backends.opencl.local_tiles import LAYOUTS, SIDE, cells, conflicts, shape
from eqsat.backends.opencl.local_tiles import layout as tile_layout
from eqsat.ir.dtypes import NDArray, itemsize
from eqsat.ir.errors import BackendError
from eqsat.ir.terms import term as t

ROWS = 8
"""Rows of a tile that a group of work-items walks at a time."""
WALK = """__kernel __attribute__((reqd_work_group_size({items}, 1, 1)))
void walk(__global const float *restrict in, __global float *restrict out, const int reads)
{{
    __local float tile[{cells}];
    const int group = (int)get_group_id(0);
    const int lane = (int)get_local_id(0) % {side}, row = (int)get_local_id(0) / {side};
    for (int k = row; k < {side}; k += {rows})
        tile[{store}] = in[{side} * ({side} * group + k) + lane];
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0.0f;
    for (int n = 0; n < reads; ++n) {{
        const int k = (n + row) % {side};
        sum += tile[{read}];
    }}
    out[get_global_id(0)] = sum;
}}"""


@dataclass(frozen=True)
class Row:
    """One variant of one case."""

    case: str
    layout: str
    local_bytes: int
    """Of a tile in local memory; of the matrix on a CPU."""
    asked: str
    """How often the banks are asked for the worst row and column; on a CPU, the most lines of a column in one set."""
    seconds: float
    rate: float
    """GB/s."""
    of_plain: float
    """How many times as fast as the plain layout."""


# -- OpenCL


def transposes(where: OpenDevice, side: int, dtype: str, rounds: int) -> list[Row]:
    """A square transpose with each layout of its tiles, and a copy by the device."""
    x = eq.input("x", (side, side), dtype)
    program = eq.Program([x], {"y": x.permute_dims((1, 0))})
    array = (np.arange(side * side) % 113).astype(dtype).reshape(side, side)
    want: NDArray = np.ascontiguousarray(array.T)
    read, write = buffers(where, array, want)
    calls: dict[str, Timed] = {"copy": lambda: seconds_of(opencl().enqueue_copy(where.queue, write, read))}
    for name in LAYOUTS:
        profile = replace(where.profile, kind="gpu", tile=name)
        calls[name], source = printed(where, program, profile, {"x": read, "y": write})
        if "__local" not in source:
            raise BackendError(where.profile.name, "has too little local memory, or too small groups, for tiles")
        spoil(where, write)
        calls[name]()
        check(where, write, want, f"transpose {name}")
    facts = tile_facts(*shape(side, side, itemsize(dtype)), itemsize(dtype)) | {"copy": (0, "")}
    return rows(f"{side} x {side} {dtype}", medians(calls, rounds), facts, 2 * array.nbytes)


def tile_facts(height: int, width: int, size: int) -> dict[str, tuple[int, str]]:
    """Bytes of a tile in each layout, and how often the banks are asked for its worst row and its worst column."""
    found: dict[str, tuple[int, str]] = {}
    for name in LAYOUTS:
        tile = tile_layout(name, height, width, size)
        asked = "{}, {}".format(*conflicts(tile, height, width, size))
        found[name] = (cells(tile, height, width) * size, asked)
    return found


def place(name: str, row: str, column: str) -> str:
    """Where a cell of a tile lies, as target "opencl" prints it."""
    cell = t.ax(0, SIDE), t.ax(1, SIDE)
    expressions = ClExpressions({}, "int32_t", IndexSimplifier({}), {}, True)
    expressions.axes.update(zip(cell, (row, column), strict=True))
    (text,) = expressions.print_terms(list(tile_layout(name, SIDE, SIDE, 4).map_indices(cell)), Scope())
    return spell(text)


def walks(where: OpenDevice, groups: int, reads: int, rounds: int) -> list[Row]:
    """The reads of columns alone: each work-item adds up cells of its row of a tile, `reads` of them."""
    source = (np.arange(groups * SIDE * SIDE) % 7).astype("float32")
    sums = source.reshape(groups, 1, SIDE, SIDE).sum(-1) * (reads // SIDE)
    want: NDArray = np.ascontiguousarray(np.broadcast_to(sums, (groups, ROWS, SIDE)))
    read, write = buffers(where, source, want)
    calls: dict[str, Timed] = {}
    for name in LAYOUTS:
        places = {"store": place(name, "k", "lane"), "read": place(name, "lane", "k")}
        text = WALK.format(
            items=SIDE * ROWS, cells=cells(tile_layout(name, SIDE, SIDE, 4), SIDE, SIDE), side=SIDE, rows=ROWS, **places
        )
        kernel: Any = build(where, text).walk
        kernel.set_args(read, write, np.int32(reads))
        calls[name] = launch(where, kernel, want.size, SIDE * ROWS)
        spoil(where, write)
        calls[name]()
        check(where, write, want, f"walk {name}")
    return rows("columns of a tile", medians(calls, rounds), tile_facts(SIDE, SIDE, 4), want.size * reads * 4)


def rows(case: str, times: Mapping[str, float], facts: Mapping[str, tuple[int, str]], moved: int) -> list[Row]:
    """The lines of a case."""
    plain = times["plain"]
    return [Row(case, n, *facts[n], seconds, moved / seconds / 1e9, plain / seconds) for n, seconds in times.items()]


def on_device(side: int | None, rounds: int) -> list[Row]:
    """The transposes and the walks on the device that is there."""
    try:
        where = device()
    except BackendError as error:
        print(f"no OpenCL: {error}")
        return []
    profile = where.profile
    version = f"{where.device.platform.name.strip()}, driver {where.device.driver_version.strip()}"
    print(f"{profile.name}, {profile.units} units ({version})")
    real = profile.kind == "gpu"
    if not real:
        print("no GPU among the OpenCL devices: local memory is the cache of a CPU here, without banks")
    found: list[Row] = []
    for dtype in ("float32", "float16", "float64", "int8"):
        if dtype != "float64" or profile.double:
            found += transposes(where, side or (8192 if real else 512), dtype, rounds)
    return found + walks(where, 4096 if real else 64, 4096 if real else 64, rounds)


# -- the caches of a CPU


def columns(height: int, width: int) -> eq.PrimFunc:
    """y[j, i] = x[i, j] in the order of x: y is written column by column."""
    return eq.PrimFunc.parse(f"""func columns(x: float32[{width}, {height}], y: float32[{height}, {width}])
  for i in {width}:
    for j in {height}:
      y[j, i] = x[i, j]""")


def fullest_set(layout: eq.IndexMap, height: int, width: int) -> int:
    """The most lines of the first column that meet in a set of the first cache."""
    extents = [int(str(extent)) for extent in layout.map_shape((height, width))]
    places = [np.ravel_multi_index(layout.map_indices((i, 0)), extents) * 4 for i in range(height)]
    return max(Counter(place % PERIOD // LINE for place in places).values())


def on_cpu(rounds: int, height: int = 1024, width: int = 1024) -> list[Row]:
    """A matrix written by columns: plain, with a spare line in each row, and with the lines of each row swizzled."""
    lanes = LINE // 4
    layouts = {
        "plain": eq.IndexMap.parse("j, i -> j, i"),
        "padded": eq.IndexMap.parse(f"j, i -> j*{width + lanes} + i"),
        "swizzled": eq.IndexMap.parse(f"j, i -> j, (i//{lanes} ^ j%{width // lanes})*{lanes} + i%{lanes}"),
    }
    x = np.random.default_rng(0).random((width, height), "float32")
    calls: dict[str, Timed] = {}
    facts: dict[str, tuple[int, str]] = {}
    for name, layout in layouts.items():
        if not layout.is_injective((height, width)):
            raise RuntimeError(f"{name} loses elements")
        schedule = eq.Schedule(columns(height, width))
        schedule.transform_layout("y", layout, interface="free", rewrite_loops=False)
        want = layout.map_ndarray(x.T, pad_value=0)
        y = np.zeros_like(want)
        call: Callable[[], None] = eq.compile(schedule.func).bind(x=x, y=y)
        call()
        if not np.array_equal(y, want):
            raise RuntimeError(f"columns {name}: another result than numpy's")
        calls[name] = lambda call=call: processor_seconds(call)
        facts[name] = (y.nbytes, str(fullest_set(layout, height, width)))
    return rows(f"columns of {height} x {width}", medians(calls, rounds), facts, 2 * x.nbytes)


def processor_seconds(call: Callable[[], None]) -> float:
    """The processor time of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def table(found: Sequence[Row], asked: str) -> None:
    """Print lines of results."""
    print(f"{'':24} {'layout':9} {'bytes':>8} {asked:>12} {'ms':>9} {'GB/s':>8} {'of plain':>8}")
    for r in found:
        numbers = f"{r.seconds * 1e3:9.3f} {r.rate:8.1f} {r.of_plain:8.2f}"
        print(f"{r.case:24} {r.layout:9} {r.local_bytes:8} {r.asked:>12} {numbers}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=("gpu", "cpu"))
    parser.add_argument("--side", type=int, help="of the transposed square; 8192 on a GPU")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: list[Row] = []
    if options.only != "cpu":
        found += on_device(options.side, options.rounds)
        table(found, "row, column")
    if options.only != "gpu":
        print(processor())
        here = on_cpu(options.rounds)
        table(here, "in one set")
        found += here
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in found], indent=1))


if __name__ == "__main__":
    main()
