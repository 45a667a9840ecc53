"""Processes that end at any moment, file systems that fail, and processes side by side leave the cache usable."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqsat.backends.c.cc import SCRATCH
from eqsat.backends.cache import DRAFTS, CacheWarning
from eqsat.backends.compile import compile
from eqsat.cli import main
from eqsat.ir.errors import BackendError
from eqsat.ir.tensors.tensor import Tensor, input

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="signals and modes of POSIX")

WORK = """
import sys, numpy as np, eqsat as eq
from eqsat.proving.cache import cache_key, cache_put
from eqsat.proving.points import Answer
for n in map(int, sys.argv[1:]):
    x = eq.input("x", (3, 5 + n), "float32")
    a = np.arange(15 + 3 * n, dtype="float32").reshape(3, 5 + n)
    assert np.array_equal(eq.compile(x.permute_dims((1, 0)) + n)(x=a), a.T + n)
    assert cache_put(cache_key([str(n)]), Answer("proved", "test")) in (True, False)
"""


def start(cache: Path, *numbers: int, **environment: str) -> subprocess.Popen[str]:
    """A process that compiles programs and keeps verdicts."""
    return subprocess.Popen(
        [sys.executable, "-c", WORK, *map(str, numbers)],
        env={**os.environ, "EQSAT_CACHE": str(cache), "EQSAT_CFLAGS": "-O0", **environment},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finished(process: subprocess.Popen[str]) -> str:
    """What a process complained of; it must have ended well."""
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 0, said
    return said


def cache(*args: str, capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    assert main(["cache", *args, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir()}


@pytest.fixture
def hanging(tmp_path: Path) -> Callable[[], str]:
    """A compiler that writes something, says so, and does not come back."""
    script = tmp_path / "hanging-cc"
    script.write_text(f"#!/bin/sh\necho > $TMPDIR/of-the-compiler\ntouch {tmp_path}/there\nexec sleep 60\n")
    script.chmod(0o700)

    def reached() -> str:
        for _ in range(600):
            if (tmp_path / "there").exists():
                (tmp_path / "there").unlink()
                return str(script)
            time.sleep(0.05)
        raise AssertionError("the compiler was not run")

    return reached


def killed_in_compiler(where: Path, script: Path, reached: Callable[[], str], **environment: str) -> None:
    process = start(where, 0, CC=str(script), **environment)
    reached()
    process.kill()
    process.communicate(timeout=60)


@posix
def test_what_a_killed_process_leaves_is_counted_and_cleared(
    tmp_path: Path, hanging: Callable[[], str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    where = tmp_path / "cache"
    monkeypatch.setenv("EQSAT_CACHE", str(where))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed_in_compiler(where, tmp_path / "hanging-cc", hanging)
    assert files(where) and cache("info", capsys=capsys)["unfinished"]["entries"] == 1
    killed_in_compiler(where, tmp_path / "hanging-cc", hanging, EQSAT_CACHE="off", TMPDIR=str(tmp_path))
    assert cache("info", capsys=capsys)["temporary"]["entries"] == 1
    assert cache("info", capsys=capsys)["temporary"]["bytes"] > 0
    cleared = cache("clear", capsys=capsys)
    assert (cleared["unfinished"], cleared["temporary"]) == (1, 1)
    assert not files(where) and {p.name for p in tmp_path.iterdir()} == {"cache", "hanging-cc"}


@posix
@pytest.mark.parametrize("caching", [True, False])
def test_the_next_process_removes_what_a_killed_one_left(
    caching: bool, tmp_path: Path, hanging: Callable[[], str]
) -> None:
    """Also what it left in the folder for temporary files, where there is no cache."""
    where = tmp_path / "scratch"
    where.mkdir()
    more = {} if caching else {"EQSAT_CACHE": "off", "TMPDIR": str(where)}
    killed_in_compiler(where, tmp_path / "hanging-cc", hanging, **more)
    left = {name for name in files(where) if name.startswith(("objects/build-", "eqsat-"))}
    assert any("unit0.c" in name for name in left) and any("of-the-compiler" in name for name in left)
    finished(start(where, 1, **more))
    assert not left & files(where)
    assert {p.name for p in where.rglob("*") if p.is_dir()} <= {"objects", "programs"}


@posix
def test_what_a_living_process_makes_is_left_alone(
    tmp_path: Path, hanging: Callable[[], str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    where = tmp_path / "cache"
    living = start(where, 0, CC=str(tmp_path / "hanging-cc"))
    try:
        hanging()
        mine = {name for name in files(where) if "build-" in name}
        finished(start(where, 1))
        monkeypatch.setenv("EQSAT_CACHE", str(where))
        assert cache("info", capsys=capsys)["unfinished"]["entries"] == 0
        cache("clear", capsys=capsys)
        assert mine and mine == files(where)
    finally:
        living.kill()
        living.communicate(timeout=60)


@posix
@pytest.mark.parametrize("rounds", [4, pytest.param(150, marks=pytest.mark.slow)])
def test_killed_at_any_moment(
    rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is there afterwards is right or not believed, and `cache clear` removes all of it."""
    begun = time.monotonic()
    finished(start(tmp_path / "other", 0, 1, 2))
    whole, moments = time.monotonic() - begun, random.Random(0)
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "cache"))
    for _ in range(rounds):
        process = start(tmp_path / "cache", 0, 1, 2)
        time.sleep(whole * moments.uniform(0.3, 1.0))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    finished(start(tmp_path / "cache", 0, 1, 2))
    cache("clear", capsys=capsys)
    assert not files(tmp_path / "cache")


