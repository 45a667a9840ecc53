"""The examples in the README and in the docstrings run and print what they say; tests/docs has the pages."""

import doctest
import linecache
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def module_names() -> list[str]:
    paths = {path for folder in ("eqsat", "ir", "rules", "backends") for path in (ROOT / folder).rglob("*.py")}
    dotted = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths}
    names = {name if name.split(".")[0] == "eqsat" else f"eqsat.{name}" for name in dotted}
    return sorted(name for name in names if not name.endswith("__main__"))


@pytest.mark.parametrize("name", module_names())
def test_docstring_examples(name: str) -> None:
    linecache.clearcache()  # the debugger that a run makes looks at every file there for a change
    assert doctest.testmod(import_module(name), optionflags=OPTIONS).failed == 0


@pytest.mark.smoke
def test_readme_examples() -> None:
    result = doctest.testfile(str(ROOT / "README.md"), module_relative=False, optionflags=OPTIONS)
    assert result.attempted > 0
    assert result.failed == 0
