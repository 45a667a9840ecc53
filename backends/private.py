"""Folders and files that nobody else can write: what is loaded, run or believed later must be ours alone.

A path is walked from the root, links included. Each folder on it must belong to us or to root, and be closed to others:
then nobody else can exchange the next one, and what was found here is what is opened a moment later. A folder that all
may write, such as /tmp, is fine on the way where it is sticky, so that nobody can move what belongs to others.

Windows knows neither user ids nor these modes; there every folder that can be opened is taken.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

LINKS = 40
"""The most links on a path: as many as Linux follows."""
OTHERS = stat.S_IWGRP | stat.S_IWOTH
"""The bits of a mode that let others write."""
ELSEWHERE = "name a folder of your own in EQSAT_CACHE"


class NotPrivate(OSError):
    """Somebody else can write a folder or a file; `problem` says how, `fix` what to do about it."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(errno.EPERM, problem)
        self.problem = problem
        self.fix = fix


def is_full(error: OSError) -> bool:
    """Whether there is no room for a file: on its device, in a quota, or under the limit of this process."""
    return error.errno in (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))


def has_owners() -> bool:
    """Whether files of this system belong to somebody."""
    return hasattr(os, "geteuid")


def _user(uid: int) -> str:
    try:
        import pwd

        return f"user {pwd.getpwuid(uid).pw_name} ({uid})"
    except (ImportError, KeyError):
        return f"user {uid}"


def _check(path: str, facts: os.stat_result, last: bool, owners: frozenset[int]) -> None:
    """Refuse a folder or link on the way (or, `last`, the folder itself) that others own or can write."""
    if facts.st_uid not in owners:
        raise NotPrivate(f"{path} belongs to {_user(facts.st_uid)}", ELSEWHERE)
    if stat.S_ISLNK(facts.st_mode):
        return
    if not stat.S_ISDIR(facts.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, f"{path} is not a folder")
    if facts.st_mode & OTHERS and (last or not facts.st_mode & stat.S_ISVTX):
        # What was put into our own folder while it was open would be believed later: a closed one must be a new one.
        fix = f"remove it, or {ELSEWHERE}" if last else f"chmod go-w {path}, or {ELSEWHERE}"
        raise NotPrivate(f"others can write {path} (mode {stat.S_IMODE(facts.st_mode):04o})", fix)


def _make(path: str) -> None:
    """A folder for us alone, whatever the umask takes away."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    if stat.S_IMODE(os.lstat(path).st_mode) & 0o700 != 0o700:
        os.chmod(path, 0o700)


def private_folder(path: str | os.PathLike[str], below: str = "", create: bool = False) -> Path:
    """The folder that a path leads to, its name free of links, once it is known that nobody else can write it.

    With `below`, the folder of that name in it. With `create`, missing folders are made for us alone.
    Errors: NotPrivate, FileNotFoundError, and whatever the system says.
    """
    if not has_owners():
        found = os.path.join(path, below)
        if create:
            os.makedirs(found, exist_ok=True)
        return Path(os.path.realpath(found, strict=True))
    ours, top = {0, os.geteuid()}, os.lstat(os.sep)
    # Whoever owns the root can exchange all below. In a container without a root of its own that is user "nobody".
    owners = frozenset(ours), frozenset({*ours, top.st_uid})
    _check(os.sep, top, False, owners[1])
    whole = os.fspath(path) if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    here = _walk(os.sep, whole, create, owners)
    return Path(_walk(here, below, create, owners) if below else here)


def _walk(here: str, path: str, create: bool, owners: tuple[frozenset[int], frozenset[int]]) -> str:
    """Where a path leads from a folder without links; `owners` may own its end, and the way there."""
    steps, links = path.split(os.sep)[::-1], 0
    while steps:
        step = steps.pop()
        if step in ("", "."):
            continue
        if step == "..":
            here = os.path.dirname(here)
            continue
        beyond = os.path.join(here, step)
        try:
            facts = os.lstat(beyond)
        except FileNotFoundError:
            if not create:
                raise
            _make(beyond)
            facts = os.lstat(beyond)
        link = stat.S_ISLNK(facts.st_mode)
        last = not (link or any(steps))
        _check(beyond, facts, last, owners[not last])
        if not link:
            here = beyond
            continue
        links += 1
        if links > LINKS:
            raise OSError(errno.ELOOP, f"{beyond} leads through too many links")
        goal = os.readlink(beyond)
        here = os.sep if os.path.isabs(goal) else here
        steps += goal.split(os.sep)[::-1]
    _check(here, os.lstat(here), True, owners[0])
    return here


def open_private(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
    """The descriptor of a plain file that only we (or root) can write; a link is not followed. A new one is
    for us alone, whatever the umask is.

    Errors: NotPrivate, and OSError for whatever else is wrong.
    """
    # A FIFO without a writer must not hold us up.
    extra = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
    file = os.open(path, flags | extra, 0o600)
    try:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, f"{os.fspath(path)} is not a plain file")
        if has_owners():
            if facts.st_uid not in (0, os.geteuid()):
                raise NotPrivate(f"{os.fspath(path)} belongs to {_user(facts.st_uid)}", "remove it")
            if facts.st_mode & OTHERS:
                mode = stat.S_IMODE(facts.st_mode)
                raise NotPrivate(f"others can write {os.fspath(path)} (mode {mode:04o})", "remove it")
            if flags & os.O_CREAT and not facts.st_size:
                os.fchmod(file, 0o600)
    except BaseException:
        os.close(file)
        raise
    return file


def read_private(path: str | os.PathLike[str]) -> bytes:
    """What a file holds that only we can write."""
    with os.fdopen(open_private(path), "rb") as file:
        return file.read()


def write_private(path: str | os.PathLike[str], data: bytes) -> None:
    """A new file, readable by us alone."""
    with os.fdopen(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(data)
