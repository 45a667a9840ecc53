"""Real models: read, written and compared. Set EQSAT_MODELS to a directory of .onnx files to check those too."""

# feature: I1
from __future__ import annotations

import os
from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from graph_suite.reseed import reseed_weights  # noqa: E402

import eqsat as eq  # noqa: E402
from eqsat import nets  # noqa: E402
from eqsat.onnx.bytes import bytes_moved  # noqa: E402
from eqsat.onnx.check import compare_models  # noqa: E402
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


def test_what_was_not_looked_into_is_said() -> None:
    """Layouts inside the model's own functions, and of types that programs do not have, are in no figure."""
    from onnx import parser

    called = parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17, "own": 1]>
        g (float[2, 3, 4, 5] x) => (float[2, 3, 4, 5] y) { t = own.nhwc(x) u = Relu(t) y = own.nchw(u) }
        <domain: "own", opset_import: ["": 17]> nhwc (a) => (b) { b = Transpose<perm = [0, 2, 3, 1]>(a) }
        <domain: "own", opset_import: ["": 17]> nchw (a) => (b) { b = Transpose<perm = [0, 3, 1, 2]>(a) }
    """)
    assert any("2 calls" in note for note in eq.onnx.optimize(called, freeze=["nhwc", "nchw"]).notes)
    narrow = parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        g (bfloat16[2, 3] x) => (bfloat16[2, 3] y) {
            t = Transpose<perm = [1, 0]>(x) u = Neg(t) y = Transpose<perm = [1, 0]>(u)
        }
    """)
    assert any("2 layout operators are not counted" in note for note in eq.onnx.optimize(narrow).notes)
    assert eq.onnx.optimize(nets.conv_chain()).notes == ()
