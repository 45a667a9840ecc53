"""The machine that kernels are made for: what is believed, described, measured and kept."""

from __future__ import annotations

import ctypes
import json
import math
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.backends import cache, calibration
from eqsat.backends import machine as machine_module
from eqsat.backends.c.cc import load_library
from eqsat.backends.c.kernel import CKernel
from eqsat.backends.calibration import last_cache, measured, streaming_begins, this_machine, written_past
from eqsat.backends.lowering.lower import lower
from eqsat.backends.machine import (
    MACHINES,
    RANGES,
    Machine,
    believed,
    chosen_machine,
    described,
    machine_of,
    reported_machine,
)
from eqsat.backends.schedules.choose import schedule_moves
from eqsat.cli import main
from eqsat.cli.calibrate import machine_text
from eqsat.ir.errors import BackendError
from eqsat.ir.tensors.tensor import as_program

MB = 1 << 20


@pytest.fixture
def unpinned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No chosen machine, and an empty cache."""
    monkeypatch.delenv("EQSAT_MACHINE")
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _nothing(_: str) -> str:
    return ""


@pytest.mark.parametrize(
    ("caches", "last"),
    [
        ({}, 16 * MB),
        ({1: 32 << 10, 2: 512 << 10, 3: 480 * MB}, 16 * MB),
        ({1: 32 << 10, 2: 512 << 10, 3: 8 * MB}, 8 * MB),
        ({1: 32 << 10, 2: 512 << 10, 3: 0}, 16 * MB),
        ({1: 0, 2: 0, 3: 0}, 16 * MB),
        ({1: 64 << 10, 2: 4 * MB}, 4 * MB),
        ({1: 1 << 40, 2: 1 << 40, 3: 1 << 40}, 16 * MB),
        ({1: 32 << 10, 2: 2 * MB, 3: 1 * MB}, 2 * MB),
    ],
)
def test_absurd_reports_are_not_believed(caches: dict[int, int], last: int) -> None:
    """0, the 480 MB of a host, no cache files, a third level that is less than the second."""
    found = believed(caches, 32, 2)
    assert found.last == last and found.first <= found.second <= found.last
    assert all(low <= value <= high for name, (low, high) in RANGES.items() for value in [asdict(found)[name]])


def test_reports_of_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown processor, in a container that shows no files."""
    monkeypatch.setattr(machine_module, "_beginning", _nothing)
    machine_module.processor.cache_clear()
    reported_machine.cache_clear()
    try:
        found = reported_machine()
    finally:
        machine_module.processor.cache_clear()
        reported_machine.cache_clear()
    assert found.vector == 16 and found.first == Machine().first


