"""Kernels on Arm: cross-compiled with `zig cc`, run by qemu-user, where both are installed."""
# feature: K1

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kernel_moves import bodies, chosen_cases, leaves_of, random_bits, small_orders

from eqsat.backends.c.cc import FLAGS, has_zig
from eqsat.backends.c.unit import print_unit
from eqsat.backends.lowering.lower import lower
from eqsat.backends.machine import MACHINES, Machine
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Program, Tensor, input

QEMU = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
"""What runs programs for Arm."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (has_zig() and QEMU), reason="needs the package ziglang, and qemu-user"),
]
ARM = MACHINES["arm"]
SMALL = Machine(ARM.vector, ARM.first, 64 << 10, 64 << 10)
"""One whose results are large, for the schedules of such."""

MAIN = """
#include <stdio.h>
#include <stdlib.h>
int posix_memalign(void **memory, size_t alignment, size_t size);
int main(void)
{
    static const size_t sizes[] = {SIZES};
    static const char roles[] = "ROLES";
    char *b[COUNT];
    for (int k = 0; k < COUNT; ++k) {
        void *memory = NULL;
        if (posix_memalign(&memory, 64, sizes[k] != 0 ? sizes[k] : 1) != 0) return 2;
        b[k] = memory;
        if (roles[k] == 'r' && fread(b[k], 1, sizes[k], stdin) != sizes[k]) return 3;
    }
    if (ENTRY(ARGUMENTS) != 0) return 4;
    for (int k = 0; k < COUNT; ++k)
        if (roles[k] == 'w' && fwrite(b[k], 1, sizes[k], stdout) != sizes[k]) return 5;
    return 0;
}
"""


def runs_on_arm(outputs: dict[str, Tensor], machine: Machine, folder: Path) -> str:
    """Compile the kernels of these outputs for Arm, compare their results with numpy's bits; the text of the C."""
    inputs = {x.name: x for y in outputs.values() for x in leaves_of(y)}
    program = Program(list(inputs.values()), outputs)
    feeds = {n: random_bits(tuple(int(str(d)) for d in x.shape), x.dtype) for n, x in inputs.items()}
    want = evaluate_outputs(program, feeds, undef=0)
    low = lower(program)
    unit = print_unit(low, 1, machine)
    (entry,) = unit.entries
    given = {low.inputs[n]: a for n, a in feeds.items()} | low.constants
    made = {b: n for n, b in low.outputs.items()}
    sizes = [*(low.buffers[b].nbytes for b in entry.buffers), low.workspace_bytes]
    main = MAIN.replace("SIZES", ", ".join(map(str, sizes))).replace("COUNT", str(len(sizes)))
    main = main.replace("ROLES", "".join("r" if b in given else "w" for b in entry.buffers) + "-")
    arguments = ", ".join(f"(void *)b[{k}]" for k in range(len(sizes)))
    main = main.replace("ARGUMENTS", arguments).replace("ENTRY", entry.name)
    source, target = folder / "main.c", folder / "main"
    source.write_text(unit.source + main)
    zig = (sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl")
    flags = [f for f in FLAGS if f not in ("-O3", "-fPIC")]
    subprocess.run([*zig, *flags, "-O2", "-fno-sanitize=undefined", str(source), "-o", str(target)], check=True)
    data = b"".join(given[b].tobytes() for b in entry.buffers if b in given)
    done = subprocess.run([str(QEMU), str(target)], input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    at = 0
    for name, size in zip(entry.buffers, sizes, strict=False):
        if name in made:
            array = want[made[name]]
            found = np.frombuffer(done.stdout[at : at + size], array.dtype).reshape(array.shape)
            np.testing.assert_array_equal(found.view(np.uint8), np.ascontiguousarray(array).view(np.uint8), made[name])
            at += size
    assert at == len(done.stdout)
    return unit.source


@pytest.mark.parametrize(
    ("dtype", "machine"),
    [("int8", ARM), ("float16", SMALL), ("float32", SMALL), ("float64", ARM), ("complex128", SMALL)],
)
def test_moves_bit_by_bit(dtype: str, machine: Machine, tmp_path: Path) -> None:
    """Tiles in 16-byte registers, interleaves, streams, copies backwards: the bits of numpy."""
    source = runs_on_arm({**chosen_cases((dtype,)), **small_orders(dtype)}, machine, tmp_path)
    assert "vector_size(16)" in source


def test_element_wise_bodies_bit_by_bit(tmp_path: Path) -> None:
    """Nothing is contracted on Arm either; binary16 is converted by the same bits."""
    x, y, h = input("p", (40, 70), "float32"), input("q", (40, 70), "float32"), input("h", (40, 70), "float16")
    more = {"sum of products": x * y + x * x - y, "halves": h * h + 1}
    more |= {"narrow": x.cast("float16"), "whole": x.cast("int8")}
    runs_on_arm({n: b for n, b in bodies().items() if n != "sums"} | more, ARM, tmp_path)
