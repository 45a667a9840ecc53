"""Generated kernels under the address and undefined-behaviour sanitizers, on buffers of exactly the declared size."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from kernel_float16 import all_halves, images, odd_rows
from kernel_moves import BITS, DTYPES, MACHINES, bodies, chosen_cases, leaves_of, rotated, small_orders, swizzled

from eqsat.backends.c.cc import find_compiler
from eqsat.backends.c.unit import print_unit
from eqsat.backends.lowering.lower import lower
from eqsat.ir.tensors.tensor import Program, Tensor

FLAGS = ("-std=c99", "-O1", "-march=native", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

MAIN = """
#include <stdio.h>
#include <stdlib.h>
int posix_memalign(void **memory, size_t alignment, size_t size);
int main(void)
{
    static const size_t sizes[] = {SIZES};
    char *b[COUNT];
    for (int k = 0; k < COUNT; ++k) {
        /* The workspace, the last one, is aligned; the arrays of a caller need not be. */
        void *memory = NULL;
        if (posix_memalign(&memory, k == COUNT - 1 ? 64 : sizeof(void *), sizes[k] != 0 ? sizes[k] : 1) != 0) return 2;
        b[k] = memory;
        for (size_t n = 0; n < sizes[k]; ++n) b[k][n] = (char)(n % 2);
    }
    if (ENTRY(ARGUMENTS) != 0) return 3;
    puts("done");
    for (int k = 0; k < COUNT; ++k) free(b[k]);
    return 0;
}
"""


def sanitized(outputs: dict[str, Tensor], number: int, folder: Path) -> subprocess.CompletedProcess[str]:
    """Compile the kernels of these outputs with a main function, and run it."""
    inputs = {x.name: x for y in outputs.values() for x in leaves_of(y)}
    low = lower(Program(list(inputs.values()), outputs))
    unit = print_unit(low, 1, MACHINES[number])
    (entry,) = unit.entries
    sizes = [*(low.buffers[b].nbytes for b in entry.buffers), low.workspace_bytes]
    main = MAIN.replace("SIZES", ", ".join(map(str, sizes))).replace("COUNT", str(len(sizes)))
    arguments = ", ".join(f"(void *)b[{k}]" for k in range(len(sizes)))
    source, program = folder / "main.c", folder / "main"
    source.write_text(unit.source + main.replace("ENTRY", entry.name).replace("ARGUMENTS", arguments))
    subprocess.run([*find_compiler(), *FLAGS, str(source), "-o", str(program), "-lm"], check=True)
    return subprocess.run([str(program)], capture_output=True, text=True, check=False)


# feature: K5
@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1, 3, 4])
@pytest.mark.parametrize("dtype", (*DTYPES[:4], "complex128"))
def test_no_access_leaves_its_buffer(dtype: str, number: int, tmp_path: Path) -> None:
    done = sanitized({**chosen_cases((dtype,)), **small_orders(dtype)}, number, tmp_path)
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-3000:]


# feature: K5
@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 2])
def test_rows_of_halves_stay_in_their_buffers(number: int, tmp_path: Path) -> None:
    done = sanitized(all_halves() | odd_rows() | images(), number, tmp_path)
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-3000:]


# feature: K5
@pytest.mark.slow
def test_rotated_and_swizzled_rows_stay_in_their_buffers(tmp_path: Path) -> None:
    outputs = {dtype: swizzled(f"x{dtype}", dtype, (37, 96), 32, 1) for dtype in BITS}
    outputs |= {f"{d} turned": rotated(f"y{d}", d, (21, 35), 31, 3, -1, 5) for d in BITS}
    done = sanitized(outputs | {"blocks": swizzled("b", "int8", (33, 128), 32, 4)} | bodies(), 0, tmp_path)
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-3000:]
