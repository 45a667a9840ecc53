"""The demo: its parts, what it writes, and its exit code when a part is missing or fails."""

from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqsat import demo
from eqsat.ir.tensors.run import evaluate
from eqsat.ir.tensors.tensor import input
from eqsat.timing import interleaved


def missing(name: str) -> Any:
    raise PackageNotFoundError(name)


def test_the_two_chains_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).standard_normal((2, 32, 3, 5)).astype("float32")
    expected = demo.chain_in_numpy(x)
    assert np.array_equal(evaluate(demo.chain(input("x", x.shape, "float32")), {"x": x}), expected)
    assert np.array_equal(expected, np.maximum(x, 0)) and not np.array_equal(expected, x)


@pytest.mark.onnx
@pytest.mark.parametrize(("blocks", "side"), [(3, 28), pytest.param(20, 112, marks=pytest.mark.slow)])
def test_demo(
    blocks: int, side: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the wheel: everything else runs; only the strict mode minds."""
    from eqsat.nets import nhwc_converter_net

    def briefly(actions: Sequence[Callable[[], Any]], seconds: float) -> Sequence[float]:
        return interleaved(actions, seconds=seconds / 10)

    monkeypatch.setattr(demo, "SHAPE", (1, 32, side, side))
    monkeypatch.setattr(demo, "interleaved", briefly)
    monkeypatch.setattr("eqsat.nets.nhwc_converter_net", lambda: nhwc_converter_net(blocks=blocks))
    monkeypatch.setattr(demo, "files", missing)
    assert demo.main(["--output", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert "SKIPPED common_det.onnx" in text and "FAIL" not in text and "proved equal by the rules" in text
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "converter.onnx",
        "converter-optimised.onnx",
        "converter.html",
    }
    assert text.splitlines()[-1].endswith(str(tmp_path / "out" / "converter.html"))


def test_exit_codes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def skipping(stage: demo.Stage) -> None:
        stage.skip("a part", "it is missing")

    def failing(stage: demo.Stage) -> None:
        stage.check("a check", False)

    def nothing(stage: demo.Stage) -> None:
        stage.check("a check", True)

    monkeypatch.setattr(demo, "show_chain", nothing)
    for models, strict, code in ((nothing, True, 0), (skipping, False, 0), (skipping, True, 1), (failing, False, 1)):
        monkeypatch.setattr(demo, "show_models", models)
        assert demo.main(["--strict"] if strict else []) == code
    assert "it is missing" in capsys.readouterr().out


def test_the_wheel_is_found_without_importing_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = tmp_path / demo.MODEL
    model.touch()

    class File:
        name = demo.MODEL

        def locate(self) -> Path:
            return model

    def found(name: str) -> list[File]:
        return [File()]

    monkeypatch.setattr(demo, "files", found)
    assert demo.real_model() == model
    monkeypatch.setattr(demo, "files", missing)
    assert demo.real_model() is None
