"""The package list in pyproject.toml and the links in eqsat/ match the tree."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import eqsat

pytestmark = pytest.mark.smoke

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("ir", "rules", "backends")
OURS = ("test", "lint", "docs")
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


IMPORTED_AS = {"z3-solver": "z3", "dask": "distributed"}
NOT_IMPORTED: dict[str, str] = {
    "ipykernel": "runs notebooks",
}


@pytest.fixture(scope="module")
def modules() -> dict[Path, tuple[str, ast.Module]]:
    """The text and the tree of each module of the product."""
    paths = (path for folder in ("eqsat", *PARTS) for path in (ROOT / folder).rglob("*.py"))
    texts = {path: path.read_text() for path in paths}
    return {path: (text, ast.parse(text)) for path, text in texts.items()}


def packages_in(tree: ast.AST) -> tuple[set[str], set[str]]:
    """The packages that a module imports by statements, and the texts that may be names of packages."""
    imported: set[str] = set()
    texts: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.add(node.value.partition(".")[0])
    return imported, texts


def test_dependencies_are_used_and_all_there(modules: dict[Path, tuple[str, ast.Module]]) -> None:
    """What is installed for users is imported by the product, and the other way round; exceptions say why."""
    extras: dict[str, list[str]] = PYPROJECT["project"]["optional-dependencies"]
    wanted = [*PYPROJECT["project"]["dependencies"], *(x for k, v in extras.items() if k not in OURS for x in v)]
    names = {re.split(r"[^\w-]", text)[0] for text in wanted}
    imported: set[str] = set()
    texts: set[str] = set()
    for _, tree in modules.values():
        found = packages_in(tree)
        imported |= found[0]
        texts |= found[1]
    assert {n for n in names if IMPORTED_AS.get(n, n) not in imported | texts} == set(NOT_IMPORTED)
    assert imported - sys.stdlib_module_names - {"eqsat"} <= {IMPORTED_AS.get(n, n) for n in names}


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


MOST = 30
"""Modules in a folder, so that a newcomer sees them all at once."""


def test_no_room_is_crowded() -> None:
    folders = {
        path.parent for folder in ("eqsat", *PARTS, "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")
    }
    assert len(folders) > 40
    assert {str(f.relative_to(ROOT)) for f in folders if len(list(f.glob("*.py"))) > MOST} == set()


def test_tests_import_every_room() -> None:
    texts = [path.read_text() for path in (ROOT / "tests").rglob("*.py")]
    imported = {name for text in texts for name in re.findall(r"^ *(?:from|import) (eqsat[\w.]*)", text, re.MULTILINE)}
    rooms = set(SETUPTOOLS["packages"])
    assert {
        room for room in rooms if not any(name == room or name.startswith(f"{room}.") for name in imported)
    } == set()


def test_tests_lie_as_what_they_test() -> None:
    """Folders of tests of eqsat and ir are rooms of these."""
    for part in ("eqsat", "ir"):
        rooms = {path.name for path in (ROOT / "tests" / part).iterdir() if path.is_dir() and any(path.glob("*.py"))}
        assert len(rooms) > 5 and {room for room in rooms if not (ROOT / part / room).is_dir()} == set()


@pytest.mark.parametrize(("part", "upwards"), [("eqsat", False), ("ir", True), ("backends", False)])
def test_readmes_name_all_rooms_and_layers_are_in_their_order(part: str, upwards: bool) -> None:
    """The first column of a table of rooms follows the layers that the linter keeps."""
    contracts: list[dict[str, Any]] = PYPROJECT["tool"]["importlinter"]["contracts"]
    layers: list[str] = next(c["layers"] for c in contracts if c["id"] == f"{part}-rooms")
    place = {name: n for n, layer in enumerate(layers) for name in re.findall(r"\w+", layer)}
    rows = re.findall(r"^\| (`[^|]*) \|", (ROOT / part / "README.md").read_text(), re.MULTILINE)
    named = [re.findall(r"`(\w+)(?:/|\.py)`", row) for row in rows]
    folders = {path.parent.name for path in (ROOT / part).glob("*/__init__.py") if not path.parent.is_symlink()}
    assert folders <= {name for row in named for name in row}
    order = [max(place[name] for name in row) for row in named]
    if part != "backends":  # whose table is in the order of the way of a program
        assert order == sorted(order, reverse=upwards)


def test_no_room_has_the_name_of_a_public_function() -> None:
    rooms = {name.split(".")[1] for name in SETUPTOOLS["packages"] if name.count(".")}
    functions = {name for name in eqsat.__all__ if not isinstance(getattr(eqsat, name), ModuleType)}
    assert rooms & functions == set()


ALL = """
import os, pkgutil, sys
from importlib import import_module
import eqsat
for found in pkgutil.walk_packages(eqsat.__path__, "eqsat."):
    if not found.name.endswith("__main__"):
        import_module(found.name)
places = {}
for name, module in sys.modules.items():
    file = getattr(module, "__file__", None)
    if name.partition(".")[0] == "eqsat" and file:
        places.setdefault(os.path.realpath(file), []).append(name)
print(len(places), [names for names in places.values() if len(names) > 1])
"""


def test_every_module_is_imported_by_one_name() -> None:
    done = subprocess.run([sys.executable, "-c", ALL], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    count, twice = done.stdout.strip().split(" ", 1)
    assert int(count) > 300 and twice == "[]"


LINES, LONG, PARAMETERS = 460, 60, 8
"""Of a module without its docstrings, of a function, and of what a function is given."""
PUBLIC = {"conv2d", "optimize", "schedule", "std", "var"}
"""Functions and commands of the public contract, and functions of numpy's, with more parameters."""


def documentation(tree: ast.AST) -> int:
    """The lines of docstrings."""
    texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)]
    return sum((x.end_lineno or 0) - x.lineno + 1 for x in texts)


def test_modules_and_functions_are_short(modules: dict[Path, tuple[str, ast.Module]]) -> None:
    wide: set[str] = set()
    for path, (text, tree) in modules.items():
        assert text.count("\n") - documentation(tree) <= LINES, f"{path} has more than {LINES} lines"
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < LONG, f"{node.name} in {path} has more than {LONG} lines"
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                if len([a for a in given if a.arg not in ("self", "cls")]) > PARAMETERS:
                    wide.add(node.name)
    assert wide == PUBLIC
