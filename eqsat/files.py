"""Files that users ask for: whole or not at all, with the mode that they expect, through links.

A file is made in a folder of its own beside the target and moved into its place. A new one has the mode that the umask
leaves, as if it had been opened and written; an existing one keeps its mode, and its owner where that is possible. A
link stays, and what it leads to is written. Where all may write a folder, as in /tmp, a link that somebody else put
there is refused.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from eqsat.backends.drafts import draft
from eqsat.backends.private import LINKS, has_owners
from eqsat.ir.errors import EqsatError

DRAFTS = ".eqsat-"
"""How the names of the folders begin in which files are made."""


def text_of(path: Path) -> str:
    """What a text file says, without the mark of UTF-8 that some editors begin it with; EqsatError where it cannot be
    read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise EqsatError(f"file {str(path)!r}", f"cannot be read: {reason}") from error


def target_of(path: str | os.PathLike[str]) -> Path:
    """The file that a path means, links followed, where it can be written; nothing is written yet.

    Errors: OSError whose text says why not.
    """
    file = Path(path).absolute()
    for _ in range(LINKS):
        try:
            facts = os.lstat(file)
        except (FileNotFoundError, NotADirectoryError):
            facts = None
            break
        if not stat.S_ISLNK(facts.st_mode):
            break
        _check_link(file, facts)
        file = file.parent / os.readlink(file)
    else:
        raise OSError(errno.ELOOP, "leads through too many links")
    if facts is not None and not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "exists and is not a plain file")
    if not file.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {str(file.parent)!r}")
    if facts is not None and not os.access(file, os.W_OK):
        raise PermissionError(errno.EACCES, "exists and is write-protected")
    return file.parent.resolve() / file.name


def _check_link(link: Path, facts: os.stat_result) -> None:
    """Refuse a link of another user in a folder that all may write: it may lead to a file of ours."""
    if not has_owners():
        return
    folder = os.stat(link.parent)
    if folder.st_mode & stat.S_IWOTH and facts.st_uid not in (os.geteuid(), folder.st_uid):
        raise PermissionError(errno.EACCES, f"{link} is a link that another user put there")


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Generator[Path]:
    """A path to write to; the file appears complete when the block ends, or not at all.

    Other files that the block makes in the same folder come along and appear first.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(os.path.join(folder, "notes.txt")) as made:
    ...         _ = made.write_text("all of it")
    ...     print(os.listdir(folder))
    ['notes.txt']
    """
    target = target_of(path)
    with draft(target.parent, DRAFTS) as folder:
        made = folder / "files" / target.name
        made.parent.mkdir()
        # Libraries choose modes of their own; what the umask leaves shows at a file.
        os.close(os.open(folder / "new", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        new = stat.S_IMODE(os.lstat(folder / "new").st_mode)
        yield made
        for file in (*sorted(p for p in made.parent.iterdir() if p != made), made):
            _like(file, target.parent / file.name, new)
            os.replace(file, target.parent / file.name)


def _like(made: Path, target: Path, usual: int) -> None:
    """Give a new file the owner and the mode of the one that it replaces, or the usual mode."""
    old = None
    with suppress(FileNotFoundError):
        old = os.lstat(target)
    if old is None or not stat.S_ISREG(old.st_mode):
        os.chmod(made, usual)
        return
    mode, new = stat.S_IMODE(old.st_mode) & 0o777, os.lstat(made)
    if has_owners() and (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        with suppress(OSError):
            os.chown(made, old.st_uid, -1)
        try:
            os.chown(made, -1, old.st_gid)
        except OSError:
            # It belongs to another group now, which gets no more than everybody has.
            mode &= ~stat.S_IRWXG | (mode & stat.S_IRWXO) << 3
    os.chmod(made, mode)


def write_whole(path: str | os.PathLike[str], data: str | bytes) -> None:
    """Write a file whole or not at all; text as UTF-8. Errors: OSError."""
    with whole_file(path) as made:
        made.write_bytes(data.encode() if isinstance(data, str) else data)


def copy_whole(source: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Copy a file whole or not at all; nothing is done where both are one. Errors: OSError."""
    with suppress(OSError):
        if os.path.samefile(source, path):
            return
    with whole_file(path) as made:
        shutil.copyfile(source, made)
