"""The strategies of hypothesis, as `st`, or the error that says what brings them."""

from __future__ import annotations

from eqsat.ir.errors import MissingPackage

try:
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st
except ModuleNotFoundError as error:
    if error.name != "hypothesis":
        raise
    problem, fix = "the package hypothesis is not installed", "pip install eqsat[testing]"
    raise MissingPackage("eqsat.testing", problem, fix) from error

__all__ = ["HealthCheck", "given", "settings", "st"]
