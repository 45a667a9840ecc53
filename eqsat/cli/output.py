"""What commands write: text or JSON on stdout, progress on stderr, files that appear whole or not at all."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from eqsat import interrupt
from eqsat.backends.drafts import draft
from eqsat.files import DRAFTS, target_of, write_whole
from eqsat.ir.errors import EqsatError


@dataclass(frozen=True)
class Output:
    """Where the answer of a command goes: to readers as text, or to programs as JSON."""

    json: bool = False

    def answer(self, data: Mapping[str, Any], text: str) -> None:
        """Print the answer once and whole, in the form that was asked for: Ctrl-C comes too late once it has begun."""
        written = json.dumps(plain(data), indent=1) if self.json else shown(text)
        interrupt.answered()
        print(written, flush=True)

    @contextmanager
    def progress(self, what: str) -> Generator[Callable[[str], None]]:
        """Show on stderr, where that is a terminal, that work goes on, and for how long; the block may say more."""
        if not sys.stderr.isatty():
            yield _unseen
            return
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(shown(what), total=None)
            yield lambda text: progress.update(task, description=shown(text))


def _unseen(text: str) -> None:
    """Progress that nobody looks at."""


def plain(value: Any) -> Any:
    """Data that JSON has: numbers that it lacks become text, everything else its own text.

    >>> plain({"worst": float("inf"), "shape": (1, 2)})
    {'worst': 'inf', 'shape': [1, 2]}
    """
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in cast("Sequence[Any]", value)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def shown(text: str) -> str:
    """Text for a terminal: names that come from files cannot send it control characters.

    >>> print(shown("a" + chr(27) + "[2Jb"))
    a\\x1b[2Jb
    """
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def count(number: int) -> str:
    """A number with its thousands apart: 8,086,528."""
    return f"{number:,}"


# -- files ------------------------------------------------------------------------------------------------------------


def writable(path: Path | None) -> Path | None:
    """The file that a path means, after making sure, before any work is done, that it can be written.

    Links are followed. Errors: EqsatError where the folder is missing or cannot be written, or something that is not a
    plain file has that name.
    """
    if path is None:
        return None
    try:
        file = target_of(path)
        with draft(file.parent, DRAFTS) as folder:
            (folder / file.name).touch()
    except (OSError, ValueError) as error:
        raise _unwritable(path, error, "choose another name or folder") from error
    return file


def _unwritable(path: Path, error: Exception, fix: str = "") -> EqsatError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return EqsatError(f"output {str(path)!r}", f"cannot be written: {reason}", fix)


def write_file(path: Path, data: str | bytes) -> None:
    """Write a file whole or not at all."""
    try:
        write_whole(path, data)
    except OSError as error:
        raise _unwritable(path, error) from error
