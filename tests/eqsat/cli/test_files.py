"""Files that users ask for: whole or not at all, with the mode that the umask leaves, through links, by all writers."""

from __future__ import annotations

import errno
import io
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import eqsat as eq
import eqsat.onnx
from eqsat.cli import main
from eqsat.ir.errors import EqsatError
from eqsat.ir.tensors.run import evaluate_outputs

STRANGER = 54321
posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="modes and links of POSIX")
root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")


def program() -> eq.Tensor:
    return eq.input("x", (2, 3), "float32").permute_dims((1, 0))


def save(path: Path) -> None:
    eqsat.onnx.save(eq.Program([x := eq.input("x", (2, 3), "float32")], {"y": x.permute_dims((1, 0))}), path)


def report(path: Path) -> None:
    eq.optimize(program()).to_html(str(path))


def command(*args: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        if main([*args, str(path)]) != 0:
            raise EqsatError("the command failed")

    return write


WRITERS: dict[str, Callable[[Path], None]] = {
    "onnx.save": pytest.param(save, marks=pytest.mark.onnx),  # pyright: ignore[reportAssignmentType]
    "to_html": report,
    "kernel -o": command("kernel", "i, j -> j, i", "--shape", "3,5", "--target", "c", "-o"),
}
writers = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


@pytest.fixture
def masked() -> Any:
    """`masked(umask, call, ...)` calls with this umask."""

    def call(umask: int, function: Callable[..., None], *args: object) -> None:
        before = os.umask(umask)
        try:
            function(*args)
        finally:
            os.umask(before)

    return call


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@posix
@writers
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o027, 0o077])
def test_a_new_file_has_the_mode_that_the_umask_leaves(
    write: Callable[[Path], None], umask: int, masked: Any, tmp_path: Path
) -> None:
    masked(umask, write, tmp_path / "out")
    assert mode(tmp_path / "out") == 0o666 & ~umask
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@posix
@writers
@pytest.mark.parametrize("bits", [0o600, 0o640, 0o644, 0o666, 0o755])
def test_an_existing_file_keeps_its_mode(write: Callable[[Path], None], bits: int, masked: Any, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old")
    (tmp_path / "out").chmod(bits)
    masked(0o022, write, tmp_path / "out")
    assert mode(tmp_path / "out") == bits and (tmp_path / "out").read_bytes() != b"old"


@posix
@writers
@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("goal", ["far/out", "../{}/far/out", "second"])
def test_a_link_stays_and_what_it_leads_to_is_written(
    write: Callable[[Path], None], goal: str, there: bool, tmp_path: Path
) -> None:
    """Also through a second link, and where what it leads to is not there yet."""
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to(goal.format(tmp_path.name))
    (tmp_path / "second").symlink_to(tmp_path / "far" / "out")
    if there:
        (tmp_path / "far" / "out").write_text("old")
        (tmp_path / "far" / "out").chmod(0o600)
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "second").is_symlink()
    assert (tmp_path / "far" / "out").stat().st_size > 3 and not (tmp_path / "far" / "out").is_symlink()
    assert not there or mode(tmp_path / "far" / "out") == 0o600
    assert {p.name for p in tmp_path.rglob("*")} == {"far", "out", "link", "second"}


