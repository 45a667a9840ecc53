"""`import eqsat` is light, and imports between the folders go one way."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.smoke

ROOT = Path(__file__).resolve().parent.parent
HEAVY = {
    "egglog", "islpy", "onnx", "onnxruntime", "ortools", "pyopencl", "rich", "sympy", "typer", "z3",
}  # fmt: skip
PROBE = """
import sys, time
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
print(*{{name.partition(".")[0] for name in sys.modules}})
"""


def import_in_fresh_interpreter(module: str) -> tuple[float, set[str]]:
    """The seconds that importing `module` takes, and the top-level modules loaded afterwards."""
    code = PROBE.format(module=module)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, loaded = done.stdout.splitlines()
    return float(seconds), set(loaded.split())


def test_import_loads_nothing_heavy() -> None:
    assert import_in_fresh_interpreter("eqsat")[1] & HEAVY == set()
    assert import_in_fresh_interpreter("rich")[1] & HEAVY == {"rich"}, "the probe sees nothing"


def test_import_is_quick() -> None:
    """The aim is 0.3 s on an idle machine; the bound leaves room for a busy one."""
    import_in_fresh_interpreter("eqsat")
    best = min(import_in_fresh_interpreter("eqsat")[0] for _ in range(3))
    print(f"import eqsat: {best:.3f} s")
    assert best < 1.5


def lint_imports(tree: Path, *contracts: str) -> tuple[bool, str]:
    """Whether the import contracts of pyproject.toml, or some of them, hold in `tree`, and the linter's report."""
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", code, "--no-cache", "--config", str(ROOT / "pyproject.toml")]
    command += [argument for name in contracts for argument in ("--contract", name)]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    return done.returncode == 0, done.stdout + done.stderr


def test_imports_go_one_way() -> None:
    held, report = lint_imports(ROOT)
    assert held, report


ALLOWED = [
    ("ir/a.py", "import numpy"),
    ("ir/a.py", "import eqsat.ir.b"),
    ("rules/a.py", "from eqsat.ir.b import x"),
    ("rules/a.py", "from eqsat.rules import b"),
    ("backends/a.py", "import pyopencl; from eqsat.ir import b"),
    ("eqsat/a.py", "import egglog, eqsat.ir.b, eqsat.rules.b, eqsat.backends.b"),
]
FORBIDDEN = [
    ("ir/a.py", "import eqsat.backends"),
    ("ir/a.py", "from eqsat import rules"),
    ("ir/a.py", "def f(): import eqsat.b"),
    ("ir/a.py", "import eqsat"),
    ("ir/a.py", "import z3"),
    ("rules/a.py", "import eqsat.backends"),
    ("rules/a.py", "from eqsat.backends.b import x"),
    ("rules/a.py", "def f(): from eqsat.b import x"),
    ("rules/a.py", "from eqsat import optimize"),
    ("rules/a.py", "import egglog"),
    ("backends/a.py", "import eqsat.rules.b"),
    ("backends/a.py", "from eqsat import b"),
    ("backends/a.py", "import eqsat"),
]


@pytest.mark.parametrize(
    "lines",
    [ALLOWED, *([line] for line in FORBIDDEN)],
    ids=lambda lines: "allowed" if lines is ALLOWED else lines[0][1],
)
def test_lint_catches_what_it_should(lines: list[tuple[str, str]], tmp_path: Path) -> None:
    for part in ("ir", "rules", "backends"):
        (tmp_path / part).mkdir()
        (tmp_path / "eqsat").mkdir(exist_ok=True)
        (tmp_path / "eqsat" / part).symlink_to(Path("..", part))
    for part in ("eqsat", "ir", "rules", "backends"):
        (tmp_path / part / "__init__.py").touch()
        (tmp_path / part / "b.py").touch()
    for path, line in lines:
        with (tmp_path / path).open("a") as file:
            file.write(line + "\n")
    held, report = lint_imports(tmp_path, "ir", "rules", "backends", "root", "pure")
    assert held == (lines is ALLOWED), report


UPWARD = [
    ("eqsat-rooms", "eqsat/proving/points.py", "import eqsat.engine"),
    ("eqsat-rooms", "eqsat/checking/digits.py", "import eqsat.extraction.cost"),
    ("ir-rooms", "ir/terms/walk.py", "import eqsat.ir.tensors.tensor"),
    ("backends-rooms", "backends/schedules/choose.py", "import eqsat.backends.c.cc"),
    ("cycles", "eqsat/onnx/writer.py", "import eqsat.onnx.write"),
]


@pytest.mark.parametrize(("contract", "path", "line"), UPWARD)
def test_rooms_import_downwards(contract: str, path: str, line: str, tmp_path: Path) -> None:
    """One import upwards, inside of a function, breaks the contract."""
    for folder in ("eqsat", "ir", "rules", "backends"):
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / path).open("a") as file:
        file.write(f"\n\ndef late():\n    {line}\n")
    held, report = lint_imports(tmp_path, contract)
    assert not held and Path(path).stem in report, report
