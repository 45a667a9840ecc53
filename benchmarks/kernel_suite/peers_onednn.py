"""oneDNN as a peer: reorders between strides and format tags, through a few lines of C built here."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod

from eqsat.ir.dtypes import NDArray
from kernel_suite.case import Case
from kernel_suite.fused import Fused
from kernel_suite.native import Call, address, build
from kernel_suite.peers import Task

ONEDNN_SHIM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
typedef struct { dnnl_primitive_t p; dnnl_stream_t s; dnnl_exec_arg_t args[2]; } plan;
static dnnl_engine_t engine;
static dnnl_stream_t stream;

typedef dnnl_memory_desc_t desc;

#if DNNL_VERSION_MAJOR >= 3
#define DESC(d) (d)
#define BY_STRIDES(d, n, dims, t, s) dnnl_memory_desc_create_with_strides(d, n, dims, t, s)
#define BY_TAG(d, n, dims, t, tag) dnnl_memory_desc_create_with_tag(d, n, dims, t, tag)
#define SIZE(d) dnnl_memory_desc_get_size(d)
#else
#define DESC(d) (&(d))
#define BY_STRIDES(d, n, dims, t, s) dnnl_memory_desc_init_by_strides(d, n, dims, t, s)
#define BY_TAG(d, n, dims, t, tag) dnnl_memory_desc_init_by_tag(d, n, dims, t, tag)
#define SIZE(d) dnnl_memory_desc_get_size(&(d))
#endif

static int find_tag(const char *name) {
  for (int t = 1; t < (int)dnnl_format_tag_last; t++)
    if (!strcmp(dnnl_fmt_tag2str((dnnl_format_tag_t)t), name)) return t;
  return 0;
}

const char *version(void) {
  static char text[32];
  const dnnl_version_t *v = dnnl_version();
  snprintf(text, sizeof text, "%d.%d.%d", v->major, v->minor, v->patch);
  return text;
}

static dnnl_data_type_t type_of(int size) {
#if DNNL_VERSION_MAJOR >= 3
  if (size == 8) return dnnl_f64;
#endif
  return size == 1 ? dnnl_s8 : size == 2 ? dnnl_f16 : size == 4 ? dnnl_f32 : dnnl_data_type_undef;
}

static int describe(desc *d, int n, const dnnl_dim_t *dims, const dnnl_dim_t *strides, const char *tag, int size) {
  if (type_of(size) == dnnl_data_type_undef) return 1;
  if (!tag[0]) return BY_STRIDES(d, n, dims, type_of(size), strides);
  int t = find_tag(tag);
  return t ? BY_TAG(d, n, dims, type_of(size), (dnnl_format_tag_t)t) : 1;
}

/* A reorder between two spellings of a tensor, by strides or by tag; 0 where oneDNN has none. */
void *make(int n, const dnnl_dim_t *dims, int size, const dnnl_dim_t *from, const char *from_tag, const dnnl_dim_t *to,
           const char *to_tag, void *x, void *out, size_t out_bytes) {
  if (!engine && (dnnl_engine_create(&engine, dnnl_cpu, 0) || dnnl_stream_create(&stream, engine, 0))) return 0;
  desc a, b;
  if (describe(&a, n, dims, from, from_tag, size) || describe(&b, n, dims, to, to_tag, size)) return 0;
  if (SIZE(b) != out_bytes) return 0;
  plan *made = calloc(1, sizeof(plan));
  dnnl_memory_t ma, mb;
  dnnl_primitive_desc_t pd;
  if (dnnl_reorder_primitive_desc_create(&pd, DESC(a), engine, DESC(b), engine, 0)) return 0;
  if (dnnl_primitive_create(&made->p, pd)) return 0;
  if (dnnl_memory_create(&ma, DESC(a), engine, x) || dnnl_memory_create(&mb, DESC(b), engine, out)) return 0;
  made->args[0].arg = DNNL_ARG_FROM, made->args[0].memory = ma;
  made->args[1].arg = DNNL_ARG_TO, made->args[1].memory = mb;
  made->s = stream;
  return made;
}

void run(plan *p) {
  dnnl_primitive_execute(p->p, p->s, 2, p->args);
  dnnl_stream_wait(p->s);
}
"""


@dataclass(frozen=True)
class Spelling:
    """A reorder as oneDNN takes it: dimensions, and on each side strides or a format tag."""

    dims: list[int]
    source: list[int] | str
    target: list[int] | str
    offset: int = 0


def dense(dims: Sequence[int]) -> list[int]:
    """The strides of a dense array."""
    return [prod(dims[k + 1 :]) for k in range(len(dims))]


