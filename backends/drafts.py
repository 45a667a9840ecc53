"""Folders for files in the making: beside the target, ours alone, and removed by the next process if one is killed.

A draft holds a file that its process keeps locked; the system lets go of the lock when the process ends, in whatever
way. What carries the name of a draft and holds no such file was not made here, and is not removed.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from eqsat.backends.private import has_owners

NAME = "[0-9a-f]{12}"
"""The names of drafts, behind their prefix."""
LOCK = ".lock"
"""The file in a draft that its process keeps locked."""
PATIENCE = 3600.0
"""Seconds after which a draft counts as abandoned where the file system has no locks."""
TRIES = 8
"""How often a draft is made that other processes take for an abandoned one, before it goes without a lock."""


def _lock(file: int, wait: bool) -> bool | None:
    """Whether a file is locked by us now; None where that cannot be known."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextmanager
def locked(path: Path, seconds: float) -> Generator[bool]:
    """Hold a file of ours alone that no other process holds, in a folder that is ours alone; whether that was possible
    within so many seconds. The file stays."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError:
        yield False
        return
    try:
        end = time.monotonic() + seconds
        while not (held := _lock(file, wait=False)) and held is not None and time.monotonic() < end:
            time.sleep(0.02)
        yield bool(held)
    finally:
        os.close(file)


def _remove(folder: str | os.PathLike[str]) -> None:
    """A folder with all in it, as far as that goes."""
    import shutil  # where nothing is made, nothing needs it

    shutil.rmtree(folder, ignore_errors=True)


def _claimed(folder: str) -> int | None:
    """The lock of a new draft; None where another process took it for an abandoned one just now."""
    name = os.path.join(folder, LOCK)
    try:
        os.chmod(folder, 0o700)  # whatever the umask takes away
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileNotFoundError:
        return None
    try:
        os.chmod(name, 0o600)
        _lock(file, wait=True)
        if os.path.samestat(os.stat(name), os.fstat(file)):
            return file
    except FileNotFoundError:
        pass
    except BaseException:
        os.close(file)
        raise
    os.close(file)
    return None


def _new(where: str | os.PathLike[str], prefix: str, tries: int = TRIES) -> tuple[str, int | None]:
    """A new draft and its lock. After many disturbances it goes without: others may remove it then, and we fail."""
    folder = os.path.join(where, prefix + os.urandom(6).hex())
    os.mkdir(folder, 0o700)
    try:
        lock = _claimed(folder)
    except BaseException:
        _remove(folder)
        raise
    return (folder, lock) if lock is not None or tries <= 1 else _new(where, prefix, tries - 1)


@contextmanager
def draft(where: str | os.PathLike[str], prefix: str) -> Generator[Path]:
    """A new folder in another one, for us alone, which is gone with all in it when the block ends.

    Those that killed processes left behind there are removed on the way.
    """
    sweep(where, prefix)
    folder, lock = _new(where, prefix)
    try:
        yield Path(folder)
    finally:
        if lock is not None and not has_owners():
            os.close(lock)  # Windows removes no open file
            lock = None
        # The lock is held until the end: nobody else removes what we are about to use.
        _remove(folder)
        if lock is not None:
            os.close(lock)


def drafts(where: str | os.PathLike[str], prefix: str, name: str = NAME) -> list[Path]:
    """The drafts in a folder that are ours, in use or abandoned."""
    found: list[Path] = []
    rest = re.compile(name)
    with suppress(OSError), os.scandir(where) as entries:
        for entry in entries:
            if not (entry.name.startswith(prefix) and rest.fullmatch(entry.name, len(prefix))):
                continue
            with suppress(OSError):
                facts = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(facts.st_mode) and (not has_owners() or facts.st_uid == os.geteuid()):
                    found.append(Path(entry.path))
    return sorted(found)


def _held(folder: Path) -> int | None:
    """The file of a draft that its process locks; None where there is none."""
    try:
        file = os.open(folder / LOCK, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None


def _free(file: int) -> bool:
    """Whether the process of a draft is gone. Where that is so, the draft is locked by us now."""
    free = _lock(file, wait=False)
    return time.time() - os.fstat(file).st_mtime > PATIENCE if free is None else free


def abandoned(where: str | os.PathLike[str], prefix: str, unmarked: bool = False) -> list[Path]:
    """The drafts in a folder whose processes are gone; with `unmarked`, also what only is called like one."""
    found: list[Path] = []
    for folder in drafts(where, prefix, ".*" if unmarked else NAME):
        file = _held(folder)
        if unmarked if file is None else _free(file):
            found.append(folder)
        if file is not None:
            os.close(file)
    return found


def sweep(where: str | os.PathLike[str], prefix: str) -> None:
    """Remove the drafts in a folder whose processes are gone."""
    for folder in drafts(where, prefix):
        file = _held(folder)
        if file is None:
            # Its process is about to lock it, or was killed before it held anything; with other files it is no draft.
            with suppress(OSError):
                os.rmdir(folder)
            continue
        if _free(file):
            _remove(folder)
        os.close(file)
