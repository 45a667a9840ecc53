"""Images that a device reads or writes wrongly are refused, after a trial that is made once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_checks import program_of
from kernel_checks import sample as numbers
from kernel_views import VIEWS
from seeds import each_value

from eqsat.backends.compile import compile
from eqsat.backends.opencl import probe as opencl_probe
from eqsat.backends.opencl.device import open_device
from eqsat.backends.opencl.image import CHANNEL_TYPES, Image
from eqsat.backends.opencl.kernel import ClKernel
from eqsat.backends.opencl.probe import check_images, sample
from eqsat.ir.errors import BackendError
from eqsat.ir.layouts.buffer import Buffer
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import input

pytestmark = pytest.mark.opencl


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and nothing known in this process."""
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    opencl_probe._found.cache_clear()  # pyright: ignore[reportPrivateUsage]
    return tmp_path


# feature: K4
ALL = ["x", "rows", "columns", "both"]


@pytest.mark.parametrize("chosen", [[ALL[:3]], pytest.param([ALL[:1], ALL], marks=pytest.mark.slow)])
@each_value(dtype=CHANNEL_TYPES, channels=[1, 4])
def test_an_image_is_right_or_refused(dtype: str, channels: int, chosen: list[list[str]]) -> None:
    """In and out, of every format; never other numbers."""
    shape = (6, 8) if channels == 1 else (6, 2, 4)
    x = input("x", shape, dtype)
    array = np.resize(sample(Image(6, 8, channels, dtype)).reshape(-1), shape)
    outputs = {"rows": (0,), "columns": (1,), "both": (0, 1)}
    program = program_of({name: x.flip(axes) for name, axes in outputs.items()})
    for images in chosen:
        rows = {name: Buffer(name, shape, dtype, axis_separators=(1,)) for name in images}
        try:
            got = compile(program, "opencl", buffers=rows)(x=array)
        except BackendError as error:
            text = str(error)
            assert "wrongly" in text and "image2d_t of" in text and "AXIS_SEPARATOR" in text and "driver" in text
            continue
        for name, axes in outputs.items():
            np.testing.assert_array_equal(got[name], np.flip(array, axes), name)


@pytest.mark.parametrize(
    "kind, dtype, last", [("cpu", "int32", 5), pytest.param("gpu", "uint8", 4, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("share", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_views_of_images(kind: str, dtype: str, last: int, share: int) -> None:
    """Every kind of kernel reads one, and writes one where its result has two axes; pixels of one channel, of four."""
    x = input("x", (2, 8, 7, last), dtype)
    wide = x.pad(((0, 0), (0, 0), (0, 0), (0, 5 - last)))
    outputs = {name: VIEWS[name](wide) for name in list(VIEWS)[(kind == "gpu") % share :: share]}
    program, feeds = program_of(outputs), {"x": numbers((2, 8, 7, last), dtype)}
    ends = {n: y for n, y in outputs.items() if y.rank > 1 and y.dtype in CHANNEL_TYPES and all(y.shape)}
    rows = {n: Buffer(n, y.shape, y.dtype, axis_separators=(1,)) for n, y in {"x": x, **ends}.items()}
    kernel = ClKernel(program, kind=kind, buffers=rows)
    want = evaluate_outputs(program, feeds, undef=0)
    for name, array in kernel(feeds).items():
        np.testing.assert_array_equal(array, want[name], name)


COLUMN = ("GET", "column = item % WIDTH", "column = 0")
DIFFERENCE = ("GET", "BACK", "READ")
STORE = ("PUT", "pixels[item]", "pixels[item ^ 1]")


@pytest.mark.parametrize(
    "wrong, faults",
    [
        ("reads", [COLUMN]),
        ("reads", [DIFFERENCE]),
        ("writes", [STORE]),
        ("reads and writes", [COLUMN, STORE]),
        ("", []),
    ],
)
def test_the_trial_notices_each_fault(
    wrong: str, faults: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that reads or writes another pixel, in a format that this one has right."""
    for name, right, other in faults:
        monkeypatch.setattr(opencl_probe, name, getattr(opencl_probe, name).replace(right, other))
    images = {"x": Image(3, 40, 4, "float32")}
    if not wrong:
        check_images(open_device(), images)
        return
    with pytest.raises(BackendError, match=f"image2d_t of 10 x 3 pixels RGBA FLOAT: .* {wrong} such an image wrongly"):
        check_images(open_device(), images)


def test_a_trial_is_made_once(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a device, its driver and a format; the answer outlives the process, and a damaged one is asked for anew."""
    trials: list[Image] = []
    tried = opencl_probe._tried  # pyright: ignore[reportPrivateUsage]

    def spy(where: Any, image: Image) -> str:
        trials.append(image)
        return tried(where, image)

    monkeypatch.setattr(opencl_probe, "_tried", spy)
    check_images(open_device(), {"x": Image(3, 40, 4, "uint8"), "y": Image(30, 4, 4, "uint8")})
    check_images(open_device(), {"x": Image(3, 40, 4, "uint8")})
    assert len(trials) == 1
    opencl_probe._found.cache_clear()  # pyright: ignore[reportPrivateUsage]
    check_images(open_device(), {"x": Image(3, 40, 4, "uint8")})
    assert len(trials) == 1
    for text in ("", "[]", json.dumps({"wrong": 3})):
        opencl_probe._found.cache_clear()  # pyright: ignore[reportPrivateUsage]
        (path,) = (fresh / "opencl").glob("*.json")
        path.write_text(text)
        check_images(open_device(), {"x": Image(3, 40, 4, "uint8")})
    assert len(trials) == 4
    check_images(open_device(), {"x": Image(3, 40, 4, "int8")})
    assert len(trials) == 5
