"""What this machine really is, measured: when results are better written past the caches, and in which strips.

The kernel of a guest tells the last cache of its host, and how much of it is ours depends on the others: no number that
is reported says when non-temporal stores begin to pay, which decides more than all else that schedules choose. So it is
measured, once for each processor: a transpose-like walk writes lines of many rows in turn, by ordinary and by
non-temporal stores, and what it wrote is read again; then one that writes lines as they follow each other: there are
processors where that gains much earlier. The answers are rounded, so that noise does not change them, and kept in the
cache. So is the width of vectors in which blocks are transposed, for there are processors that do those of 32 bytes in
halves; and the number of rows of a transposed result that are best written side by side where they begin anywhere in a
line: the wrong one takes up to twice the time, another one on each make of processor. Until the answers are there, and
where nothing can be measured, `eqsat.backends.machine` is asked.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial

import numpy as np

from eqsat.backends import cache
from eqsat.backends.c.cc import load_library
from eqsat.backends.c.runner import address
from eqsat.backends.interface import ALIGNMENT
from eqsat.backends.machine import (
    BLOCK,
    LINE,
    RUNS,
    STRIPS,
    Machine,
    chosen_machine,
    machine_of,
    processor,
    reported_machine,
)
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import BackendError, EqsatError
from eqsat.ir.locks import fork_safe

KIND = "machines"
ROWS = 128
"""Rows of the result of which the walk like a transpose writes a line each in turn."""
SIZES = tuple(1 << k for k in range(20, 26))
"""Bytes of results that are measured: 1 to 32 MiB."""
WORK = 64 << 20
"""Bytes that are written of each size in all, at least in ROUNDS rounds."""
ROUNDS = 3
TRIES = 3
"""So often the caches are measured; the middle answer counts, for others may use the last one meanwhile."""
MARGIN = 1.2
"""Powers of two by which the last cache is larger than where the walk begins to gain, before it is rounded. Measured:
most moves gain later than a walk over many rows; transposes with long rows, which begin at half of it, as it does."""
PAST_MARGIN, EARLIER = -0.1, 0.8
"""Powers of two by which the size from which on all is written past the caches is above that from which on lines that
follow each other gain, before it is rounded; and the part of the size at which many rows gain that this is at most.
Measured on a Zen 1, where such lines gain from 4.0 to 4.7 MiB on, rows from 7 to 8: 4 MiB is the best of 3, 4 and 6, in
one thread and in two. One thread gains from 3 on while other guests use the last cache, else it loses a fourth."""
PLANES, PLANE_ROWS, PLANE_COLUMNS = 8, 197, 768
"""The transpose by which strips are measured: a source that no second cache holds, rows that begin anywhere."""
TURNED_ROWS, TURNED_COLUMNS, TURNED_ROUNDS = 64, 784, 200
"""The transpose by which vectors of 16 and of 32 bytes are compared: the second cache holds it."""
NARROW_GAIN = 1.05
"""How many times faster vectors of 16 bytes must be to be chosen. Measured on a Zen 1: 1.1 to 1.2."""
STRIP_ROUNDS = 25
STRIP_GAIN = 1.15
"""How many times faster strips of many rows must be to be chosen."""
VISITED, VISITED_PART, VISITED_ROUNDS, VISITED_GAIN = 4096, 2048, 4, 1.06
"""Rows of bytes by which lines of a result are measured, of which so many bytes at a time; how many times faster one
line at a time must be to be chosen. Measured on an Ice Lake: 1.15, where transposes gain 1.1 to 1.5."""
PANEL_ROWS, PANELS, PANEL_ROUNDS, PANEL_GAIN = 1000, 64, 12, 1.06
"""Panels by which runs are measured: the second cache does not hold them; how many times faster short runs must be to
be chosen. Measured on the same processor: 1.12."""
PATIENCE = 5.0
"""Seconds that a process waits for another one that measures."""
SOURCE = r"""
#include <stddef.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif
#define LINE 64
#define AHEAD 3
typedef long long lane __attribute__((vector_size(16)));

