"""Profiles as pictures, drawn by matplotlib where it is installed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from eqsat.ir.errors import EqsatError, MissingPackage
from eqsat.research.profile import Profile

MOST_BARS = 20


def plot(profile: Profile, path: str | Path) -> None:
    """Draw the rows of each entry by iteration, and the rows that each rule adds, into a PNG, SVG or PDF file.

    Errors: MissingPackage without matplotlib, EqsatError for a file that cannot be written.
    """
    try:
        figures: Any = import_module("matplotlib.figure")
    except ModuleNotFoundError as error:
        fix = "pip install eqsat[plot]"
        raise MissingPackage(f"plot {path}", "the package matplotlib is not installed", fix) from error
    figure = figures.Figure(figsize=(12, 5), layout="constrained")
    growth, bars = figure.subplots(1, 2)
    for name, rows in profile.growth.items():
        growth.plot(range(len(rows)), rows, label=name)
    growth.set(xlabel="iteration", ylabel="rows", title="rows of each entry")
    if len(profile.growth) <= 10:
        growth.legend(fontsize="x-small")
    most = [r for r in profile.rules if r.rows][:MOST_BARS]
    bars.barh([r.name for r in reversed(most)], [r.rows for r in reversed(most)])
    bars.set(xlabel="rows with the rule, less without it", title="rows by rule")
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise EqsatError(f"plot {path}", f"cannot be written: {error}", "name a .png, .svg or .pdf file") from error
