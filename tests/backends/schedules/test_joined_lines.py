"""Large transposes whose rows of the result begin anywhere in a line: whole lines, put together of two parts."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_moves import check_bits, leaves_of, parts
from seeds import each_value

from eqsat.backends.lowering.lower import lower
from eqsat.backends.machine import Machine
from eqsat.backends.schedules.schedule import JoinedLines, LineTranspose, Schedule, StreamingTranspose, TransposeTiles
from eqsat.ir.tensors.tensor import Program, Tensor, input

ANY = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
CHOICES = "eqsat.backends.schedules.choose_lines"
SMALL = Machine(64, second=1 << 7, last=1 << 8)


def schedules(y: Tensor, machine: Machine, threads: int = 1) -> list[Schedule]:
    return [s for _, s in parts(lower(Program(leaves_of(y), {"y": y})), machine, threads)]


@st.composite
def transposes(draw: st.DrawFn) -> Tensor:
    """Rows of four lines or more and any rest, of one axis or two, that become columns; some of them backwards."""
    dtype = draw(st.sampled_from(("uint8", "float16", "float32", "float64", "bool")))
    line = 64 // np.dtype(dtype).itemsize
    high = draw(st.sampled_from([1, 1, 2, 3]))
    low = -(-draw(st.integers(4, 9)) * line // high) + draw(st.integers(0, line))
    wide = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (1, 3), (3, 2)]))
    extents = {"o": draw(st.integers(1, 3)), "i1": high, "i2": low, "j1": wide[0], "j2": wide[1] * line}
    extents["j2"] += draw(st.integers(0, line))
    before = draw(st.sampled_from([["o", "i1", "i2"], ["i1", "o", "i2"]]))
    source = [*before, "j1", "j2"]
    x = input("x", tuple(extents[n] for n in source), dtype)
    for n in draw(st.sets(st.sampled_from(["o", "i1", "i2"]), max_size=2)):
        x = x.flip(source.index(n))
    result = [*draw(st.sampled_from([["o", "j1", "j2"], ["o", "j2", "j1"], ["j2", "o", "j1"]])), "i1", "i2"]
    return x.permute_dims(tuple(source.index(n) for n in result))


def check_joined(y: Tensor, threads: int, shift: int, lines: int, columns: int) -> None:
    """Some lines at a time, in parts of so many columns, wherever rows begin."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"LONG_LINES": 4, "LARGE_PLANE": 0, "LEAST_LINES": 99, "FEWEST_LINES": 99}.items():
            patch.setattr(f"{CHOICES}.{name}", value)
        patch.setattr(f"{CHOICES}.JOINED_LINES", lines)
        patch.setattr(f"{CHOICES}.JOINED_PART", columns)
        (chosen,) = schedules(y, SMALL, threads)
        assert isinstance(chosen, JoinedLines)
        check_bits({"y": y}, threads, SMALL, shift)


THREADS, COLUMNS = st.sampled_from([1, 1, 2, 3]), st.sampled_from([64, 1024])
CASES = (transposes(), THREADS, st.integers(0, 63), st.integers(1, 4), COLUMNS)


# feature: K1
@settings(max_examples=6, suppress_health_check=ANY)
@given(*CASES)
def test_rows_that_begin_anywhere_bit_by_bit(y: Tensor, threads: int, shift: int, lines: int, columns: int) -> None:
    check_joined(y, threads, shift, lines, columns)


@pytest.mark.slow
@settings(max_examples=600, suppress_health_check=ANY)
@given(*CASES)
def test_many_rows_that_begin_anywhere(y: Tensor, threads: int, shift: int, lines: int, columns: int) -> None:
    check_joined(y, threads, shift, lines, columns)


@pytest.mark.parametrize("rests", [(1,), pytest.param((2, -1), marks=pytest.mark.slow)])
@each_value(dtype=["uint8", "float16", "float32", "float64"], flags=["-march=x86-64", ""])
def test_processors_that_lack_the_shuffle(
    dtype: str, flags: str, rests: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What joins two lines goes through memory there; everything else is the same."""
    monkeypatch.setenv("EQSAT_CFLAGS", flags)
    monkeypatch.setattr(f"{CHOICES}.LARGE_PLANE", 0)
    n = 64 // np.dtype(dtype).itemsize
    rows = [(4 if rest > 0 else 5) * n + rest for rest in rests]
    outputs = {f"y{k}": input(f"x{k}", (3, high, n + 3), dtype).permute_dims((0, 2, 1)) for k, high in enumerate(rows)}
    assert all(isinstance(s, JoinedLines) for y in outputs.values() for s in schedules(y, SMALL))
    for shift in (0, 1, 7, n - 1):
        check_bits(outputs, 1, SMALL, shift)


def test_what_is_joined() -> None:
    """Long rows, and rows that follow each other, unless planes of them are small; few whole lines if they may be."""
    machine = Machine(64, last=16 << 20)

    def chosen(shape: tuple[int, ...], order: tuple[int, ...], dtype: str = "float32") -> Schedule:
        assert prod(shape) * np.dtype(dtype).itemsize > machine.last
        (schedule,) = schedules(input("x", shape, dtype).permute_dims(order), machine)
        return schedule

    # Of 197 patches: 12 lines and a part of one, as they follow each other. Planes of 50 are small.
    heads = chosen((64, 197, 768), (0, 2, 1))
    assert isinstance(heads, JoinedLines)
    assert (heads.lines, heads.part, heads.order) == (2, 0, (0,))
    assert isinstance(chosen((680, 50, 384), (0, 2, 1)), TransposeTiles)
    assert isinstance(chosen((200, 77, 768), (0, 2, 1)), JoinedLines)
    # What follows a row elsewhere leaves two lines of it in part: such rows must be long.
    assert isinstance(chosen((580, 59, 384), (2, 1, 0)), StreamingTranspose)
    assert isinstance(chosen((5000, 7, 384), (2, 1, 0)), JoinedLines)
    # Bytes that do not meet in few sets leave by single lines.
    for n, lines in ((5001, 1), (4097, 2)):
        bytewise = chosen((n, 7700), (1, 0), "uint8")
        assert isinstance(bytewise, JoinedLines)
        assert bytewise.lines == lines
    # Rows of whole lines are not joined; few of them are written so only where the result begins at a line.
    assert type(chosen((64, 192, 768), (0, 2, 1))) is LineTranspose
    few = chosen((75, 48, 75, 48), (2, 0, 3, 1))
    assert type(few) is LineTranspose
    assert isinstance(few.unaligned, TransposeTiles)
    assert few.unaligned.contiguous
    # Threads share parts of rows, where there are no planes.
    (shared,) = schedules(input("x", (10852, 1216), "float32").permute_dims((1, 0)), machine, 2)
    assert isinstance(shared, JoinedLines)
    assert -(-1216 // shared.part) == 8


def test_few_whole_lines_wherever_the_result_begins() -> None:
    """Both ways to write them, by where the result begins; with threads, too."""
    y = input("x", (5, 48, 6, 40), "float32").permute_dims((2, 0, 3, 1))
    (chosen,) = schedules(y, SMALL)
    assert isinstance(chosen, LineTranspose)
    assert chosen.unaligned is not None
    for threads in (1, 3):
        for shift in (0, 4, 16):
            check_bits({"y": y}, threads, SMALL, shift)