static void put(char *d, const char *s, int past) {
  lane *to = (lane *)d;
  const lane *from = (const lane *)s;
#if defined(__SSE2__)
  if (past) {
    for (int k = 0; k < LINE / 16; k++) _mm_stream_si128((__m128i *)(to + k), (__m128i)from[k]);
    return;
  }
#elif defined(__clang__)
  if (past) {
    for (int k = 0; k < LINE / 16; k++) __builtin_nontemporal_store(from[k], to + k);
    return;
  }
#endif
  for (int k = 0; k < LINE / 16; k++) to[k] = from[k];
}

static long long read_all(const char *d, size_t n) {
  lane sum = {0, 0};
  for (size_t k = 0; k < n; k += 16) sum += *(const lane *)(d + k);
  return sum[0] + sum[1];
}

/* Write rows of so many lines, a line of each in turn, and read them again; the sum of what was read. */
long long walk(char *d, const char *s, size_t rows, size_t lines, int past) {
  for (size_t c = 0; c < lines; c++)
    for (size_t r = 0; r < rows; r++, s += LINE) put(d + (r * lines + c) * LINE, s, past);
#if defined(__SSE2__)
  if (past) _mm_sfence();
#endif
  return read_all(d, rows * lines * LINE);
}

typedef int four __attribute__((vector_size(16)));
typedef int any_four __attribute__((vector_size(16), aligned(1), may_alias));
#if defined(__has_builtin) && defined(__GNUC__)
#if __has_builtin(__builtin_shufflevector)
#define PICK __builtin_shufflevector
#endif
#endif

#ifdef PICK
/* Four rows of four words, transposed. */
static void block(char *d, size_t to, const char *s, size_t from) {
  const four a = *(const any_four *)s, b = *(const any_four *)(s + from);
  const four c = *(const any_four *)(s + 2 * from), e = *(const any_four *)(s + 3 * from);
  const four p = PICK(a, b, 0, 4, 1, 5), q = PICK(a, b, 2, 6, 3, 7);
  const four r = PICK(c, e, 0, 4, 1, 5), t = PICK(c, e, 2, 6, 3, 7);
  *(any_four *)d = PICK(p, r, 0, 1, 4, 5), *(any_four *)(d + to) = PICK(p, r, 2, 3, 6, 7);
  *(any_four *)(d + 2 * to) = PICK(q, t, 0, 1, 4, 5), *(any_four *)(d + 3 * to) = PICK(q, t, 2, 3, 6, 7);
}

typedef int eight __attribute__((vector_size(32)));
typedef int any_eight __attribute__((vector_size(32), aligned(1), may_alias));

