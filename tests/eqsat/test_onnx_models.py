"""Real models: read, written and compared. Set EQSAT_MODELS to a directory of .onnx files to check those too."""

# feature: I1
from __future__ import annotations

import os
from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from eqsat.onnx.bytes import bytes_moved  # noqa: E402
from eqsat.onnx.check import compare_models, reseed_weights  # noqa: E402
from eqsat.onnx.read import read  # noqa: E402
from eqsat.onnx.write import write  # noqa: E402

pytestmark = pytest.mark.onnx

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
QUICK = ("light_squeezenet.onnx", "light_shufflenet.onnx")
OWN = sorted(Path(os.environ["EQSAT_MODELS"]).glob("*.onnx")) if os.environ.get("EQSAT_MODELS") else []


def check(path: Path) -> None:
    before = onnx.load(str(path))
    if path.parent == LIGHT:
        before = reseed_weights(before)
    after = write(read(before))
    onnx.checker.check_model(after)
    result = compare_models(before, after, seeds=(0,))
    assert result.ok, result
    assert len(after.graph.node) <= len(before.graph.node)
    assert bytes_moved(after).total <= bytes_moved(before).total
    assert [(i.name, i.type) for i in after.graph.input if i.name not in {x.name for x in after.graph.initializer}] == [
        (i.name, i.type) for i in before.graph.input if i.name not in {x.name for x in before.graph.initializer}
    ]


@pytest.mark.parametrize("name", QUICK)
def test_light_models(name: str) -> None:
    if not (LIGHT / name).is_file():
        pytest.skip("this onnx package has no light models")
    check(LIGHT / name)


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in sorted(LIGHT.glob("*.onnx")) if p.name not in QUICK], ids=lambda p: p.stem)
def test_all_light_models(path: Path) -> None:
    check(path)


@pytest.mark.skipif(not OWN, reason="EQSAT_MODELS names no directory of models")
@pytest.mark.parametrize("path", OWN, ids=lambda p: p.stem)
def test_own_models(path: Path) -> None:
    check(path)
