"""`eqsat kernel --target opencl`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from eqsat.cli import main

KERNEL = ["kernel", "n, c, h, w -> n, c//4, h, AXIS_SEPARATOR, w, c%4", "--shape", "1,8,6,5", "--target", "opencl"]


@pytest.mark.opencl
def test_kernel_for_opencl(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("EQSAT_CACHE", "POCL_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    assert main(["kernel", "NCHW -> NCHW4c", *KERNEL[2:], "--bench"]) == 0
    text = capsys.readouterr().out
    assert "void kernel_0(__global const float *restrict in0" in text and "GB/s" in text
    assert main([*KERNEL, "--bench", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert "image2d_t" in answer["source"] and answer["bench"]["gb_per_second"] > 0


def test_without_pyopencl_the_extra_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    assert main(KERNEL) == 2
    assert "pip install 'eqsat[opencl]'" in capsys.readouterr().err