@posix
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_all_of_it_is_private_from_the_top(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        process = start(tmp_path / "a" / "b" / "cache", 0)
    finally:
        os.umask(before)
    assert "CacheWarning" not in finished(process)
    made = [tmp_path / "a", *(tmp_path / "a").rglob("*")]
    assert {p.suffix for p in made if p.is_file()} == {".so", ".sum", ".json", ".sqlite3"}
    for path in made:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
        assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600, path


@posix
def test_processes_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three processes make the same things at the same time, a fourth clears all the while: every answer is right."""
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "cache"))
    processes = [start(tmp_path / "cache", *range(2)) for _ in range(3)]
    while any(process.poll() is None for process in processes):
        cache("clear", capsys=capsys)
        time.sleep(0.02)
    for process in processes:
        assert "Warning" not in finished(process)
    cache("clear", capsys=capsys)
    assert not files(tmp_path / "cache")


# -- file systems that fail -------------------------------------------------------------------------------------------


def double(n: int) -> Tensor:
    return input("x", (3, n), "float32") * 2.0


class Failing:
    """Calls of the system inside a folder, of which the one with a given number fails."""

    CALLS = ("lstat", "stat", "mkdir", "open", "chmod", "replace", "scandir", "rmdir", "fchmod", "fdopen")

    def __init__(self, inside: Path, number: int, error: int) -> None:
        self.inside, self.number, self.error, self.seen = str(inside), number, error, 0

    def fails(self, where: object) -> bool:
        if isinstance(where, int):
            where = os.readlink(f"/proc/self/fd/{where}")
        if not str(where).startswith(self.inside):
            return False
        self.seen += 1
        return self.seen == self.number

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def patched(call: Callable[..., Any]) -> Callable[..., Any]:
            def instead(path: Any, *rest: Any, **more: Any) -> Any:
                if self.fails(path):
                    if call.__name__ == "fdopen":
                        os.close(path)
                    raise OSError(self.error, os.strerror(self.error), str(path))
                return call(path, *rest, **more)

            return instead

        for name in self.CALLS:
            monkeypatch.setattr(os, name, patched(getattr(os, name)))


@pytest.fixture
def rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, int, int], int]]:
    """Compile, twice, with the call of this number failing; the answer is how many calls there were."""

    def once(number: int, error: int, n: int) -> int:
        failing = Failing(tmp_path / "cache", number, error)
        a = np.arange(3 * n, dtype="float32").reshape(3, n)
        with monkeypatch.context() as patch:
            failing.patch(patch)
            for _ in range(2):
                np.testing.assert_array_equal(compile(double(n))(x=a), 2 * a)
        return failing.seen

    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "cache"))
    # Quick, so that every call can fail once; what is compiled matters little here.
    monkeypatch.setenv("EQSAT_CFLAGS", "-O0")
    yield once


@posix
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="asks /proc")
@pytest.mark.filterwarnings("ignore::eqsat.backends.cache.CacheWarning")
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_file_system_that_fails_is_only_slower(
    every: int, part: int, rounds: Callable[[int, int, int], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each call fails once, as on a full, read-only, stale or forbidden file system."""
    errors = (errno.ENOSPC, errno.EROFS, errno.ESTALE, errno.EACCES)
    total = rounds(0, 0, 99)
    assert total > 50
    for number in range(1 + part, total + 20, 4 * every):
        rounds(number, errors[part], number)
    cache("clear", capsys=capsys)
    assert not files(tmp_path / "cache")


@posix
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="asks /proc")
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_what_goes_away_while_it_is_counted_is_nothing(
    every: int,
    tmp_path: Path,
    hanging: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Other processes remove files and folders of the cache between any two calls."""
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "cache"))
    killed_in_compiler(tmp_path / "cache", tmp_path / "hanging-cc", hanging)
    total, number = 1, 0
    while number <= total:
        failing = Failing(tmp_path / "cache", number, errno.ENOENT)
        with monkeypatch.context() as patch:
            failing.patch(patch)
            found = cache("info", capsys=capsys)
        assert all(row["problem"] is None for row in found.values())
        assert number or (found["unfinished"]["entries"], found["unfinished"]["bytes"] > 0) == (1, True)
        total, number = failing.seen, number + every
    assert total > 20


FULL = """
import os, resource, sys, warnings, numpy as np, eqsat as eq
from eqsat.ir.errors import BackendError
warnings.simplefilter("always")
if sys.argv[1] != "-":
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
for n in (5, 6):
    x = eq.input("x", (3, n), "float32")
    try:
        assert (eq.compile(x * 2.0)(x=np.ones((3, n), "float32")) == 2).all()
    except BackendError as error:
        print(error, file=sys.stderr)
"""
NO_ROOM = "its files cannot be written: {} (name a folder of your own with room in TMPDIR)"


def on_full(cache: Path, scratch: Path, limit: int | str = "-") -> str:
    """What a process says that compiles two programs, its files no larger than a limit."""
    command = [sys.executable, "-c", FULL, str(limit)]
    environment = {**os.environ, "EQSAT_CACHE": str(cache), "TMPDIR": str(scratch), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0 and "please report" not in done.stderr, done.stderr
    return done.stderr


@posix
@pytest.mark.parametrize("limit", [100, 4096])
def test_files_that_may_not_grow(limit: int, tmp_path: Path) -> None:
    """The text of the program does not fit, or what the compiler makes of it."""
    (tmp_path / "tmp").mkdir()
    said = on_full(tmp_path / "cache", tmp_path / "tmp", limit)
    assert said.count("CacheWarning") == 1 and said.count(NO_ROOM.format("File too large")) == 2
    assert not files(tmp_path / "cache") and not files(tmp_path / "tmp")


def taken(path: Path) -> int:
    """The bytes of a device that a file takes."""
    return path.stat().st_blocks * 512


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A device of 4 MB, with a cache in it."""
    device = tmp_path / "device"
    device.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(device)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no device can be mounted")
    (device / "cache").mkdir(mode=0o700)
    yield device
    subprocess.run(["umount", str(device)], check=True)


def fill(device: Path, left: int) -> None:
    """Write zeros until a device has no more room than this, whatever the size of its pages is."""
    with open(device / "ballast", "wb", buffering=0) as ballast:
        with pytest.raises(OSError, match="No space left"):
            while True:
                ballast.write(bytes(4096))
        ballast.truncate(taken(device / "ballast") - left)


@posix
@pytest.mark.parametrize(("part", "refused"), [(0.0, 0), (0.5, 2)])
def test_a_full_device(part: float, refused: int, small: Path, tmp_path: Path) -> None:
    """Nothing can be written there (Python then has another folder for temporary files), or half of a program."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    if part:
        assert "written" not in on_full(tmp_path / "cache", scratch)
    fill(small, int(part * min((taken(made) for made in (tmp_path / "cache").rglob("*.so")), default=0)))
    said = on_full(small / "cache", scratch)
    assert said.count("CacheWarning") == 1 and f"the cache {small}/cache is not used: No space left" in said
    assert "written" not in said
    assert on_full(small / "cache", small).count(NO_ROOM.format("No space left on device")) == refused
    assert not list(scratch.iterdir()) and not [p for p in small.rglob("*") if p.name.startswith((DRAFTS, SCRATCH))]


@posix
def test_nothing_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One warning however many files do not fit; the answers are right."""
    real, where = os.fdopen, str(tmp_path / "cache")

    def full(file: int, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if "w" in mode and os.readlink(f"/proc/self/fd/{file}").startswith(where):
            os.close(file)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, mode, *rest, **more)

    monkeypatch.setenv("EQSAT_CACHE", where)
    monkeypatch.setenv("EQSAT_CFLAGS", "-O0")
    monkeypatch.setattr(os, "fdopen", full)
    with pytest.warns(CacheWarning, match="not used: No space left") as caught:
        for n in (4, 5):
            a = np.ones((3, n), "float32")
            np.testing.assert_array_equal(compile(double(n))(x=a), 2 * a)
    assert len(caught) == 1 and not files(tmp_path / "cache")


@posix
def test_another_failure_is_the_compilers_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", "false")
    with pytest.raises(BackendError, match="said nothing, and left with status 1"):
        compile(double(4))(x=np.ones((3, 4), "float32"))


@posix
def test_threads_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    monkeypatch.setenv("EQSAT_CFLAGS", "-O0")
    wrong: list[object] = []

    def work(first: int) -> None:
        for n in range(3):
            a = np.ones((3, 7 + (first + n) % 3), "float32")
            if not np.array_equal(compile(double(a.shape[1]))(x=a), 2 * a):
                wrong.append((first, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and not [p for p in tmp_path.rglob("build-*")]


@pytest.mark.parametrize("chosen", ["", "a file", "below a file", "x" * 5000, "\udcff"])
@pytest.mark.filterwarnings("ignore::eqsat.backends.cache.CacheWarning")
def test_no_place_for_a_cache(chosen: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No home, or a cache that cannot be a folder."""
    (tmp_path / "file").touch()
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os.path, "expanduser", str)
    named = {"a file": str(tmp_path / "file"), "below a file": str(tmp_path / "file" / "x")}.get(chosen, chosen)
    monkeypatch.setenv("EQSAT_CACHE", named)
    a = np.ones((3, 4), "float32")
    np.testing.assert_array_equal(compile(double(4))(x=a), 2 * a)
    assert main(["cache", "info"]) == 0
    assert main(["cache", "clear"]) == ("file" in chosen or len(chosen) > 1000)
