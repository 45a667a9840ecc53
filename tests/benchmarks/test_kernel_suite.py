"""The kernel benchmark measures what it says: its cases, its adapters, its statistics and its turns."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import replace
from math import isclose, prod
from pathlib import Path

import numpy as np
import pytest
from kernel_suite import peers_onednn
from kernel_suite.case import Case
from kernel_suite.cases import extras, suite
from kernel_suite.fused import fused_cases
from kernel_suite.native import COPIES, aligned, build, compiler, copy_of, reader
from kernel_suite.peers import Einops, Eqsat, Numpy, OnnxRuntime, Peer, Torch, Tvm
from kernel_suite.peers_native import PlainC
from kernel_suite.peers_onednn import OneDnn, spellings
from kernel_suite.report import goal_of, row_of, summary
from kernel_suite.rounds import CLOCKS, SPARSE, Contender, measure
from kernel_suite.statistics import geometric_mean, median_interval, spread

from eqsat.backends.calibration import this_machine

needs_compiler = pytest.mark.skipif(compiler() is None, reason="needs a C compiler")
CASES = {case.name: case for case in [*suite(), *extras()]}


def test_the_suite_has_the_cases_of_each_family() -> None:
    count = Counter(case.family for case in suite())
    assert count == {"a": 14, "b": 16, "c": 5, "d": 6, "e": 57, "f": 4, "g": 8}
    names = [case.name for case in [*suite(), *extras(), *fused_cases()]]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", suite(), ids=lambda case: case.name)
def test_a_case_is_consistent(case: Case) -> None:
    assert sorted(case.transpose) == list(range(len(case.reshape)))
    padded = [b - a + p + q for (a, b), (p, q) in zip(case.ranges, case.pads, strict=True)]
    assert [prod(case.reshape[axis] for axis in group) for group in case.groups] == padded
    assert case.program().shape == case.out_shape
    if case.family == "e":
        assert 45e6 < case.moved / 2 < 61e6


def test_names_tell_shapes() -> None:
    for case in suite():
        if case.family in "ad":
            sizes = [int(n) for n in re.findall(r"\d+", case.name.split("_")[1])]
            assert sorted(sizes) == sorted(case.shape), case.name


SMALL = [
    Case("split", "g", "float32", (3, 8, 5), (3, 2, 4, 5), (3, 0, 2, 1)),
    Case("crop", "f", "int8", (6, 7), (4, 5), (1, 0), crop=((1, 5), (0, 5))),
    Case("border", "f", "float16", (2, 3, 4), (2, 5, 7), (2, 0, 1), pad=((0, 0), (1, 1), (2, 1))),
    Case("block", "c", "float32", (5, 6), (5, 2, 4), (1, 0, 2), pad=((0, 0), (0, 2))),
    Case("channels", "b", "float32", (2, 3, 5), (2, 1, 16, 5), (0, 1, 3, 2), pad=((0, 0), (0, 13), (0, 0))),
    Case("windows", "w", "float64", (5, 10, 2), (2, 4, 4, 3, 2), (0, 2, 1, 3, 4), pad=((0, 3), (0, 2), (0, 0))),
]


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_strided_copies_make_the_reference(case: Case) -> None:
    x = case.sample(np.random.default_rng(1))
    out = np.full(case.out_shape, 77, case.dtype)
    zeros, pairs = case.copies(x, out)
    for view in zeros:
        view[...] = 0
    for target, source in pairs:
        target[...] = source
    np.testing.assert_array_equal(out, case.reference(x))
    assert sum(target.size for target, _ in pairs) == prod(b - a for a, b in case.ranges)


def everyone() -> list[Peer]:
    return [Eqsat(), Numpy(), Torch(), Einops(), OnnxRuntime(), Tvm(), PlainC(), OneDnn("")]


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2])
def test_every_peer_that_is_here_does_the_case(threads: int) -> None:
    done: Counter[str] = Counter()
    for case, peer in itertools.product(SMALL[::threads], everyone()):
        if peer.found() is None:
            continue
        x, out = aligned(case.shape, case.dtype), aligned(case.out_shape, case.dtype)
        x[...] = case.sample(np.random.default_rng(2))
        for call in peer.prepare(case, x, out, threads):
            out.reshape(-1).view(np.uint8).fill(0xA5)
            call()
            assert out.tobytes() == case.reference(x).tobytes(), (peer.name, case.name)
            done[peer.name] += 1
    assert {"eqsat", "numpy", "plain C"} <= set(done)


@needs_compiler
def test_fused_cases_agree_with_their_spellings() -> None:
    for task in fused_cases():
        x, out = aligned(task.shape, task.dtype), aligned(task.out_shape, task.out_dtype)
        x[...] = task.sample(np.random.default_rng(3))
        task.with_numpy(x, out)()
        assert out.tobytes() == task.reference(x).tobytes(), task.name
        assert (task.program().shape, task.program().dtype) == (task.out_shape, task.out_dtype)


def test_onednn_tags() -> None:
    def tags(name: str) -> list[tuple[object, object]]:
        return [
            (s.source, s.target)
            for s in spellings(CASES[name])
            if isinstance(s.source, str) or isinstance(s.target, str)
        ]

    assert [to for _, to in tags("nchw2nchw16c_1x64x56x56")] == ["aBcd16b"]
    assert [to for _, to in tags("oihw2OIhw16i16o_256x256x3x3")] == ["ABcd16b16a"]
    assert [start for start, _ in tags("nchw8c2nchw_1x64x56x56")] == ["aBcd8b"]
    assert [s.dims for s in spellings(CASES["nchw8c2nchw_1x64x56x56"])][1] == [1, 64, 56, 56]
    assert [to for _, to in tags("nchw2nchw16c_32x3x224x224_pad")] == ["aBcd16b"]
    assert spellings(CASES["pad1_nchw_8x64x56x56"]) == []


@needs_compiler
def test_copies_copy_and_the_reader_reads() -> None:
    source = aligned((1001,), "uint8")
    source[...] = np.random.default_rng(4).integers(0, 256, 1001)
    for name, threads in itertools.product(COPIES, (1, 2)):
        target = aligned((1001,), "uint8")
        copy_of(name, target, source, threads)()
        np.testing.assert_array_equal(target, source)
    total = int(source[:1000].view(np.uint64).sum())
    assert [reader(source, threads)() for threads in (1, 2)] == [total, total]


@needs_compiler
def test_a_compiler_error_is_shown() -> None:
    with pytest.raises(RuntimeError, match="no_such_type"):
        build("no_such_type x;")


def test_an_interval_holds_the_median_and_narrows() -> None:
    rng = np.random.default_rng(5)
    hits, widths = 0, list[float]()
    for seed in range(100):
        few, many = (median_interval(list(rng.normal(1.0, 0.1, n)), seed) for n in (15, 150))
        hits += few.low <= 1.0 <= few.high
        widths.append((many.high - many.low) / (few.high - few.low))
    assert hits >= 88
    assert np.median(widths) < 0.5
    with pytest.raises(ValueError, match="median"):
        median_interval([])


def test_means_and_spread() -> None:
    assert isclose(geometric_mean([1.0, 4.0]), 2.0)
    assert np.isnan(geometric_mean([]))
    assert isclose(spread([1.0, 2.0, 3.0, 4.0, 5.0]), 2 / 3)


def timed_by(
    seconds: dict[str, float], monkeypatch: pytest.MonkeyPatch, ours: str = ""
) -> tuple[list[Contender], list[str]]:
    """Contenders whose calls take given seconds on a clock of their own and readers one, and a log of the calls."""
    now, log = [0.0], list[str]()
    monkeypatch.setitem(CLOCKS, "wall", lambda: now[0])

    def contender(name: str) -> Contender:
        def call() -> None:
            now[0] += seconds[name]
            log.append(name)

        def read() -> None:
            now[0] += 1.0

        return Contender(name, [call], [read], None, name != ours)

    return [contender(name) for name in seconds], log


def test_slow_peers_sit_out(monkeypatch: pytest.MonkeyPatch) -> None:
    (ours, quick, slow), _ = timed_by({"ours": 9.0, "quick": 2.0, "slow": 5.0}, monkeypatch, "ours")
    measure([ours, quick, slow], 10, 1)
    assert len(ours.read) == len(quick.read) == 10
    assert sorted(slow.read) == [0, SPARSE]
    assert set(ours.alone.values()) == {9.0}
    assert set(ours.read.values()) == {10.0}


def test_nobody_always_follows_the_same_contender(monkeypatch: pytest.MonkeyPatch) -> None:
    contenders, log = timed_by({"a": 1.0, "b": 1.0, "c": 1.0}, monkeypatch)
    measure(contenders, 12, 1)
    # To warm up twice, alone, with the reader: four calls of three contenders in each of the rounds.
    turns = [log[-12 * 12 :][k : k + 12 : 4] for k in range(0, 12 * 12, 12)]
    assert all(sorted(turn) == ["a", "b", "c"] for turn in turns)
    pairs = {(turn[n], turn[n + 1]) for turn in turns for n in (0, 1)}
    assert pairs == {(x, y) for x in "abc" for y in "abc" if x != y}


def test_goals_count_what_lies_below() -> None:
    def timed(name: str, seconds: list[float], peer: bool = True) -> Contender:
        times = dict(enumerate(seconds))
        return Contender(name, [], [], None, peer, alone=times, read=times)

    copies = [timed(name, [1.0] * 15, False) for name in COPIES]
    case = CASES["tr_512x512"]
    noisy = [1.0 + 0.02 * (k % 3 - 1) for k in range(15)]
    behind = row_of(case, [timed("eqsat", [1.0] * 15, False), timed("torch", [0.9 * t for t in noisy]), *copies], {})
    ahead = row_of(
        case, [timed("eqsat", noisy, False), timed("torch", [2.5] * 15), timed("tvm", [2.2] * 3), *copies], {}
    )
    assert (behind.lost, ahead.lost) == (True, False)
    assert ahead.best == "torch", "a peer that took part in few rounds is not the best"
    assert ahead.ratio is not None
    assert ahead.ratio.low <= ahead.ratio.median <= ahead.ratio.high
    assert "goals met" in summary([ahead], [], 1)
    assert "goals NOT met" in summary([ahead, behind], [], 1)
    assert "goals NOT met" in summary([ahead], ["tr: eqsat: wrong result"], 1)
    goal = goal_of("d", 4.0, this_machine().vector)
    assert goal is not None
    slower = replace(ahead, ratio=median_interval([goal - 0.1] * 15))
    assert not slower.lost
    assert "goals NOT met" in summary([slower], [], 1)


@pytest.mark.parametrize(("copy", "room"), [(1.0, 1.2), (0.5, 2.4)])
def test_a_goal_may_be_beyond_a_copy(copy: float, room: float) -> None:
    def timed(name: str, seconds: float, peer: bool = True) -> Contender:
        times = dict.fromkeys(range(15), seconds)
        return Contender(name, [], [], None, peer, alone=times, read=times)

    found = [timed("eqsat", 1.1, False), timed("torch", 1.2), *(timed(name, copy, False) for name in COPIES)]
    row = row_of(CASES["tr_512x512"], found, {})
    assert row.room == pytest.approx(room)
    goal = goal_of("d", room, this_machine().vector)
    assert goal is not None
    assert ("a copy would not reach the goal" in summary([row], [], 1)) == (room < goal)


def test_goals_are_those_of_the_machine() -> None:
    assert goal_of("c", 2.0, 64) == goal_of("c", 9.0, 64) != goal_of("c", 2.0, 32) == goal_of("c", 2.0, 16)
    assert (goal_of("g", 2.0, 64), goal_of("v", 2.0, 64), goal_of("v", 2.0, 32)) == (pytest.approx(1.8), None, None)


@pytest.mark.parametrize("winner", [0, 1])
def test_a_tuned_kernel_takes_part_where_it_differs(
    winner: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def best_of(calls: list[object]) -> tuple[int, list[float]]:
        return winner, [1.0] * len(calls)

    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    monkeypatch.setattr("eqsat.backends.c.tune.best_of", best_of)
    case = CASES["tr_512x512"]
    x, out = aligned(case.shape, case.dtype), aligned(case.out_shape, case.dtype)
    assert len(Eqsat(tune=True).prepare(case, x, out, 1)) == winner


@needs_compiler
def test_a_library_without_what_it_needs_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    shim = "extern int nowhere_to_be_found; int *version = &nowhere_to_be_found;"
    with pytest.raises(RuntimeError, match=r"cannot be loaded: .*nowhere_to_be_found"):
        build(shim)
    monkeypatch.setattr(peers_onednn, "ONEDNN_SHIM", shim)
    peer = OneDnn("/no such folder")
    assert peer.found() is None and peer.problem()
