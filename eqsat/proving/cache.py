"""Verdicts on disk: a SQLite table keyed by the normalised question, the prover's own source and the solver versions.

The cache can only save time. A database that is missing, corrupt, locked, read-only or garbled is a miss, and so is one
that others could write; a stored witness is evaluated again before it is believed. `EQSAT_CACHE` names another
directory, or `off`.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from eqsat.backends import cache as files
from eqsat.backends.private import NotPrivate, open_private
from eqsat.ir.locks import fork_safe
from eqsat.proving.points import Answer

NAME = "verdicts.sqlite3"
SIDES = ("-journal", "-wal", "-shm")
"""What SQLite reads beside a database of that name, and believes."""
TIMEOUT = 0.1
_INSERT = "INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?)"
_CREATE = "CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, answer TEXT NOT NULL, mark TEXT NOT NULL)"
ROOMS = ("proving", "rewriting", "rulebook", "ir", "ir/terms", "ir/ranges", "ir/layouts", "rules")
"""Folders on whose modules a verdict depends."""


@dataclass(frozen=True)
class CacheInfo:
    """Where verdicts are kept, how many, and how many bytes; `path` is None where caching is off."""

    path: Path | None
    entries: int
    size: int


def cache_file() -> Path | None:
    """The database of verdicts, or None where caching is off."""
    directory = files.cache_directory()
    return None if directory is None else directory / NAME


@cache
def prover_digest() -> str:
    """A digest of what a verdict depends on beside the question: the prover, the language, the rules, the solvers."""
    here = Path(__file__).parent.parent
    state = hashlib.blake2b(digest_size=16)
    for room in ROOMS:
        for source in sorted((here / room).glob("*.py")):
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


class _Store:
    """The open database of this process, reopened where the file is not as it was left: removed, damaged, written."""

    def __init__(self) -> None:
        self.lock = fork_safe(threading.RLock())
        self.path: Path | None = None
        self.seen: tuple[int, ...] = ()
        self.connection: sqlite3.Connection | None = None

    def use(self, path: Path, create: bool) -> sqlite3.Connection | None:
        """The connection, or None where there is no database and none is to be created."""
        if self.connection is not None and (path != self.path or self.seen != _state(path)):
            self.close()
        if self.connection is None:
            file = _own(create)
            if file is None:
                return None
            self.path = path
            self.connection = sqlite3.connect(file, timeout=TIMEOUT, isolation_level=None, check_same_thread=False)
            # A row that a crash leaves half-written is a miss: each carries a checksum.
            self.connection.execute("PRAGMA synchronous = OFF")
            self.connection.execute("PRAGMA journal_mode = MEMORY")
            self.seen = _state(path)
        return self.connection

    def written(self) -> None:
        """Take note of the file as this process leaves it."""
        if self.path is not None:
            self.seen = _state(self.path)

    def close(self) -> None:
        if self.connection is not None:
            with suppress(sqlite3.Error):
                self.connection.close()
        self.connection, self.seen = None, ()


def _own(create: bool) -> Path | None:
    """The database, its name free of links, where it and all that SQLite reads with it are ours alone."""
    folder = files.folder(create=create)
    if folder is None:
        return None
    file = folder / NAME
    try:
        for side in SIDES:
            with suppress(FileNotFoundError):
                os.close(open_private(f"{file}{side}"))
        os.close(open_private(file, os.O_RDWR | os.O_CREAT if create else os.O_RDONLY))
    except FileNotFoundError:
        return None
    except NotPrivate as error:
        files.warn(f"{file} of the cache", error)
        if not create or not _remove(file):
            return None
        os.close(open_private(file, os.O_RDWR | os.O_CREAT))
    return file


def _state(path: Path) -> tuple[int, ...]:
    """What tells one state of a file from another, and this process from one that it was forked from."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return os.getpid(), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


_store = _Store()


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
    if path is None:
        return None
    with _store.lock:
        try:
            connection = _store.use(path, create=False)
            if connection is None:
                return None
            row = connection.execute("SELECT answer, mark FROM verdicts WHERE key = ?", (key,)).fetchone()
            return None if row is None or row[1] != _mark(key, row[0]) else _decode(row[0])
        except (sqlite3.Error, OSError, ValueError, TypeError):
            _store.close()
            return None


def cache_put(key: str, answer: Answer) -> bool:
    """Store an answer; False where the database cannot take it (a corrupt one is replaced)."""
    path = cache_file()
    if path is None:
        return False
    points: Sequence[Any] = [None if p is None else list(p) for p in (answer.witness, answer.second)]
    text = json.dumps([answer.verdict, answer.method, *points, answer.note])
    with _store.lock:
        for _ in range(2):
            try:
                connection = _store.use(path, create=True)
                if connection is None:
                    return False
                row = (key, text, _mark(key, text))
                try:
                    connection.execute(_INSERT, row)
                except sqlite3.OperationalError as error:
                    if "no such table" not in str(error):
                        raise
                    connection.execute(_CREATE)
                    connection.execute(_INSERT, row)
                _store.written()
                return True
            except sqlite3.OperationalError:
                _store.close()
                return False  # locked, read-only, of another shape, or a full disk
            except sqlite3.DatabaseError:
                _store.close()
                folder = files.folder()
                if folder is None or not _remove(folder / NAME):
                    return False
            except OSError:
                return False
    return False


def _remove(path: Path) -> bool:
    """Remove a database in a folder that is ours alone."""
    try:
        for suffix in ("", *SIDES):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
    except OSError:
        return False
    return True


def cache_info() -> CacheInfo:
    """What the verdict cache holds."""
    path = cache_file()
    if path is None:
        return CacheInfo(path, 0, 0)
    with _store.lock:
        try:
            connection = _store.use(path, create=False)
            if connection is None:
                return CacheInfo(path, 0, 0)
            entries = int(connection.execute("SELECT count(*) FROM verdicts").fetchone()[0])
            return CacheInfo(path, entries, path.stat().st_size)
        except (sqlite3.Error, OSError):
            _store.close()
            return CacheInfo(path, 0, 0)


def cache_clear() -> None:
    """Forget all verdicts."""
    folder = files.folder()
    with _store.lock:
        _store.close()
        if folder is not None:
            _remove(folder / NAME)
