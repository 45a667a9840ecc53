"""What `eqsat` shows: public names only, and all of them can be had in the environment that the README builds."""

import inspect
import subprocess
import sys
from typing import Any

import pytest
from seeds import each_value

import eqsat as eq

pytestmark = pytest.mark.smoke

WITHOUT = "import sys; sys.modules['hypothesis'] = None\n"


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)


USES = {
    "import *": "from eqsat import *; print(optimize.__name__)",
    "getattr": "import eqsat; [getattr(eqsat, name) for name in dir(eqsat)]; print('done')",
    "inspect": "import eqsat, inspect; print(len(inspect.getmembers(eqsat)) > 50)",
    "pydoc": "import pydoc; text = pydoc.render_doc('eqsat'); print('optimize(' in text)",
    "help of a name": "import pydoc; print('optimize' in pydoc.render_doc('eqsat.optimize'))",
    "completion": "import rlcompleter, eqsat; print(rlcompleter.Completer({'eqsat': eqsat}).complete('eqsat.opt', 0))",
}


@each_value(use=USES, prefix=[WITHOUT, ""])
def test_names_can_be_had(prefix: str, use: str) -> None:
    done = run(prefix + USES[use])
    assert done.returncode == 0 and done.stdout.strip() not in ("", "False"), done.stderr


def test_only_public_names_are_shown() -> None:
    shown = dir(eq)
    assert shown == sorted({*eq.__all__, "testing"})
    assert not [name for name in shown if name.startswith("_")]
    assert not {"Any", "ModuleType", "TYPE_CHECKING", "import_module", "sys", "Decider"} & set(shown)
    assert run(WITHOUT + "import eqsat; assert 'testing' not in dir(eqsat)").returncode == 0


def described(name: str) -> list[tuple[str, object, bool]]:
    """A public name and, of a class, its methods and properties: each with its object, and whether one calls it."""
    value: Any = getattr(eq, name)
    if not inspect.isclass(value):
        return [(name, value, callable(value))]
    found: list[tuple[str, object, bool]] = [(name, value, True)]
    for part, member in vars(value).items():
        inner: Any = getattr(member, "__func__", member)  # of class methods and static methods
        if not part.startswith("_") and (inspect.isfunction(inner) or isinstance(inner, property)):
            found.append((f"{name}.{part}", inner, inspect.isfunction(inner)))
    return found


@pytest.mark.parametrize("name", sorted(eq.__all__))
def test_what_can_be_called_has_an_example(name: str) -> None:
    """Examples run with the other docstrings, in test_docs.py; attributes need a line that says what they are."""
    for label, value, is_called in described(name):
        text = inspect.getdoc(value) or ""
        assert text, f"{label} is not described"
        assert ">>>" in text or not is_called, f"{label} has no example"


@pytest.mark.parametrize("code", ["import eqsat; eqsat.testing", "import eqsat.testing", "from eqsat import testing"])
def test_testing_says_what_brings_its_package(code: str) -> None:
    last = run(WITHOUT + code).stderr.strip().splitlines()[-1]
    assert last.startswith("eqsat.ir.errors.MissingPackage: ") and last.endswith("(pip install eqsat[testing])")


def test_the_extra_is_there() -> None:
    import tomllib
    from pathlib import Path

    extras = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert extras["testing"] == ["hypothesis"]
    assert any("testing" in line for line in extras["test"])
