"""What all tests share: golden files, skipping by marker, hypothesis profiles."""

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from browser import browser
from hypothesis import settings

# What would give the input back raises in the tests: a defect must not hide behind the fall-back.
os.environ.setdefault("EQSAT_DEBUG", "1")

# Kernels of the tests are the same on every machine, whatever its caches are: see `eqsat.backends.machine`.
os.environ.setdefault("EQSAT_MACHINE", "server")

# The tests start hundreds of interpreters. Where none may leave bytecode beside the sources, each would compile the
# same modules again: they share a folder of their own.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode"))

# A run holds millions of terms, without cycles: looking for garbage among them as often as usual takes a tenth of it.
gc.set_threshold(100_000, 50, 50)


def pytest_collection_finish() -> None:
    """Nor through what is there for the whole run: a twentieth of its time."""
    gc.collect()
    gc.freeze()


PACKAGE_OF_MARKER = {"onnx": "onnx", "opencl": "pyopencl", "tvm": "tvm"}

# In CI the examples are the same on every run; `--hypothesis-profile=long` searches further.
settings.register_profile("house", deadline=None, max_examples=45, derandomize="CI" in os.environ, print_blob=True)
settings.register_profile("long", deadline=None, max_examples=10_000, print_blob=True)
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="write the golden files and run only their tests")


BUILD = """
import pyopencl as cl
platform = cl.get_platforms()[0]
print(platform.name)
context = cl.Context([platform.get_devices()[0]])
cl.Program(context, "__kernel void k(__global int *x) { x[0] = 1; }").build()
"""


@cache
def opencl_fails() -> str:
    """Why the first OpenCL device of this machine builds no kernel at all; '' where it does. PoCL is asked for less.

    A driver may be older than the processor: PoCL 3.0 has no name for one that its compiler does not know.
    """
    done = subprocess.run([sys.executable, "-c", BUILD], capture_output=True, text=True, check=False)
    if done.stdout.startswith("Portable Computing Language"):  # most of its time is its compiler's, after ours
        os.environ.setdefault("PYOPENCL_BUILD_OPTIONS", "-cl-opt-disable")
    said = [line for line in done.stderr.splitlines() if "error" in line.lower()]
    return "" if done.returncode == 0 else (said or ["it ends"])[-1].strip()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("browser") and browser() is None:
            item.add_marker(pytest.mark.skip(reason="needs Chromium, or another browser that EQSAT_BROWSER names"))
        for marker, package in PACKAGE_OF_MARKER.items():
            if item.get_closest_marker(marker) and find_spec(package) is None:
                item.add_marker(pytest.mark.skip(reason=f"needs {package}"))
            elif marker == "opencl" and item.get_closest_marker(marker) and opencl_fails():
                item.add_marker(pytest.mark.skip(reason=f"OpenCL builds no kernel here: {opencl_fails()}"))
    if config.getoption("--update-goldens"):
        golden_tests = [item for item in items if "golden" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=[item for item in items if item not in golden_tests])
        items[:] = golden_tests


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(text, name)` compares with the file `golden/NAME` beside the test; `make goldens` writes it anew."""

    def compare(text: str, name: str) -> None:
        path = Path(request.path).parent / "golden" / name
        if request.config.getoption("--update-goldens"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.is_file(), f"{path} is missing: run `make goldens` and read what it writes"
        assert text == path.read_text(), f"{path.name} differs; if that is meant, run `make goldens`"

    return compare
