"""Verdicts on disk: a SQLite table keyed by the normalised question, the prover's own source and the solver versions.

The cache can only save time. A database that is missing, corrupt, locked, read-only or garbled is a miss; a stored
witness is evaluated again before it is believed. `EQSAT_CACHE` names another directory, or `off`.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from eqsat.prove_points import Answer

TIMEOUT = 0.2
_CREATE = "CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, answer TEXT NOT NULL, mark TEXT NOT NULL)"


@dataclass(frozen=True)
class CacheInfo:
    """Where verdicts are kept, how many, and how many bytes; `path` is None where caching is off."""

    path: Path | None
    entries: int
    size: int


def cache_directory() -> Path | None:
    """The directory of eqsat's caches: EQSAT_CACHE, else below the XDG cache directory; None for `off`."""
    named = os.environ.get("EQSAT_CACHE", "")
    if named.lower() == "off":
        return None
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "eqsat"


def cache_file() -> Path | None:
    """The database of verdicts, or None where caching is off."""
    directory = cache_directory()
    return None if directory is None else directory / "verdicts.sqlite3"


@cache
def prover_digest() -> str:
    """A digest of what a verdict depends on beside the question: the prover's source and the solvers' versions."""
    here = Path(__file__).parent
    state = hashlib.blake2b(digest_size=16)
    sources = [*here.glob("prove*.py"), *(here / "ir" / f"{n}.py" for n in ("term", "evaluate", "dtypes", "walk"))]
    for source in sorted(sources):
        state.update(source.name.encode() + source.read_bytes())
    for package in ("z3-solver", "islpy", "numpy"):
        try:
            state.update(f"{package} {version(package)}".encode())
        except PackageNotFoundError:
            state.update(f"{package} missing".encode())
    return state.hexdigest()


def cache_key(parts: Iterable[str]) -> str:
    """The key of a question given by the texts that identify it.

    >>> cache_key(["i < 4"]) == cache_key(["i < 4"]), cache_key(["i < 4"]) == cache_key(["i < 5"])
    (True, False)
    """
    text = json.dumps([prover_digest(), *parts])
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=TIMEOUT, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    return connection


def _mark(key: str, answer: str) -> str:
    return hashlib.blake2b(f"{key} {answer}".encode(), digest_size=12).hexdigest()


def _decode(text: str) -> Answer | None:
    data: Any = json.loads(text)
    verdict, method, witness, second, note = data
    if verdict not in ("proved", "refuted", "unknown"):
        return None
    points = [None if p is None else tuple(p) for p in (witness, second)]
    return Answer(verdict, method, points[0], points[1], note)


def cache_get(key: str) -> Answer | None:
    """The stored answer, or None: whatever is wrong with the database is a miss."""
    path = cache_file()
    if path is None or not path.is_file():
        return None
    try:
        with closing(_connect(path)) as connection:
            row = connection.execute("SELECT answer, mark FROM verdicts WHERE key = ?", (key,)).fetchone()
        if row is None or row[1] != _mark(key, row[0]):
            return None
        return _decode(row[0])
    except (sqlite3.Error, OSError, ValueError, TypeError):
        return None


def cache_put(key: str, answer: Answer) -> bool:
    """Store an answer; False where the database cannot take it (a corrupt one is replaced)."""
    path = cache_file()
    if path is None:
        return False
    points: Sequence[Any] = [None if p is None else list(p) for p in (answer.witness, answer.second)]
    text = json.dumps([answer.verdict, answer.method, *points, answer.note])
    for _ in range(2):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with closing(_connect(path)) as connection:
                connection.execute(_CREATE)
                row = (key, text, _mark(key, text))
                connection.execute("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?)", row)
            return True
        except sqlite3.OperationalError:
            return False  # locked, read-only or a full disk
        except sqlite3.DatabaseError:
            if not _remove(path):
                return False
        except OSError:
            return False
    return False


def _remove(path: Path) -> bool:
    try:
        for suffix in ("", "-journal", "-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
    except OSError:
        return False
    return True


def cache_info() -> CacheInfo:
    """What the verdict cache holds."""
    path = cache_file()
    if path is None or not path.is_file():
        return CacheInfo(path, 0, 0)
    try:
        with closing(_connect(path)) as connection:
            entries = int(connection.execute("SELECT count(*) FROM verdicts").fetchone()[0])
        return CacheInfo(path, entries, path.stat().st_size)
    except (sqlite3.Error, OSError):
        return CacheInfo(path, 0, 0)


def cache_clear() -> None:
    """Forget all verdicts."""
    path = cache_file()
    if path is not None:
        _remove(path)
