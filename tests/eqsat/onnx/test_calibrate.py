"""Measuring prices, and confirming gains: with clocks that are told what to say, and small runs of the real thing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import eqsat as eq
import eqsat.models.package
from eqsat.cli import main
from eqsat.ir.errors import MissingPackage
from eqsat.onnx import calibrate
from eqsat.onnx.calibrate import Probe, measured, model_of, probes, runner
from eqsat.onnx.confirm import ROUNDS, Confirmation, confirm
from eqsat.pricing.table import KINDS, read

pytestmark = pytest.mark.onnx


class Clock:
    """Time that passes only while probes run: so many nanoseconds for each byte, operator or multiplication."""

    def __init__(self, price: Callable[[Probe], float]) -> None:
        self.price, self.time = price, 0.0

    def now(self) -> int:
        return round(self.time)

    def start(self, probe: Probe, threads: int) -> Callable[[], object]:
        def run() -> None:
            self.time += self.price(probe)

        return run


def test_prices_are_what_the_clock_says() -> None:
    """1000 ns are spent by every run; what a probe is measured against is taken off."""
    own = {probe.key: 3 * probe.per for probe in probes()}

    def price(probe: Probe) -> float:
        than = 1000 if probe.than == ("nothing", 0) else price(next(p for p in probes() if p.key == probe.than))
        return 1000 if probe.key[0] == "nothing" else than + own[probe.key]

    clock = Clock(price)
    table = measured(1, 0.0, clock.now, clock.start)
    assert set(table.moves) == set(KINDS)
    assert {price for points in table.moves.values() for _, price in points} == {3000.0}
    assert {*table.operators.values(), *table.products.values()} == {3000.0}


def test_what_is_no_dearer_than_its_yardstick_is_free() -> None:
    clock = Clock(lambda probe: 50)
    assert measured(1, 0.0, clock.now, clock.start).operators == {"node": 0.0, "reshape": 0.0}


def test_there_are_enough_probes_and_each_runs() -> None:
    """Every probe is a model that onnxruntime runs, and says rightly how many bytes it makes."""
    every = probes()
    assert len(every) > 12 and len({probe.key for probe in every}) == len(every)
    for probe in every:
        runner(probe, 1)()
        live = eqsat.models.package.session(model_of(probe))
        feeds = {name: np.ones(shape, np.float32) for name, shape in probe.inputs.items()}
        if probe.key[1]:
            assert sum(x.nbytes for x in live.run(None, feeds)) == probe.per, probe.key


def test_calibrate_writes_a_file_that_optimize_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(calibrate, "ROUNDS", (1, 1))
    monkeypatch.setattr("eqsat.cli.calibrate.thread_counts", lambda: (1, 2))
    file, model = tmp_path / "mine.json", tmp_path / "m.onnx"
    assert main(["calibrate", "--output", str(file), "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)["tables"]
    assert [t["threads"] for t in tables] == [1, 2] and read(file, 2).threads == 2
    eq.onnx.save_model(turned(), model)
    assert main(["optimize", str(model), "--prices", str(file), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["objective"] == "time" and answer["prices"] == read(file).source
    assert answer["cost_after"] <= answer["cost_before"]  # one round may find that a thing is free


def test_calibrate_keeps_its_prices_beside_the_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(calibrate, "ROUNDS", (1, 1))
    monkeypatch.setattr("eqsat.cli.calibrate.thread_counts", lambda: (1,))
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "cache"))
    assert main(["calibrate"]) == 0
    assert "transpose" in capsys.readouterr().out and (tmp_path / "cache" / "prices.json").is_file()
    monkeypatch.setenv("EQSAT_CACHE", "off")
    assert main(["calibrate"]) == 2 and "use --output" in capsys.readouterr().err


def test_calibrate_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    usual: Any = eqsat.models.package.import_module

    def without(name: str) -> Any:
        if name == "onnxruntime":
            raise ModuleNotFoundError(name, name=name)
        return usual(name)

    monkeypatch.setattr(eqsat.models.package, "import_module", without)
    with pytest.raises(MissingPackage, match="onnxruntime is not installed"):
        measured()
    with pytest.raises(MissingPackage, match="onnxruntime is not installed"):
        eq.onnx.optimize(turned(), confirm=True)


# -- confirming -------------------------------------------------------------------------------------------------------


def turned(times: int = 1) -> Any:
    """Transposes that cancel around a relu."""
    nodes: list[Any] = []
    name = "x"
    for op in ("Transpose", "Relu", "Transpose") * times:
        out = f"{op}{len(nodes)}"
        nodes.append(helper.make_node(op, [name], [out]))
        name = out
    nodes.append(helper.make_node("Neg", [name], ["y"]))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (300, 200)) for n in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def ticking(steps: Iterator[int]) -> Callable[[], int]:
    """A timer that moves on by the next step whenever it is asked."""
    now = 0

    def timer() -> int:
        nonlocal now
        now += next(steps)
        return now

    return timer


def test_equal_models_are_no_gain() -> None:
    done = confirm(turned(), turned(), 0.0, ticking(1000 for _ in count()))
    assert (done.before, done.after, done.rounds, done.real) == (1000, 1000, ROUNDS[0], False)


@pytest.mark.parametrize("real", [True, False])
def test_the_input_is_given_back_where_no_gain_is_measured(monkeypatch: pytest.MonkeyPatch, real: bool) -> None:
    before = turned()
    done = Confirmation(2000.0, 1000.0 if real else 2100.0, 10, real)

    def told(old: object, new: object) -> Confirmation:
        assert old is before and new is not before
        return done

    monkeypatch.setattr("eqsat.onnx.confirm.confirm", told)
    found = eq.onnx.optimize(before, confirm=True)
    assert found.confirmation is done
    assert (found.model is before) == (not real)
    assert any("not faster: 2 us -> 2 us" in note for note in found.notes) == (not real)
    assert (found.final.rank < found.initial.rank) == real


def test_the_command_says_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.onnx"
    eq.onnx.save_model(turned(8), path)
    assert main(["optimize", str(path), "--confirm", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer["confirmed"]) == {"before_us", "after_us", "rounds", "real"}
    assert main(["optimize", str(path), "--confirm"]) == 0
    assert "measured time: " in capsys.readouterr().out
    assert main(["optimize", str(path), "--objective", "bytes", "--prices", str(path)]) == 2
