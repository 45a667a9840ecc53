"""The laws and rules of a user's module, for commands."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Iterator

from eqsat.ir.errors import EqsatError
from eqsat.ir.law import Law, Laws
from eqsat.ir.rule import Family, Rule


def rules_of(name: str) -> tuple[Law | Rule, ...]:
    """The laws and rules that a module declares, proved or not, in order. Modules of the working directory are found.

    Errors: EqsatError for a module that is not found, fails, or declares none.
    """
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        module = importlib.import_module(name)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == name
        problem = "is not found" if missing else f"cannot be imported: {type(error).__name__}: {error}"
        raise EqsatError(f"--rules {name}", problem, "give the name of a Python module, such as my.rules") from error
    finally:
        sys.path.remove(here)
    found = tuple(dict.fromkeys(_declared(vars(module).values())))
    if not found:
        raise EqsatError(f"--rules {name}", "declares no law or rule", "use eq.law or eq.rule")
    return found


def _declared(values: Iterable[object]) -> Iterator[Law | Rule]:
    """Laws and rules by themselves, and those of families."""
    for value in list(values):
        if isinstance(value, (Law, Rule)):
            yield value
        elif isinstance(value, (Laws, Family)):
            yield from value
