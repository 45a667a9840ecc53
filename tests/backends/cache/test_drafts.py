"""Folders of what is being made: which of them are abandoned, and which have another name."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from eqsat.backends.drafts import abandoned, draft, sweep


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="locks of POSIX")
def test_where_there_are_no_locks_age_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(file: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refused)
    with draft(tmp_path, "build-") as first, draft(tmp_path, "build-") as second:
        assert first.exists() and not abandoned(tmp_path, "build-")
        os.utime(first / ".lock", (0, 0))
        assert abandoned(tmp_path, "build-") == [first]
        sweep(tmp_path, "build-")
        assert not first.exists() and second.exists()
    assert not list(tmp_path.iterdir())


def test_what_has_another_name_is_no_draft(tmp_path: Path) -> None:
    mine = [tmp_path / name for name in ("eqsat-notes", "eqsat-", "eqsat-0123456789ab", "eqsat-abcdefabcdef")]
    for path in mine:
        path.mkdir()
    (mine[2] / "thesis").touch()
    mine[3].rmdir()
    mine[3].symlink_to(mine[0])
    with draft(tmp_path, "eqsat-"):
        pass
    assert sorted(tmp_path.iterdir()) == sorted(mine)
