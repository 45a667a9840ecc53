"""The laws and rules of a user's module, for commands."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

from eqsat.ir.errors import EqsatError
from eqsat.rulebook.packages import FIX, NOTHING, Given, declared, origins, rules_of_package


def rules_of(name: str) -> tuple[Given, ...]:
    """The laws and rules that a module declares, proved or not, and its signatures and pad values, in order. Modules of
    the working directory are found, and after modules the names under which installed packages have any.

    Errors: EqsatError for a module that is not found, fails, or declares none.
    """
    if not exists(name) and any(origin.name == name for origin in origins()):
        return rules_of_package(name)
    try:
        with _here():
            module = importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module that ends the process is no reason to say that all is well
        missing = isinstance(error, ModuleNotFoundError) and error.name == name
        problem = "is not found" if missing else f"cannot be imported: {type(error).__name__}: {error}"
        fix = "give the name of a Python module, such as my.rules" if missing else "EQSAT_DEBUG=1 shows where"
        raise EqsatError(f"--rules {name}", problem, fix) from error
    found = tuple(dict.fromkeys(declared(vars(module).values())))
    if not found:
        raise EqsatError(f"--rules {name}", NOTHING, FIX)
    return found


def exists(name: str) -> bool:
    """Whether there is a module of this name; one whose package fails is there, and fails when it is imported."""
    if not all(part.isidentifier() for part in name.split(".")):
        return False
    try:
        with _here():
            return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        return not name.startswith(str(error.name))
    except Exception:
        return True


@contextmanager
def _here() -> Generator[None]:
    """Modules of the working directory are found in this block."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
