"""Two peers that are C and C++: plain loops, and HPTT through a few lines built here."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from eqsat.ir.dtypes import NDArray
from kernel_suite.case import Case
from kernel_suite.fused import Fused
from kernel_suite.native import Call, address, build, compiler
from kernel_suite.peers import Task

C_TYPES = {
    "int8": "signed char",
    "uint8": "unsigned char",
    "float16": "_Float16",
    "float32": "float",
    "float64": "double",
}
# A C type of that size for data that is only moved: gcc's _Float16 moves are not always vectorised.
MOVED = {1: "signed char", 2: "short", 4: "float", 8: "double"}


def _expression(task: Case) -> str:
    """The element of the output at i0, i1, ... as C."""
    place = {axis: f"i{k}" for k, axis in enumerate(task.transpose)}
    flat, conditions = "0", list[str]()
    for group, (start, stop), (before, after), extent in zip(
        task.groups, task.ranges, task.pads, task.shape, strict=True
    ):
        at = "0"
        for axis in group:
            at = place[axis] if at == "0" else f"({at}) * {task.reshape[axis]} + {place[axis]}"
        if before or after:
            conditions.append(f"(unsigned long)({at} - {before}) < {stop - start}")
        flat = f"({flat}) * {extent} + {at} + {start - before}"
    value = f"x[{flat}]"
    return f"{' && '.join(conditions)} ? {value} : 0" if conditions else value


def loops(task: Task, threads: int) -> str:
    """The case as a C function of plain loops in the order of the output."""
    shape = task.out_shape
    if isinstance(task, Case):
        kind = MOVED[np.dtype(task.dtype).itemsize]
        kinds, value, tables = (kind, kind), _expression(task), ""
    else:
        kinds = (C_TYPES[task.dtype], C_TYPES[task.out_dtype])
        value, tables = task.expression, task.tables
    lines = [tables, f"void run(const {kinds[0]} *restrict x, {kinds[1]} *restrict out) {{"]
    if threads > 1:
        depth = max(1, len(shape) - 2)
        lines.append(f"#pragma omp parallel for collapse({depth}) num_threads({threads})")
    lines += [f"for (long i{k} = 0; i{k} < {n}; i{k}++)" for k, n in enumerate(shape)]
    at = "i0"
    for k in range(1, len(shape)):
        at = f"({at}) * {shape[k]} + i{k}"
    return "\n".join([*lines, f"out[{at}] = {value};", "}"])


class PlainC:
    """Loops in the order of the output, as one would write them, by the C compiler with -O3."""

    name = "plain C"
    needs = "gcc or clang"

    def found(self) -> str | None:
        return compiler()

    def prepare(self, task: Task, x: NDArray, out: NDArray, threads: int) -> Sequence[Call]:
        library = _plain(loops(task, threads), threads)
        return [partial(library.run, address(x), address(out))]


@lru_cache(maxsize=4)
def _plain(text: str, threads: int) -> ctypes.CDLL:
    flags = ("-std=gnu11", "-ffp-contract=off", *(["-fopenmp"] if threads > 1 else []))
    return build(text, flags)


HPTT_SHIM = r"""
#include <memory>
#include <vector>
#include <hptt.h>
template <class T>
static void *plan(int rank, const int *perm, const int *size, const T *a, T *b, int threads, int how) {
  try {
    auto kind = how ? hptt::MEASURE : hptt::ESTIMATE;
    return new std::shared_ptr<hptt::Transpose<T>>(
        hptt::create_plan(perm, rank, T(1), a, size, nullptr, T(0), b, nullptr, kind, threads, nullptr, true));
  } catch (...) { return nullptr; }
}
#define WIDTH(name, T)                                                                                  \
  extern "C" void *plan_##name(int n, const int *perm, const int *size, const T *a, T *b, int k, int how) { \
    return plan<T>(n, perm, size, a, b, k, how);                                                          \
  }                                                                                                       \
  extern "C" void run_##name(void *p) { (*static_cast<std::shared_ptr<hptt::Transpose<T>> *>(p))->execute(); }
WIDTH(float32, float)
WIDTH(float64, double)
"""


class Hptt:
    """Plans of HPTT, made once by its model (ESTIMATE) or by its own measurements (MEASURE)."""

    def __init__(self, measure: bool = False) -> None:
        self.measure = measure
        self.name = "hptt measured" if measure else "hptt"
        self.needs = "EQSAT_HPTT=path to libhptt.so, built by `make avx` in its source tree, headers in ../include"

    def _path(self) -> Path | None:
        named = os.environ.get("EQSAT_HPTT")
        return Path(named) if named and Path(named).is_file() else None

    def found(self) -> str | None:
        path = self._path()
        if path is None or not (path.parent.parent / "include" / "hptt.h").is_file() or compiler("cpp") is None:
            return None
        return str(path)

    def prepare(self, task: Task, x: NDArray, out: NDArray, threads: int) -> Sequence[Call]:
        path = self._path()
        if isinstance(task, Fused) or task.crop or task.pad or task.dtype not in ("float32", "float64") or path is None:
            return []
        kept = [axis for axis, n in enumerate(task.reshape) if n != 1]
        perm = [kept.index(axis) for axis in task.transpose if axis in kept]
        size = [task.reshape[axis] for axis in kept]
        library = _hptt(path)
        plan, run = getattr(library, f"plan_{task.dtype}"), getattr(library, f"run_{task.dtype}")
        plan.restype = ctypes.c_void_p
        numbers = ctypes.c_int * len(kept)
        how = int(self.measure)
        made = plan(len(kept), numbers(*perm), numbers(*size), address(x), address(out), threads, how)
        return [partial(run, ctypes.c_void_p(made))] if made else []


@lru_cache(maxsize=1)
def _hptt(path: Path) -> ctypes.CDLL:
    folder = path.parent
    flags = (f"-I{folder.parent / 'include'}", str(path), f"-Wl,-rpath,{folder}", "-std=c++11", "-fopenmp")
    return build(HPTT_SHIM, flags, "cpp")
