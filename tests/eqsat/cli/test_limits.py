"""Limits of time and memory hold for the whole run, whatever the model asks for; and what is said where one was hit."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_models import MODELS

import eqsat as eq
from eqsat.cli import main
from eqsat.ir import clock
from eqsat.ir.errors import EqsatError
from eqsat.nets import nhwc_converter_net, transformer
from eqsat.onnx.bounds import MOST_NODES, check_functions, follows_large_values
from eqsat.workers.call import WorkerFailure, WorkerLimit, WorkerMemoryLimit, WorkerTimeLimit

pytestmark = pytest.mark.onnx

SECONDS = 1.0
SLACK = 8.0  # of a loaded machine, a worker's start included


@pytest.fixture(autouse=True)
def _as_users_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EQSAT_DEBUG", raising=False)


@pytest.mark.parametrize("name", MODELS)
def test_hostile_models_end_in_time_and_in_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, output = tmp_path / "m.onnx", tmp_path / "o.onnx"
    path.write_bytes(MODELS[name]().SerializeToString())
    start = time.monotonic()
    code = main(["optimize", str(path), "-o", str(output), "--time", str(SECONDS)])
    assert time.monotonic() - start < SECONDS + SLACK
    said = capsys.readouterr()
    assert code in (0, 2) and "Traceback" not in said.err and "a defect of eqsat" not in said.out
    assert said.err.count("\n") == (1 if code == 2 else 0), said.err
    assert output.exists() == (code == 0)


ENDING = ("fewer cells than parts", "split of no axis", "operand that nothing makes")


@pytest.mark.parametrize("name", ENDING)
def test_what_ends_the_process_of_onnx_does_not_end_ours(name: str) -> None:
    with pytest.raises(EqsatError, match=r"ends its process|is not valid|inconsistent|rank is not known"):
        eq.onnx.optimize(MODELS[name]())
    assert eq.onnx.optimize(nhwc_converter_net(blocks=1)).status == "saturated"


@pytest.mark.parametrize("phases", [(), ("read",)])
def test_a_worker_that_ends_by_itself(
    phases: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it reads, the model is blamed; later, the model comes back and the defect is named."""

    def ended(job: str, argument: object, *, report: Callable[[str], None], **limits: float) -> None:
        for phase in phases:
            report(phase)
        failure = WorkerFailure(job, "its worker ended by signal 11: Segmentation fault")
        failure.signal = 11
        raise failure

    path, output = tmp_path / "m.onnx", tmp_path / "o.onnx"
    path.write_bytes(nhwc_converter_net(blocks=1).SerializeToString())
    monkeypatch.setattr("eqsat.cli.optimize.call", ended)
    assert main(["optimize", str(path), "-o", str(output)]) == (0 if phases else 2)
    said = capsys.readouterr()
    if phases:
        assert "a defect of eqsat" in said.out and output.read_bytes() == path.read_bytes()
    else:
        assert "ends by signal 11" in said.err and not output.exists()


@pytest.mark.parametrize("limit", [WorkerTimeLimit, WorkerMemoryLimit])
def test_a_limit_that_was_hit_for_nothing_is_said_first(
    limit: type[WorkerLimit], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(job: str, argument: object, *, report: Callable[[str], None], **limits: float) -> None:
        report("read")
        raise limit(job, "ended")

    monkeypatch.setattr("eqsat.cli.optimize.call", ended)
    path, output = tmp_path / "m.onnx", tmp_path / "o.onnx"
    path.write_bytes(transformer(1).SerializeToString())
    for strict, code in (((), 0), (("--strict",), 1)):
        assert main(["optimize", str(path), "-o", str(output), *strict]) == code
        first = capsys.readouterr().out.splitlines()[0]
        assert (
            "unchanged: gave up after" in first
            and ("time-limit" if limit is WorkerTimeLimit else "memory-limit") in first
        )
        assert output.read_bytes() == path.read_bytes()


def test_reading_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output = tmp_path / "m.onnx", tmp_path / "o.onnx"
    path.write_bytes(nhwc_converter_net(blocks=150).SerializeToString())
    assert main(["optimize", str(path), "-o", str(output), "--time", "0.01"]) == 2
    said = capsys.readouterr().err
    assert "read within 0.01 s" in said and said.count("\n") == 1 and not output.exists()
    with pytest.raises(EqsatError, match="not read within"):
        eq.onnx.optimize(path, limits=eq.Limits(seconds=0.01))


def test_a_program_comes_back_as_it_is_where_time_is_over() -> None:
    y = eq.input("x", (8, 8), "float32")
    for _ in range(300):
        y = y.permute_dims((1, 0)).relu()
    result = eq.optimize(y, limits=eq.Limits(seconds=0.001))
    assert result.status == "time-limit" and result.cost_after == result.cost_before and "0.001 s" in result.notes[0]
    with pytest.raises(clock.OutOfTime), clock.at_most(0.001):
        eq.optimize(y)  # the limit of a caller is the caller's


def test_a_run_that_is_done_is_not_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(nhwc_converter_net(blocks=4).SerializeToString())
    assert main(["optimize", str(path), "--strict", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stopped"] is False


def test_functions_are_counted_before_they_are_unfolded() -> None:
    from hostile_models import functions

    check_functions(functions(10))
    assert MOST_NODES > 2**10
    with pytest.raises(EqsatError, match=r"unfold to 1,\d+,\d+,\d+,\d+ nodes"):
        check_functions(functions(40))
    with pytest.raises(EqsatError, match="calls itself"):
        check_functions(functions(3, recursive=True))
    assert follows_large_values(MODELS["doubled constant"]()) and not follows_large_values(nhwc_converter_net(4))