@pytest.mark.parametrize("text", ["garbage", "32Q", "-1K", "", "0K", "99999999G"])
def test_sizes_that_are_no_sizes(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    files = {"level": "3", "type": "Unified", "size": text}

    def beginning(path: str) -> str:
        return files[path.rsplit("/", 1)[-1]]

    monkeypatch.setattr(machine_module, "_beginning", beginning)
    caches = machine_module._caches()  # pyright: ignore[reportPrivateUsage]
    assert believed(caches, 32, 2).last == 16 * MB


@pytest.mark.parametrize(("name", "machine"), MACHINES.items())
def test_a_machine_is_data(name: str, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name or by a file, and kernels for it are right wherever they run."""
    file = tmp_path / "machine.json"
    file.write_text(described(machine))
    monkeypatch.setenv("EQSAT_MACHINE", name)
    x = eq.input("x", (6, 40, 33), "float32")
    array = np.random.default_rng(0).standard_normal((6, 40, 33)).astype("float32")
    by_name = eq.compile(x.permute_dims((0, 2, 1)))
    monkeypatch.setenv("EQSAT_MACHINE", str(file))
    by_file = eq.compile(x.permute_dims((0, 2, 1)))
    assert isinstance(by_name, CKernel) and isinstance(by_file, CKernel)
    assert by_name.machine == by_file.machine == machine and by_name.source == by_file.source
    np.testing.assert_array_equal(by_name(x=array), array.transpose(0, 2, 1))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "not an object"), ({"vectors": 32}, "'vectors' is no fact"), ({"last": "8M"}, "not a whole number"),
        ({"last": True}, "not a whole number"), ({"vector": 48}, "not one of 16, 32, 64"), ({"last": 0}, "not from"),
        ({"last": 1 << 60}, "not from"), ({"second": 8 * MB, "last": 4 * MB}, "get smaller"),
        ({"strip": 64}, "strip is 64, not one of 32, 128"), ({"past": 1}, "past is 1, not from"),
    ],
)  # fmt: skip
def test_descriptions_that_are_none(data: Any, words: str) -> None:
    with pytest.raises(BackendError, match=words):
        machine_of(data, "m")


@pytest.mark.parametrize("text", ["no-such-machine", "/no/such/file.json"])
def test_a_chosen_machine_that_is_not_there(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_MACHINE", text)
    with pytest.raises(BackendError, match=r"cannot be read.*a file, or one of server"):
        chosen_machine()
    with pytest.raises(BackendError, match="EQSAT_MACHINE"):
        eq.compile(eq.input("x", (2, 3), "int8").permute_dims((1, 0)))


def test_a_file_that_is_no_description(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_MACHINE", str(tmp_path / "m.json"))
    for text in (b"\xff\xfe no", b"[" * 9999, b" " * (1 << 16) + b"{}"):
        (tmp_path / "m.json").write_bytes(text)
        with pytest.raises(BackendError, match="no JSON"):
            chosen_machine()


SIZES = [1 << k for k in range(20, 26)]


@pytest.mark.parametrize(
    ("gains", "last"),
    [
        ([0.41, 0.59, 0.71, 0.99, 1.22, 1.19], 16 * MB),
        ([0.39, 0.58, 0.79, 1.02, 1.16, 1.15], 16 * MB),
        ([0.24, 0.46, 0.58, 0.79, 1.13, 1.27], 32 * MB),
        ([0.60, 0.77, 0.95, 1.90, 2.40, 2.50], 8 * MB),
        ([1.1, 1.2, 1.2, 1.2, 1.2, 1.2], 2 * MB),
        ([0.2, 0.3, 0.4, 0.5, 0.6, 0.7], 64 * MB),
        ([0.2, 0.3, 1.4, 0.5, 0.6, 1.1], 64 * MB),
    ],
)
def test_where_streaming_pays(gains: list[float], last: int) -> None:
    """From the size on after which it always does."""
    assert last_cache(streaming_begins(SIZES, gains), Machine(second=512 << 10, last=16 * MB)) == last


@pytest.mark.parametrize(
    "name", ["ROWS", "WORK", "ROUNDS", "TRIES", "MARGIN", "PAST_MARGIN", "EARLIER", "STRIP_GAIN", "NARROW_GAIN"]
)
def test_what_was_measured_otherwise_is_measured_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = calibration._key()  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(calibration, name, getattr(calibration, name) + 1)
    assert calibration._key() != before  # pyright: ignore[reportPrivateUsage]


def test_noise_does_not_change_the_class() -> None:
    """Times that are some percent off give the same machine."""
    random = np.random.default_rng(0)
    gains = np.array([0.24, 0.46, 0.56, 0.81, 1.14, 1.24])
    noisy = [streaming_begins(SIZES, list(gains * random.normal(1, 0.03, 6))) for _ in range(200)]
    assert {last_cache(begins, Machine()) for begins in noisy} == {32 * MB}
    # A Zen 1, measured: lines that follow each other gain from 4.0 to 4.7 MiB on, those of many rows from 6.9 to 8.2.
    measured_lines, measured_rows = (3.95, 4.2, 4.75), (6.86, 7.5, 8.2)
    assert {written_past(a * MB, b * MB, Machine()) for a in measured_lines for b in measured_rows} == {4 * MB}
    # Where lines that follow each other gain later, the last cache decides.
    assert {written_past(a * MB, 7 * MB, Machine()) for a in (6.5, 9, math.inf)} == {Machine().past}
    assert {last_cache(mb * MB, Machine()) for mb in measured_rows} == {16 * MB}


def counted(monkeypatch: pytest.MonkeyPatch, answer: Callable[[Machine], Machine]) -> list[Machine]:
    calls: list[Machine] = []

    def instead(reported: Machine) -> Machine:
        calls.append(reported)
        return answer(reported)

    monkeypatch.setattr(calibration, "measured", instead)
    return calls


def test_measured_once_and_kept(unpinned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads, then another process: one measurement."""
    known = Machine(32, last=4 * MB)
    calls = counted(monkeypatch, lambda _: known)
    found: list[Machine] = []
    threads = [threading.Thread(target=lambda: found.append(this_machine())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [known] * 8 and len(calls) == 1
    calibration._known.clear()  # pyright: ignore[reportPrivateUsage]
    assert this_machine() == known and len(calls) == 1
    (file,) = (unpinned / "machines").glob("*.json")
    assert json.loads(file.read_text()) == asdict(known)
    calibration._known.clear()  # pyright: ignore[reportPrivateUsage]
    file.write_text('{"last": -1}')
    assert this_machine() == known and len(calls) == 2


def test_nothing_is_measured_where_nothing_can_be(unpinned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a cache, and where the measurement fails, what is reported counts."""

    def fails(_: Machine) -> Machine:
        raise BackendError("calibration", "there is no memory for it")

    calls = counted(monkeypatch, fails)
    monkeypatch.setenv("EQSAT_CACHE", "off")
    assert this_machine() == reported_machine() and not calls
    monkeypatch.setenv("EQSAT_CACHE", str(unpinned))
    assert this_machine() == this_machine() == reported_machine() and len(calls) == 1


HOLD = """
import sys
from eqsat.backends import cache
with cache.alone("machines", 1) as held:
    print(held, flush=True)
    sys.stdin.readline()
"""


def test_processes_measure_one_after_the_other(unpinned: Path) -> None:
    """While one is at it, another does not begin; when it has ended, in whatever way, another may."""
    with subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"True\n"
        with cache.alone("machines", 0.1) as held:
            assert not held
        other.kill()
    with cache.alone("machines", 5) as held:
        assert held


def test_the_measurement_itself() -> None:
    """What it writes is what it read, and what it gives is a power of two, or what was reported."""
    reported = Machine(32, second=1 << 20)
    found = measured(reported)
    assert found.last.bit_count() == 1 and MB <= found.last <= 64 * MB
    assert MB <= found.past <= 32 * MB or found.past == reported.past
    assert found.strip in (32, 128)
    assert (found.vector, found.first, found.second) == (32, reported.first, reported.second)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_the_middle_answer_counts(order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may use the last cache while it is measured, or leave all of it."""
    answers = [[0.3, 0.4, 1.2, 1.4, 1.5, 1.6], [0.3, 0.4, 0.8, 1.1, 1.5, 1.6], [0.3, 0.4, 0.5, 0.6, 0.7, 1.6]]
    tries = iter([answers[k] for k in order])
    others = iter([answers[k] for k in order])

    def gains(*arguments: object) -> list[float]:
        return next(others if arguments[-1] == 1 else tries)

    monkeypatch.setattr(calibration, "_streaming_gains", gains)
    found = measured(Machine())
    assert found.last == 16 * MB and found.past == Machine().past
    assert next(tries, None) is next(others, None) is None


@pytest.mark.parametrize(("many", "strip"), [(1.3, 128), (1.1, 32), (0.6, 32)])
def test_strips_of_many_rows_only_where_they_are_faster(
    many: float, strip: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gain(*_: object) -> float:
        return many

    monkeypatch.setattr(calibration, "_gain_of_many_rows", gain)
    assert measured(Machine()).strip == strip


@pytest.mark.parametrize(("vector", "gain", "shuffled"), [(32, 1.1, 16), (32, 1.02, 64), (64, 1.1, 64)])
def test_vectors_are_halved_where_that_is_faster(
    vector: int, gain: float, shuffled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def halves(*_: object) -> float:
        return gain

    monkeypatch.setattr(calibration, "_gain_of_halves", halves)
    assert measured(Machine(vector)).shuffled == shuffled


def test_narrow_blocks_unless_what_they_store_is_read_again() -> None:
    """The next load, a wider one, would wait for stores of its halves."""
    y = eq.input("x", (1, 64, 56, 56), "float32").permute_dims((0, 2, 3, 1))
    blocked = eq.input("x", (1, 4, 16, 56, 56), "float32").permute_dims((0, 1, 3, 4, 2))
    for shuffled in (16, 32):
        sources = [CKernel(as_program(z), 1, Machine(32, strip=128, shuffled=shuffled)).source for z in (y, blocked)]
        assert ["transpose_u32_4x4(" in text for text in sources] == [shuffled == 16, False]
        assert "transpose_u32_8x4(" in sources[1]


@pytest.mark.parametrize("wide", [0, 1])
def test_the_blocks_that_are_measured_are_a_transpose(wide: int) -> None:
    library = load_library(calibration.SOURCE)
    x = np.random.default_rng(0).integers(0, 1 << 30, (24, 20), np.int32)
    y = np.zeros((20, 24), np.int32)
    library.turn(ctypes.c_void_p(y.ctypes.data), ctypes.c_void_p(x.ctypes.data), *map(ctypes.c_size_t, x.shape), wide)
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize(("strip", "piece"), [(32, 4), (128, 8)])
def test_the_strips_that_are_measured_are_a_transpose(strip: int, piece: int) -> None:
    """The last rows, which are fewer than a piece has, included."""
    library = load_library(calibration.SOURCE)
    shape = (2, 197, 256)
    x = np.random.default_rng(0).integers(0, 1 << 30, shape, np.int32)
    y = np.zeros((2, 256, 197), np.int32)
    sizes = [ctypes.c_size_t(n) for n in (*shape, strip, piece)]
    library.strips(ctypes.c_void_p(y.ctypes.data), ctypes.c_void_p(x.ctypes.data), *sizes)
    np.testing.assert_array_equal(y, x.transpose(0, 2, 1))


@pytest.mark.parametrize(("vector", "gain", "lines", "run"), [(64, 1.1, 1, 256), (64, 1.02, 2, 512), (32, 1.1, 2, 512)])
def test_single_lines_and_short_runs_where_they_are_faster(
    vector: int, gain: float, lines: int, run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gains(*_: object) -> float:
        return gain

    monkeypatch.setattr(calibration, "_gain_of_one_line", gains)
    monkeypatch.setattr(calibration, "_gain_of_short_runs", gains)
    found = measured(Machine(vector))
    assert (found.lines, found.run) == (lines, run)


@pytest.mark.parametrize("lines", [1, 2])
def test_the_lines_that_are_measured_are_a_transpose_of_blocks(lines: int) -> None:
    """Blocks of 64 lines change places, and their lines stay what they are."""
    library = load_library(calibration.SOURCE)
    rows = 512
    x = np.random.default_rng(0).integers(0, 256, (rows, rows), np.uint8)
    memory = np.zeros(rows * rows + 64, np.uint8)
    start = -memory.ctypes.data % 64
    y = memory[start : start + rows * rows].reshape(rows, rows)
    sizes = [ctypes.c_size_t(n) for n in (rows, rows // 2, lines)]
    library.visit(ctypes.c_void_p(y.ctypes.data), ctypes.c_void_p(x.ctypes.data), *sizes)
    blocks = x.reshape(8, 64, 8, 64)
    np.testing.assert_array_equal(y.reshape(8, 64, 8, 64), blocks.transpose(2, 1, 0, 3))


@pytest.mark.parametrize("run", [4, 8])
def test_the_runs_that_are_measured_make_panels(run: int) -> None:
    library = load_library(calibration.SOURCE)
    x = np.random.default_rng(0).integers(0, 256, (30, 16 * 64 + 32), np.uint8)
    y = np.zeros((16, 30, 64), np.uint8)
    sizes = [ctypes.c_size_t(n) for n in (30, 16, run)]
    library.panels(ctypes.c_void_p(y.ctypes.data), ctypes.c_void_p(x.ctypes.data), *sizes)
    np.testing.assert_array_equal(y, x[:, :-32].reshape(30, 16, 64).transpose(1, 0, 2))


def test_calibrate_shows_the_machine(
    unpinned: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    known = Machine(64, last=8 * MB)
    counted(monkeypatch, lambda _: known)
    monkeypatch.setattr("eqsat.cli.calibrate.thread_counts", lambda: ())
    assert main(["calibrate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["machine"] == asdict(known)
    assert main(["calibrate"]) == 0
    assert "results from 8 MiB on are written past the last one" in capsys.readouterr().out
    assert this_machine() == known
    assert "results from 4 MiB on" in machine_text(replace(known, past=4 * MB))


def _moves() -> dict[str, eq.Tensor]:
    """What users move most, in sizes of each class."""
    image = eq.input("image", (8, 256, 14, 14), "float32")
    planes, large = (eq.input(n, (c, 64, 56, 56), "float32") for n, c in (("planes", 1), ("large", 32)))
    quantised = eq.input("quantised", (1, 64, 56, 56), "int8")
    pixels = eq.input("pixels", (32, 3, 224, 224), "uint8")
    windows = eq.input("windows", (8, 8, 7, 8, 7, 96), "float32")
    found = {
        "nchw to nhwc, 14x14": image.permute_dims((0, 2, 3, 1)), "nhwc, 56x56": planes.permute_dims((0, 2, 3, 1)),
        "nhwc of bytes": quantised.permute_dims((0, 2, 3, 1)),
        "nchw16c, large": large.reshape((32, 4, 16, 56, 56)).permute_dims((0, 1, 3, 4, 2)),
        "pixels to planes": pixels.permute_dims((0, 2, 3, 1)), "windows": windows.permute_dims((0, 1, 3, 2, 4, 5)),
        "padded": large.pad(((0, 0), (0, 0), (1, 1), (1, 1))),
        "five axes": eq.input("five", (48, 4, 28, 88, 28), "float32").permute_dims((4, 3, 2, 1, 0)),
    }  # fmt: skip
    weights = eq.input("weights", (16, 16, 16, 16, 3, 3), "float32")
    found["blocked weights"] = weights.permute_dims((0, 2, 4, 5, 3, 1))
    found["nchw16c back, large"] = eq.input("blocks", (32, 4, 3136, 16), "float32").permute_dims((0, 1, 3, 2))
    found["pack"] = eq.input("b", (1000, 62, 16), "float32").permute_dims((1, 0, 2))
    sizes = ("int8", (4096, 4096)), ("float16", (1023, 2047)), ("float16", (512, 768)), ("float64", (512, 512))
    sizes += ("float32", (512, 512)), ("float32", (256, 256))
    for dtype, (rows, columns) in sizes:
        found[f"{rows}x{columns} {dtype}"] = eq.input("m", (rows, columns), dtype).permute_dims((1, 0))
    return found


def _chosen(machine: Machine, threads: int) -> list[str]:
    """The schedule of each of those, as a line: its class, and what it does not leave as it usually is."""
    lines: list[str] = []
    for name, y in _moves().items():
        ((_, moves),) = lower(as_program(y)).moves.items()
        for _, schedule in schedule_moves(moves, machine, threads) or []:
            usual = {f.name: f.default for f in fields(schedule)}
            facts = {k: v for k, v in asdict(schedule).items() if v != usual[k] and k not in ("i", "j", "threads")}
            lines.append(f"{name}: {type(schedule).__name__} " + ", ".join(f"{k}={v}" for k, v in facts.items()))
    return lines


# feature: K2
def test_choices_for_the_stored_machines(golden: Callable[[str, str], None]) -> None:
    """On whatever machine one looks, so that a change of the rules shows what it changes elsewhere."""
    text: list[str] = []
    for name, machine in MACHINES.items():
        text += [f"# {name}: {machine}", *_chosen(machine, 1), ""]
    golden("\n".join(text), "choices.txt")


# feature: K2
@pytest.mark.parametrize("gains", [[0.41, 0.59, 0.71, 0.99, 1.22, 1.19], [0.2, 0.3, 0.4, 0.5, 0.6, 0.7], [1.2] * 6])
def test_a_measured_machine_does_not_depend_on_the_report(gains: list[float]) -> None:
    """With another size of the last cache reported, the same schedules."""
    found: set[tuple[str, ...]] = set()
    for last in (0, 2 * MB, 32 * MB, 480 * MB):
        reported = believed({1: 48 << 10, 2: 2 * MB, 3: last}, 64, 2)
        begins = streaming_begins(SIZES, gains)
        machine = replace(reported, last=last_cache(begins, reported), past=written_past(begins / 2, begins, reported))
        found.add(tuple(_chosen(machine, 1)))
    assert len(found) == 1