@root
@writers
def test_a_link_that_somebody_else_put_into_an_open_folder_is_refused(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    (tmp_path / "tmp" / "link").symlink_to(tmp_path / "mine")
    os.lchown(tmp_path / "tmp" / "link", STRANGER, STRANGER)
    with pytest.raises(EqsatError):
        write(tmp_path / "tmp" / "link")
    assert (tmp_path / "mine").read_text() == "mine"
    os.lchown(tmp_path / "tmp" / "link", 0, 0)
    write(tmp_path / "tmp" / "link")
    assert (tmp_path / "mine").read_bytes() != b"mine"


@root
@writers
def test_root_does_not_take_files_away(write: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old")
    (tmp_path / "out").chmod(0o640)
    os.chown(tmp_path / "out", STRANGER, STRANGER + 1)
    write(tmp_path / "out")
    facts = (tmp_path / "out").stat()
    assert (facts.st_uid, facts.st_gid, stat.S_IMODE(facts.st_mode)) == (STRANGER, STRANGER + 1, 0o640)


@posix
def test_another_group_gets_no_more_than_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from eqsat.files import write_whole

    def refused(path: object, uid: int, gid: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    (tmp_path / "out").write_text("old")
    (tmp_path / "out").chmod(0o664)
    if os.geteuid() == 0:
        os.chown(tmp_path / "out", 0, STRANGER)
        monkeypatch.setattr(os, "chown", refused)
        write_whole(tmp_path / "out", "new")
        assert (mode(tmp_path / "out"), (tmp_path / "out").read_text()) == (0o644, "new")


@posix
@writers
@pytest.mark.parametrize("what", ["folder", "fifo", "device", "loop"])
def test_what_is_no_plain_file_is_left_alone(write: Callable[[Path], None], what: str, tmp_path: Path) -> None:
    path = tmp_path / "out"
    if what == "folder":
        path.mkdir()
    elif what == "fifo":
        os.mkfifo(path)
    elif what == "loop":
        path.symlink_to(path)
    else:
        path.symlink_to(os.devnull)
    before = path.lstat()
    with pytest.raises(EqsatError):
        write(path)
    assert os.path.samestat(before, path.lstat()) and stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


class Full(io.FileIO):
    """A file on a disk that is full after a few bytes."""

    def write(self, data: Any) -> int:
        super().write(bytes(data)[:8])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@posix
@writers
@pytest.mark.parametrize("there", [True, False])
def test_a_full_disk_leaves_nothing_behind(
    write: Callable[[Path], None], there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if there:
        (tmp_path / "out").write_text("old")
    opened, fdopen = io.open, os.fdopen

    def full(path: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
        return Full(path, "wb") if str(tmp_path) in str(path) and "w" in mode else opened(path, mode, *rest, **more)

    def full_descriptor(file: int, mode: str = "r", *rest: Any, **more: Any) -> Any:
        inside = str(tmp_path) in os.readlink(f"/proc/self/fd/{file}") and "w" in mode
        return Full(file, "wb") if inside else fdopen(file, mode, *rest, **more)

    monkeypatch.setattr(io, "open", full)
    monkeypatch.setattr(os, "fdopen", full_descriptor)
    with pytest.raises(EqsatError):
        write(tmp_path / "out")
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == ["out"][:there]
    assert not there or (tmp_path / "out").read_text() == "old"


KILLED = """
import os, sys, time
from eqsat.files import whole_file
with whole_file(sys.argv[1]) as made:
    made.write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""


@posix
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """But not what a living one is about to write, nor what only has such a name."""
    (tmp_path / ".eqsat-mine").mkdir()
    (tmp_path / ".eqsat-mine" / "thesis").touch()
    processes = [
        subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / name)], stdout=subprocess.PIPE, text=True)
        for name in ("out", "other")
    ]
    try:
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "writing\n"
        assert len(list(tmp_path.iterdir())) == 3
        processes[0].send_signal(signal.SIGKILL)
        processes[0].wait(timeout=60)
        report(tmp_path / "out")
        left = {p.name for p in tmp_path.iterdir()}
        assert len(left) == 3 and {"out", ".eqsat-mine"} < left
    finally:
        for process in processes:
            process.kill()
            process.communicate(timeout=60)
    report(tmp_path / "out")
    assert {p.name for p in tmp_path.iterdir()} == {"out", ".eqsat-mine"}
    assert (tmp_path / ".eqsat-mine" / "thesis").exists()


MANY = """
import sys
from concurrent.futures import ThreadPoolExecutor
from eqsat.files import write_whole
def work(n):
    for k in range(60):
        write_whole(f"{sys.argv[1]}/{n % 2}", str(n) * 1000)
with ThreadPoolExecutor(4) as pool:
    list(pool.map(work, range(4)))
"""


def test_many_write_into_a_folder(tmp_path: Path) -> None:
    """None takes the draft of another, which was made a moment ago, for one that a killed process left."""
    processes = [subprocess.Popen([sys.executable, "-c", MANY, str(tmp_path)]) for _ in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0", "1"]
    for path in tmp_path.iterdir():
        text = path.read_text()
        assert text == text[0] * 1000 and int(text[0]) % 2 == int(path.name)


@pytest.mark.onnx
@posix
def test_constants_beside_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They lie beside what a link leads to, with a mode of their own; a link of that name is replaced, not followed."""
    import numpy as np

    monkeypatch.setattr(eqsat.onnx, "MAX_PROTO", 16)
    x = eq.input("x", (3, 200), "float32")
    numbers = np.arange(600, dtype="float32").reshape(3, 200)
    made = eq.Program([x], {"y": x + eq.constant(numbers, "float32")})
    (tmp_path / "far").mkdir()
    (tmp_path / "link.onnx").symlink_to("far/m.onnx")
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "far" / "m.onnx.data").symlink_to(tmp_path / "mine")
    before = os.umask(0o027)
    try:
        eqsat.onnx.save(made, tmp_path / "link.onnx")
        assert (tmp_path / "mine").read_text() == "mine"
        assert {p.name: mode(p) for p in (tmp_path / "far").iterdir()} == {"m.onnx": 0o640, "m.onnx.data": 0o640}
        (tmp_path / "far" / "m.onnx.data").chmod(0o600)
        eqsat.onnx.save(made, tmp_path / "link.onnx")
    finally:
        os.umask(before)
    assert mode(tmp_path / "far" / "m.onnx.data") == 0o600
    feeds = {"x": np.ones((3, 200), "float32")}
    result: Any = evaluate_outputs(eqsat.onnx.load(tmp_path / "link.onnx"), feeds)
    np.testing.assert_array_equal(next(iter(result.values())), numbers + 1)


@posix
def test_a_command_says_why_and_leaves_no_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for path, reason in ((tmp_path / "file" / "x", "no folder"), (tmp_path, "not a plain file")):
        begun = time.monotonic()
        assert main(["kernel", "i, j -> j, i", "--shape", "3,5", "-o", str(path)]) == 2
        assert reason in capsys.readouterr().err and time.monotonic() - begun < 30
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