/* Eight rows of four words, transposed. */
static void wide_block(char *d, size_t to, const char *s, size_t from) {
#define FOUR(k) (*(const any_four *)(s + (k) * from))
#define ROW(k) PICK(FOUR(k), FOUR((k) + 4), 0, 1, 2, 3, 4, 5, 6, 7)
  const eight a = ROW(0), b = ROW(1), c = ROW(2), e = ROW(3);
  const eight p = PICK(a, b, 0, 8, 1, 9, 4, 12, 5, 13), q = PICK(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
  const eight r = PICK(c, e, 0, 8, 1, 9, 4, 12, 5, 13), t = PICK(c, e, 2, 10, 3, 11, 6, 14, 7, 15);
  *(any_eight *)d = PICK(p, r, 0, 1, 8, 9, 4, 5, 12, 13);
  *(any_eight *)(d + to) = PICK(p, r, 2, 3, 10, 11, 6, 7, 14, 15);
  *(any_eight *)(d + 2 * to) = PICK(q, t, 0, 1, 8, 9, 4, 5, 12, 13);
  *(any_eight *)(d + 3 * to) = PICK(q, t, 2, 3, 10, 11, 6, 7, 14, 15);
}

/* Transpose rows of words, four or eight of them at a time. */
void turn(char *d, const char *s, size_t rows, size_t columns, int wide) {
  const size_t from = 4 * columns, to = 4 * rows;
  for (size_t c = 0; c < columns; c += 4)
    for (size_t r = 0; r < rows; r += 8) {
      char *t = d + c * to + 4 * r;
      const char *f = s + r * from + 4 * c;
      if (wide) wide_block(t, to, f, from);
      else block(t, to, f, from), block(t + 16, to, f + 4 * from, from);
    }
}

/* Transpose planes of words, strips of rows of the result in turn, pieces of so many words of each; read the result. */
long long strips(char *d, const char *s, size_t planes, size_t rows, size_t columns, size_t strip, size_t piece) {
  const size_t from = 4 * columns, to = 4 * rows, plane = rows * from;
  for (size_t p = 0; p < planes; p++)
    for (size_t j = 0; j < columns; j += strip)
      for (size_t i = 0; i < rows; i += piece)
        for (size_t c = j; c < j + strip; c += 4)
          for (size_t r = i; r < i + piece; r += 4) {
            const size_t at = r + 4 > rows ? rows - 4 : r;
            block(d + p * plane + c * to + 4 * at, to, s + p * plane + at * from + 4 * c, from);
          }
  return read_all(d, planes * plane / LINE * LINE);
}
#endif

/* Rows of bytes to rows of bytes, as many and as long: a line of each of 64 * n rows of the source becomes n lines of
   each of 64 rows of the result, which is read then; each source row is read a part at a time. */
long long visit(char *d, const char *s, size_t rows, size_t part, size_t n) {
  char held[2 * LINE][LINE] __attribute__((aligned(LINE)));
  for (size_t from = 0; from < rows; from += part)
    for (size_t r = 0; r < rows; r += LINE * n)
      for (size_t c = from; c < from + part; c += LINE) {
        const size_t next = c + AHEAD * LINE < from + part ? c + AHEAD * LINE : c;
        for (size_t g = 0; g < LINE * n; g++) {
          __builtin_prefetch(s + (r + g) * rows + next, 0, 2);
          memcpy(held[g], s + (r + g) * rows + c, LINE);
        }
        for (size_t q = 0; q < LINE; q++)
          for (size_t k = 0; k < n; k++) put(d + (c + q) * rows + r + LINE * k, held[LINE * k + q], 1);
      }
#if defined(__SSE2__)
  _mm_sfence();
#endif
  return read_all(d, rows * rows);
}

/* Lines of rows that are half a line longer become panels of lines, so many of a row at a time; read the panels. */
long long panels(char *d, const char *s, size_t rows, size_t count, size_t together) {
  const size_t row = LINE * count + LINE / 2;
  for (size_t from = 0; from < count; from += together)
    for (size_t r = 0; r < rows; r++)
      for (size_t p = from; p < from + together; p++) memcpy(d + (p * rows + r) * LINE, s + r * row + p * LINE, LINE);
  return read_all(d, rows * count * LINE);
}

int has_strips(void) {
#ifdef PICK
  return 1;
#else
  return 0;
#endif
}

int streams(void) {
#if defined(__SSE2__) || defined(__clang__)
  return 1;
#else
  return 0;
#endif
}
"""

_lock = fork_safe(threading.Lock())
_known: dict[str, Machine] = {}


def this_machine() -> Machine:
    """The machine that `eq.compile` makes kernels for: the chosen one, else the measured one, else the reported one.

    The first call on a processor measures, for less than a second, and keeps the answer in the cache. Where there is no
    cache, no compiler or no memory, nothing is measured.
    """
    chosen = chosen_machine()
    if chosen is not None:
        return chosen
    key = _key()
    with _lock:
        if key not in _known:
            _known[key] = _kept(key) or _measured_once(key) or reported_machine()
        return _known[key]


def calibrate() -> Machine:
    """Measure this machine now, and keep the answer for all that is compiled later.

    Errors: BackendError where there is no compiler, or no memory for what is measured.
    """
    key = _key()
    with _lock:
        _known[key] = measured(reported_machine())
        _keep(key, _known[key])
        return _known[key]


def _key() -> str:
    """A digest of all that tells this machine, and how it is measured, from others."""
    how = (SOURCE, ROWS, SIZES, WORK, ROUNDS, TRIES, MARGIN, PAST_MARGIN, EARLIER, STRIP_GAIN, NARROW_GAIN)
    how += (VISITED_GAIN, PANEL_GAIN)
    text = repr((processor(), os.cpu_count(), cache.cache_directory(), how))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _kept(key: str) -> Machine | None:
    """What was measured before; a file that says something else is as none."""
    data = cache.held(KIND, f"{key}.json")
    try:
        return None if data is None else machine_of(json.loads(data), "measured machine")
    except (ValueError, EqsatError):
        return None


def _keep(key: str, machine: Machine) -> None:
    cache.keep(KIND, f"{key}.json", json.dumps(asdict(machine)))


def _measured_once(key: str) -> Machine | None:
    """What is measured now and kept; None where nothing can be. Processes measure one after the other: all but the
    first find what that one kept."""
    with cache.alone(KIND, PATIENCE) as held:
        if not held:
            return None
        found = _kept(key)
        if found is None:
            try:
                found = measured(reported_machine())
            except BackendError:
                return None
            _keep(key, found)
        return found


def measured(reported: Machine) -> Machine:
    """The reported machine with the last cache, the results to write past it and the strips that measurements tell.

    Errors: BackendError where there is no compiler, or no memory.
    """
    library = load_library(SOURCE)
    try:
        source, result = (_memory(max(SIZES)) for _ in range(2))
    except MemoryError as error:
        raise BackendError(
            "calibration", "there is no memory for it", f"{2 * max(SIZES) >> 20} MiB are needed"
        ) from error
    found = reported
    if library.streams():
        tries = (
            sorted(streaming_begins(SIZES, _streaming_gains(library, source, result, rows)) for _ in range(TRIES))
            for rows in (ROWS, 1)
        )
        many, lines = (answers[TRIES // 2] for answers in tries)
        found = replace(found, last=last_cache(many, reported), past=written_past(lines, many, reported))
        if reported.vector >= LINE and _gain_of_one_line(library, source, result) >= VISITED_GAIN:
            found = replace(found, lines=1)
    if library.has_strips():
        many = _gain_of_many_rows(library, source, result) >= STRIP_GAIN
        found = replace(found, strip=STRIPS[many])
        if reported.vector >= LINE and _gain_of_short_runs(library, source, result) >= PANEL_GAIN:
            found = replace(found, run=min(RUNS))
        if reported.vector == 2 * BLOCK and _gain_of_halves(library, source, result) >= NARROW_GAIN:
            found = replace(found, shuffled=BLOCK)
    return found


def _streaming_gains(library: ctypes.CDLL, source: NDArray, result: NDArray, rows: int) -> list[float]:
    """How many times faster a walk over so many rows is with non-temporal stores: for the largest of SIZES, down to the
    first where it is not."""
    walk = library.walk
    walk.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_size_t] * 2 + [ctypes.c_int]
    walk.restype = ctypes.c_longlong
    gains: list[float] = []
    for size in reversed(SIZES):
        lines = size // 64 // rows
        lines -= 1 - lines % 2  # odd, so that rows do not meet in the sets of a cache
        call = partial(walk, address(result), address(source), rows, lines)
        gains.insert(0, _ratio(call, (0,), (1,), max(ROUNDS, WORK // size)))
        if gains[0] < 1:
            break
    return gains


def _gain_of_many_rows(library: ctypes.CDLL, source: NDArray, result: NDArray) -> float:
    """How many times faster strips of many rows are, in pieces of two blocks, than those of few, a block of each."""
    strips = library.strips
    strips.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_size_t] * 5
    strips.restype = ctypes.c_longlong
    few, many = STRIPS
    call = partial(strips, address(result), address(source), PLANES, PLANE_ROWS, PLANE_COLUMNS)
    return _ratio(call, (few, 4), (many, 8), STRIP_ROUNDS)


def _gain_of_one_line(library: ctypes.CDLL, source: NDArray, result: NDArray) -> float:
    """How many times faster a transpose of bytes past the caches is that writes a line of a row at a time, not two."""
    visit = library.visit
    visit.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_size_t] * 3
    visit.restype = ctypes.c_longlong
    call = partial(visit, address(result), address(source), VISITED, VISITED_PART)
    return _ratio(call, (2,), (1,), VISITED_ROUNDS)


def _gain_of_short_runs(library: ctypes.CDLL, source: NDArray, result: NDArray) -> float:
    """How many times faster panels are made from the shorter of RUNS than from the longer ones."""
    panels = library.panels
    panels.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_size_t] * 3
    panels.restype = ctypes.c_longlong
    call = partial(panels, address(result), address(source), PANEL_ROWS, PANELS)
    return _ratio(call, (max(RUNS) // LINE,), (min(RUNS) // LINE,), PANEL_ROUNDS)


def _gain_of_halves(library: ctypes.CDLL, source: NDArray, result: NDArray) -> float:
    """How many times faster a transpose in vectors of 16 bytes is than one in vectors of 32."""
    turn = library.turn
    turn.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_size_t] * 2 + [ctypes.c_int]
    call = partial(turn, address(result), address(source), TURNED_ROWS, TURNED_COLUMNS)
    return _ratio(call, (1,), (0,), TURNED_ROUNDS)


def _ratio(call: Callable[..., object], one: tuple[int, ...], other: tuple[int, ...], rounds: int) -> float:
    """The least time of a call with some arguments, in those of the call with others: both in turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for arguments, taken in zip((one, other), times, strict=True):
            begun = time.thread_time()
            call(*arguments)
            taken.append(time.thread_time() - begun)
    return min(times[0]) / min(times[1])


def streaming_begins(sizes: Sequence[int], gains: Sequence[float]) -> float:
    """Bytes of results from which on non-temporal stores always pay, by how many times faster they are for the largest
    of these sizes; between two sizes on a logarithmic scale. 0 where they pay for all, infinite where for none.

    >>> streaming_begins([2, 4, 8], [0.5, 0.8, 1.25]), streaming_begins([2, 8], [1.1, 0.5]), streaming_begins([8], [2])
    (5.65685424949238, inf, 0)
    """
    measured = sizes[-len(gains) :]
    losing = [k for k, gain in enumerate(gains) if gain < 1]
    if not losing:
        return 0
    k = losing[-1]
    if k + 1 == len(measured):
        return math.inf
    low, high = math.log(gains[k]), math.log(gains[k + 1])
    place = low / (low - high) if high > low else 1.0
    return measured[k] * (measured[k + 1] / measured[k]) ** place


def last_cache(begins: float, reported: Machine) -> int:
    """The last cache for schedules, from the size from which on non-temporal stores pay in a walk over many rows.

    A power of two about MARGIN above it: larger results are written past it, and those of transposes with long rows
    from half of it on. Where they never pay, the last cache counts as twice the largest size measured, or more.

    >>> [last_cache(mb * (1 << 20), Machine()) >> 20 for mb in (7.1, 3.1, math.inf)]
    [16, 8, 64]
    """
    if begins == math.inf:
        return max(2 * SIZES[-1], reported.last)
    return max(reported.second, power_near(max(begins, SIZES[0])))


def written_past(lines: float, rows: float, reported: Machine) -> int:
    """From how many bytes on each result is written past the caches, from the sizes from which on non-temporal stores
    pay in a walk over lines that follow each other, and in one over many rows.

    A power of two or one and a half times one, about the first size. As many as can be where that is not much less than
    the second: there the last cache decides.

    >>> [written_past(lines * (1 << 20), 7.2 * (1 << 20), Machine()) >> 20 for lines in (4.3, 9)]
    [4, 2048]
    """
    if lines == math.inf or lines > EARLIER * rows:
        return reported.past
    halves = round(2 * (math.log2(max(lines, SIZES[0])) + PAST_MARGIN))
    return max(reported.second, (2 + halves % 2) << (halves // 2 - 1))


def power_near(size: float) -> int:
    """The power of two that is nearest, on a logarithmic scale, to what is MARGIN above a size.

    >>> [power_near(mb * (1 << 20)) >> 20 for mb in (2.6, 3.5, 4.8, 5.1, 10, 19)]
    [8, 8, 8, 16, 32, 32]
    """
    return 1 << round(math.log2(size) + MARGIN)


def _memory(size: int) -> NDArray:
    """Bytes from a cache line on, whose pages are really there."""
    memory = np.ones(size + ALIGNMENT, np.uint8)
    start = -address(memory) % ALIGNMENT
    return memory[start : start + size]
