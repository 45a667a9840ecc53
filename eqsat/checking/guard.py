"""A result only if it is right: what fails while a result is made gives the input back, with a note and a report."""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from eqsat.backends.cache import cache_directory
from eqsat.checking.verdict import Checked, CheckFailure, Difference
from eqsat.ir.errors import MissingPackage

LEAST_SECONDS, SHARE = 0.1, 0.1
REPORTS = "reports"


def budget(begun: float) -> float:
    """The seconds that checking may take: a tenth of the run so far, at least a tenth of a second."""
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
    folder = cache_directory()
    if folder is None:
        return " (no report is kept: the cache is off)"
    path = folder / REPORTS / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{time.monotonic_ns() % 10**6:06d}.json"
    try:
        private_file(path, json.dumps(content, indent=1, default=str))
    except OSError as error:
        return f" (no report could be kept: {error.strerror})"
    return f" (please report it, with {path})"


def private_file(path: Path, text: str) -> None:
    """A new file that only its owner can read, in a folder that only its owner can enter; whole or not at all."""
    folder = path.parent
    missing = [p for p in (folder, *folder.parents) if not p.exists()]
    for p in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(p, 0o700)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
