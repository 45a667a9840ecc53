"""The package list in pyproject.toml and the links in eqsat/ match the tree."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

import eqsat

pytestmark = pytest.mark.smoke

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("ir", "rules", "backends")
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS: dict[str, Any] = PYPROJECT["tool"]["setuptools"]


def test_version_is_said_once_more_and_alike() -> None:
    assert eqsat.__version__ == PYPROJECT["project"]["version"]


def test_package_list_is_complete() -> None:
    found = {"eqsat"}
    for init in (ROOT / "eqsat").rglob("__init__.py"):  # does not follow the links
        found.add(".".join(init.parent.relative_to(ROOT).parts))
    for part in PARTS:
        for init in (ROOT / part).rglob("__init__.py"):
            found.add(".".join(("eqsat", *init.parent.relative_to(ROOT).parts)))
    assert found == set(SETUPTOOLS["packages"])


def test_every_module_is_in_a_package() -> None:
    packages = {ROOT / folder for folder in ("eqsat", *PARTS)}
    packages |= {init.parent for folder in packages for init in folder.rglob("__init__.py")}
    modules = {path for folder in ("eqsat", *PARTS) for path in (ROOT / folder).rglob("*.py")}
    assert {path for path in modules if path.parent not in packages} == set()


@pytest.mark.parametrize("part", PARTS)
def test_folder_link_and_build_map_agree(part: str) -> None:
    link = ROOT / "eqsat" / part
    assert link.is_symlink(), f"eqsat/{part} must be a relative link to ../{part}"
    assert link.readlink() == Path("..", part)
    assert link.resolve() == ROOT / part
    assert SETUPTOOLS["package-dir"][f"eqsat.{part}"] == part


@pytest.mark.parametrize("part", PARTS)
def test_types_are_checked_behind_the_link(part: str) -> None:
    assert f"eqsat/{part}" in PYPROJECT["tool"]["pyright"]["include"]


@pytest.mark.parametrize("part", ("eqsat", *PARTS))
def test_package_is_typed(part: str) -> None:
    assert (ROOT / part / "py.typed").is_file()
