"""A result only if it is right: what fails while a result is made gives the input back, with a note and a report."""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eqsat.backends.cache import cache_directory, private_file
from eqsat.backends.cache import problem as reason
from eqsat.checking.verdict import Checked, CheckFailure, Difference
from eqsat.ir.errors import MissingPackage

LEAST_SECONDS, SHARE = 2.0, 0.1


def budget(begun: float) -> float:
    """The seconds that checking may take: a tenth of the run so far, and at least two, as a region may be large."""
    return max(LEAST_SECONDS, SHARE * (time.monotonic() - begun))


def debugging() -> bool:
    """Whether EQSAT_DEBUG asks to raise where the input would be given back."""
    return os.environ.get("EQSAT_DEBUG", "0") not in ("", "0")


def is_defect(error: BaseException) -> bool:
    """Whether an exception is a defect of ours, from which the input is given back.

    A panic of egglog is a BaseException, known by its name. An interrupt or exit is none, nor is a missing package.
    """
    if isinstance(error, MissingPackage):
        return False
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def failed(what: str, error: BaseException) -> str:
    """The note for an exception; under EQSAT_DEBUG, and for what is no defect, the exception itself."""
    if debugging() or not is_defect(error):
        raise error
    # Frames, not the message alone: a message may hold values of a constant, so only its first line is kept.
    frames = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__)]
    text = (str(error).strip().splitlines() or [""])[0][:300]
    problem = f"{type(error).__name__}: {text}".removesuffix(": ")
    return f"{what} is as it was: a defect of eqsat, {problem}{_kept({'problem': problem, 'frames': frames})}"


def differs(what: str, difference: Difference) -> str:
    """The note for a result that is not what it was made of; under EQSAT_DEBUG, CheckFailure."""
    problem = f"{difference.what}: {difference.problem}"
    if debugging():
        raise CheckFailure(f"check of {what}", problem, json.dumps(difference.region)[:4000])
    note = f"{what} is as it was: a defect of eqsat made a result that differs, {problem}"
    return note + _kept({"problem": problem, "region": difference.region})


def unchecked(checked: Checked) -> list[str]:
    """A note on what was not checked, if anything was not."""
    if checked.skipped:
        return [f"not checked: {checked.skipped}"]
    left = [r for r in checked if r.verdict == "neither"]
    if not left:
        return []
    return [f"{len(left)} of {len(checked)} changed regions were not checked: {left[0].reason}"]


def _kept(content: Mapping[str, Any]) -> str:
    """Write a report, and say where it is. It holds structure and shapes, no weights or data."""
    if cache_directory() is None:
        return " (no report is kept: the cache is off)"
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{time.monotonic_ns() % 10**6:06d}.json"
    path = private_file(name, json.dumps(content, indent=1, default=str))
    if path is None:
        return f" (no report could be kept: {reason('reports') or 'writing it failed'})"
    return f" (please report it, with {path})"