def _tag(groups: Sequence[Sequence[int]], extents: Sequence[int], order: Sequence[int]) -> str:
    """The format tag, as "aBcd16b", of dimensions whose parts lie in a given order; "" if there is no such tag."""
    owner = {axis: k for k, group in enumerate(groups) for axis in group}
    tail = len(order)
    while tail and order[tail - 1] != groups[owner[order[tail - 1]]][0]:
        tail -= 1
    blocks = "".join(f"{extents[axis]}{chr(ord('a') + owner[axis])}" for axis in order[tail:])
    blocked = {owner[axis] for axis in order[tail:]}
    if any(len(group) > 2 or (len(group) == 2 and k not in blocked) for k, group in enumerate(groups)):
        return ""
    outer = [owner[axis] for axis in order[:tail]]
    return "".join(chr(ord("A" if k in blocked else "a") + k) for k in outer) + blocks


def spellings(task: Case) -> list[Spelling]:
    """The case as reorders: between strides, and between format tags where both sides may have one."""
    found: list[Spelling] = []
    if not task.pad:
        split: list[int] = []
        for stride, group in zip(dense(task.shape), task.groups, strict=True):
            split += [stride * prod(task.reshape[a] for a in group[k + 1 :]) for k, _ in enumerate(group)]
        places = dense(task.out_shape)
        target = [places[task.transpose.index(axis)] for axis in range(len(task.reshape))]
        offset = sum(start * stride for (start, _), stride in zip(task.ranges, dense(task.shape), strict=True))
        found.append(Spelling(list(task.reshape), split, target, offset))
    if task.crop or any(before for before, _ in task.pads):
        return found
    if len(task.reshape) > len(task.shape):
        tag = _tag(task.groups, task.reshape, task.transpose)
        if tag:
            found.append(Spelling(list(task.shape), dense(task.shape), tag))
    last = len(task.reshape) - 1
    at = task.transpose.index(last)
    if not task.pad and len(task.reshape) == len(task.shape) and 0 < at < last:
        # The innermost axis of the input is a block of the axis before it in the output.
        groups = [[axis] for axis in task.transpose if axis != last]
        groups[at - 1].append(last)
        dims = [prod(task.reshape[a] for a in group) for group in groups]
        tag = _tag(groups, task.reshape, range(last + 1))
        if tag:
            found.append(Spelling(dims, tag, dense(dims)))
    return found


class OneDnn:
    """Reorders of oneDNN."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.name = f"onednn {self._version()}" if self._library() is not None else "onednn"
        self.needs = (
            "libdnnl and its headers: `apt install libdnnl-dev`, or EQSAT_ONEDNN=prefix[:prefix] of folders with lib "
            "and include, as `pip install onednn-devel-cpu-gomp` makes in an environment"
        )

    def _library(self) -> ctypes.CDLL | None:
        library = _onednn(self.prefix)
        return None if isinstance(library, str) else library

    def _version(self) -> str:
        library = self._library()
        assert library is not None
        library.version.restype = ctypes.c_char_p
        return library.version().decode()

    def found(self) -> str | None:
        return None if self._library() is None else self._version()

    def problem(self) -> str:
        """Why it is not found; "" where it is."""
        library = _onednn(self.prefix)
        return library if isinstance(library, str) else ""

    def prepare(self, task: Task, x: NDArray, out: NDArray, threads: int) -> Sequence[Call]:
        library = self._library()
        if isinstance(task, Fused) or library is None:
            return []
        library.make.restype = ctypes.c_void_p
        calls: list[Call] = []
        for spelling in spellings(task):
            numbers = ctypes.c_int64 * len(spelling.dims)
            sides: list[object] = []
            for side in (spelling.source, spelling.target):
                sides += [None, side.encode()] if isinstance(side, str) else [numbers(*side), b""]
            begin = ctypes.c_void_p(x.ctypes.data + spelling.offset * x.itemsize)
            made = library.make(
                len(spelling.dims), numbers(*spelling.dims), x.itemsize, *sides, begin, address(out),
                ctypes.c_size_t(out.nbytes),
            )  # fmt: skip
            if made:
                calls.append(partial(library.run, ctypes.c_void_p(made)))
        return calls


@lru_cache(maxsize=4)
def _onednn(prefix: str) -> ctypes.CDLL | str:
    """The library for a prefix, or why it cannot be used: its header, it, or what it needs itself is missing."""
    where = () if not prefix else (f"-I{prefix}/include", f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib")
    try:
        return build(ONEDNN_SHIM, (*where, "-ldnnl"))
    except RuntimeError as error:
        lines = str(error).splitlines() or ["it fails to build"]
        return next((line.strip() for line in lines if "error" in line or "cannot" in line), lines[0])


def onednn_prefixes() -> list[str]:
    """Where to look for oneDNN: $EQSAT_ONEDNN, else the system's own."""
    return [p for p in os.environ.get("EQSAT_ONEDNN", "").split(":") if p] or [""]
