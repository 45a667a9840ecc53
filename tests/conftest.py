"""What all tests share: golden files, skipping by marker, hypothesis profiles."""

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

# What would give the input back raises in the tests: a defect must not hide behind the fall-back.
os.environ.setdefault("EQSAT_DEBUG", "1")

PACKAGE_OF_MARKER = {"onnx": "onnx", "opencl": "pyopencl", "tvm": "tvm"}

# In CI the examples are the same on every run; `--hypothesis-profile=long` searches further.
settings.register_profile("house", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.register_profile("long", deadline=None, max_examples=10_000, print_blob=True)
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="write the golden files and run only their tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for marker, package in PACKAGE_OF_MARKER.items():
            if item.get_closest_marker(marker) and find_spec(package) is None:
                item.add_marker(pytest.mark.skip(reason=f"needs {package}"))
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
