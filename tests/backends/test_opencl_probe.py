"""Images that a device reads or writes wrongly are refused, after a trial that is made once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqsat.backends.compile import compile
from eqsat.backends.opencl import probe as opencl_probe
from eqsat.backends.opencl.device import open_device
from eqsat.backends.opencl.image import CHANNEL_TYPES, Image
from eqsat.backends.opencl.probe import check_images, sample
from eqsat.ir.errors import BackendError
from eqsat.ir.layouts.buffer import Buffer
from eqsat.ir.tensors.tensor import input

pytestmark = pytest.mark.opencl


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and nothing known in this process."""
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    opencl_probe._found.cache_clear()  # pyright: ignore[reportPrivateUsage]
    return tmp_path


# feature: K4
@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("dtype", CHANNEL_TYPES)
def test_an_image_is_right_or_refused(dtype: str, channels: int) -> None:
    """In and out, of every format; never other numbers."""
    shape = (6, 8) if channels == 1 else (6, 2, 4)
    x = input("x", shape, dtype)
    array = np.resize(sample(Image(6, 8, channels, dtype)).reshape(-1), shape)
    for name in ("x", "out"):
        rows = {name: Buffer(name, shape, dtype, axis_separators=(1,))}
        try:
            kernel = compile(x.flip((0,)), "opencl", buffers=rows)
        except BackendError as error:
            text = str(error)
            assert "wrongly" in text and "image2d_t of" in text and "AXIS_SEPARATOR" in text and "driver" in text
            continue
        np.testing.assert_array_equal(kernel(x=array), array[::-1])


@pytest.mark.parametrize("wrong", ["reads", "writes", "reads and writes", ""])
def test_the_trial_notices_each_fault(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that reads or writes another pixel, in a format that this one has right."""
    if "reads" in wrong:
        monkeypatch.setattr(opencl_probe, "GET", opencl_probe.GET.replace("column = item % WIDTH", "column = 0"))
    if "writes" in wrong:
        monkeypatch.setattr(opencl_probe, "PUT", opencl_probe.PUT.replace("pixels[item]", "pixels[item ^ 1]"))
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
