"""Files kept between runs: where they lie, and reading and writing them where nobody else can.

What is kept is run and believed later, so all of it goes through here: a folder or a file that somebody else can write
is not used, a new one is for us alone. A cache that cannot be used costs time, nothing else.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eqsat.backends.drafts import LOCK, abandoned, draft, locked
from eqsat.backends.private import NotPrivate, is_full, private_folder, read_private, write_private
from eqsat.ir.errors import EqsatError

DRAFTS = "build-"
"""How the names of folders begin in which files are made."""

KINDS = {
    "objects": r"[0-9a-f]+\.(so|sum)",
    "programs": r"[0-9a-f]+\.json",
    "tuned": r"(cl-)?[0-9a-f]+\.json",
    "opencl": r"[0-9a-f]+\.(bin|json)",
    "machines": r"[0-9a-f]+\.json",
    "reports": r"[\w.-]+",
}
"""The folders, and the names of the files that each holds."""


class CacheWarning(UserWarning):
    """The cache is not used; the text says why and what to do about it."""


_said: set[str] = set()


def cache_directory() -> Path | None:
    """Where it lies: $EQSAT_CACHE, else $XDG_CACHE_HOME/eqsat, else ~/.cache/eqsat; None: off, or there is no home."""
    chosen = os.environ.get("EQSAT_CACHE")
    if chosen:
        return None if chosen.lower() == "off" else Path(os.path.expanduser(chosen))
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser(os.path.join("~", ".cache"))
    return None if base.startswith("~") else Path(base) / "eqsat"


def _explained(error: OSError) -> str:
    return f"{error.problem} ({error.fix})" if isinstance(error, NotPrivate) else error.strerror or str(error)


def warn(what: str, error: OSError) -> None:
    """Say once why something is not used: where others can write it, or where the user named it."""
    if not isinstance(error, NotPrivate) and not os.environ.get("EQSAT_CACHE"):
        return
    text = f"{what} is not used: {_explained(error)}"
    if text not in _said:
        _said.add(text)
        warnings.warn(text, CacheWarning, stacklevel=2)


def leave_warnings_to_parent() -> None:
    """Say nothing in this process: the one that started it has looked at the cache before and said it."""
    warnings.simplefilter("ignore", CacheWarning)


def _private(base: Path, kind: str, create: bool = False) -> tuple[Path, OSError | None]:
    """The folder of a kind; or the folder that cannot be used, and why. The cache itself must be ours alone as well."""
    try:
        return private_folder(base, kind, create), None
    except OSError as error:
        try:
            private_folder(base)
        except OSError:
            return base, error
        return base / kind, error


def folder(kind: str = "", create: bool = False) -> Path | None:
    """The folder of a kind of files (or the whole cache), its name free of links, where nobody else can write it.

    None where caching is off, where there is none (and none is to be made), and where it cannot be used; a CacheWarning
    says why, once.
    """
    base = cache_directory()
    if base is None:
        return None
    found, error = _private(base, kind, create)
    if error is None:
        return found
    warn_unused(base if is_full(error) else found, error)
    return None


def warn_unused(where: Path, error: OSError) -> None:
    """Say once why a folder of the cache is not used; that there is none, or none any more, is nothing to say."""
    if not isinstance(error, FileNotFoundError):
        warn(f"the cache {where}", error)


def warn_unwritable(error: OSError) -> None:
    """Say once that nothing more can be kept in the cache."""
    base = cache_directory()
    if base is not None:
        warn_unused(base, error)


def problem(kind: str = "") -> str | None:
    """Why a folder is not used, and what to do about it; None where it is, or would be once there is something."""
    base = cache_directory()
    error = None if base is None else _private(base, kind)[1]
    return None if error is None or isinstance(error, FileNotFoundError) else _explained(error)


def read(file: Path) -> bytes | None:
    """What a file in a folder of the cache holds; None where it is missing, or not ours alone."""
    try:
        return read_private(file)
    except NotPrivate as error:
        warn(f"{file} of the cache", error)
    except OSError:
        pass
    return None


def held(kind: str, name: str) -> bytes | None:
    """What a file of the cache holds; None where there is none."""
    where = folder(kind)
    return None if where is None else read(where / name)


def answer(kind: str, name: str, field: str) -> Any:
    """What a file of the cache, written as JSON, says under a name; None where there is none that does."""
    data = held(kind, name)
    try:
        return None if data is None else json.loads(data)[field]
    except (ValueError, KeyError, TypeError):
        return None


@contextmanager
def making(where: Path) -> Generator[Path]:
    """A folder in a folder of the cache, to make files in and move them out; it is gone when the block ends."""
    with draft(where, DRAFTS) as made:
        yield made


@contextmanager
def alone(kind: str, seconds: float) -> Generator[bool]:
    """Do something for a folder of the cache that no other process does meanwhile; whether that is so.

    False where there is no such folder, and where another process is still at it after so many seconds.
    """
    where = folder(kind, create=True)
    if where is None:
        yield False
        return
    with locked(where / LOCK, seconds) as held:
        yield held


def keep(kind: str, name: str, data: str | bytes) -> Path | None:
    """Write a file of the cache, whole or not at all, readable by us alone. None where that is not possible."""
    where = folder(kind, create=True)
    if where is None:
        return None
    try:
        with making(where) as made:
            write_private(made / name, data.encode() if isinstance(data, str) else data)
            os.replace(made / name, where / name)
            return where / name
    except OSError as error:
        warn_unwritable(error)
    return None


def private_file(name: str, text: str) -> Path | None:
    """Write a report to `reports` in the cache, readable by us alone; its path, or None where there is no cache.

    >>> private_file("../x", "")
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.EqsatError: report '../x': is not a plain name (letters, digits and . _ - only)
    """
    if not re.fullmatch(KINDS["reports"], name) or name.startswith("."):
        raise EqsatError(f"report {name!r}", "is not a plain name", "letters, digits and . _ - only")
    return keep("reports", name, text)


# -- what there is ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Holding:
    """What a folder of the cache holds: finished files, and those that killed processes left unfinished."""

    path: Path | None
    """The folder, as it is named; None where caching is off."""
    files: tuple[Path, ...] = ()
    unfinished: tuple[Path, ...] = ()
    problem: str | None = None
    """Why it is not used, with a way out; it counts as empty then."""


def holdings() -> dict[str, Holding]:
    """What there is, by kind."""
    return {kind: _holding(kind, names) for kind, names in KINDS.items()}


def _holding(kind: str, names: str) -> Holding:
    base = cache_directory()
    if base is None:
        return Holding(None)
    where, error = _private(base, kind)
    files: list[Path] = []
    if error is None:
        try:
            files = [p for p in where.iterdir() if re.fullmatch(names, p.name) and p.is_file() and not p.is_symlink()]
        except OSError as failed:
            error = failed
    if error is not None:
        return Holding(base / kind, problem=None if isinstance(error, FileNotFoundError) else _explained(error))
    return Holding(base / kind, tuple(sorted(files)), tuple(abandoned(where, DRAFTS, unmarked=True)))
