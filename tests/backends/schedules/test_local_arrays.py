"""Arrays of kernels lie within a page where they can: stacks begin anywhere, and stores into two pages are slow."""

from __future__ import annotations

import re

import pytest
from kernel_moves import MACHINES, chosen_cases, leaves_of

from eqsat.backends.c.nest import PAGE
from eqsat.backends.c.unit import print_unit
from eqsat.backends.lowering.lower import lower
from eqsat.ir.dtypes import itemsize
from eqsat.ir.tensors.tensor import Program

ARRAY = re.compile(r"^ +(\w+) (\w+)\[(\d+)(?: \* (\d+))?\] __attribute__\(\(aligned\((\d+)\)\)\);", re.MULTILINE)
ROWS_OF_LINES = {"held", "heads", "stages", "pack"}
"""Arrays of which no store lies in two lines."""
SIZES = {"char": 1, "float": 4, "double": 8}


def nbytes(kind: str, *factors: str) -> int:
    size = SIZES[kind] if kind in SIZES else itemsize(kind.removesuffix("_t"))
    for factor in factors:
        size *= int(factor or 1)
    return size


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_arrays_within_a_page(dtype: str) -> None:
    cases = chosen_cases((dtype,))
    low = lower(Program(list({x.name: x for y in cases.values() for x in leaves_of(y)}.values()), cases))
    seen: set[str] = set()
    for machine in MACHINES:
        for kind, name, *factors, aligned in ARRAY.findall(print_unit(low, 1, machine).source):
            size = nbytes(kind, *factors)
            seen.add(name)
            assert size > PAGE or size <= int(aligned) or name in ROWS_OF_LINES, (name, size, aligned)
    assert seen >= {"stage", "line", "o"}, seen
