"""Kernels and the cache among processes and threads: forks, pickles, damaged caches, full disks, no home."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqsat.backends.c import cc
from eqsat.backends.cache import CacheWarning, cache_directory, keep
from eqsat.backends.compile import compile
from eqsat.ir.errors import BackendError
from eqsat.ir.tensors.tensor import Tensor, input

FORKED = """
import multiprocessing, numpy as np, eqsat as eq
x = eq.input("x", (300, 200), "float32")
array = np.arange(60000, dtype="float32").reshape(300, 200)
kernel = eq.compile(x.permute_dims((1, 0)) + 1, target={target!r}, threads={threads})
kernel(x=array)
call = kernel.bind(x=array, out=(bound := np.zeros((200, 300), "float32")))

def child(queue):
    try:
        call()
        queue.put(np.array_equal(kernel(x=array), array.T + 1) and np.array_equal(bound, array.T + 1))
    except eq.EqsatError as error:
        queue.put(str(error))

fork = multiprocessing.get_context("fork")
queue = fork.Queue()
process = fork.Process(target=child, args=(queue,), daemon=True)
process.start()
print(queue.get(timeout=30), "omp" in kernel.source)
"""


def forked(target: str, threads: int | None) -> str:
    """What a process says that was forked after a kernel had run."""
    code = FORKED.format(target=target, threads=threads)
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=False, timeout=60)
    return done.stdout or done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_process_has_threads_of_its_own() -> None:  # feature: K3
    assert forked("c", 2) == "True True\n"


@pytest.mark.opencl
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_process_is_told_that_its_device_is_gone() -> None:
    assert "do not survive" in forked("opencl", None)


def double() -> Tensor:
    x = input("x", (3, 4), "float32")
    return x + x


ARRAY = np.arange(12, dtype="float32").reshape(3, 4)


@pytest.mark.parametrize("target", ["c", "numpy"])
def test_kernels_are_pickled(target: str) -> None:
    kernel = pickle.loads(pickle.dumps(compile(double(), target)))
    np.testing.assert_array_equal(kernel(x=ARRAY), 2 * ARRAY)


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda p: p.write_bytes(b""),
    "no text": lambda p: p.write_bytes(b"\xff\xfe" * 40),
    "another text": lambda p: p.write_text("[]"),
    "a folder": _folder,
    "a link to itself": _link,
    "missing": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("pattern", ["objects/*.so", "objects/*.sum", "programs/*.json"])
def test_a_damaged_cache_is_only_slower(
    damage: str, pattern: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    compile(double())
    (path,) = tmp_path.glob(pattern)
    held = path.read_bytes()
    # The object that is mapped into this process keeps its bytes.
    path.rename(tmp_path / "aside")
    path.write_bytes(held)
    DAMAGES[damage](path)
    np.testing.assert_array_equal(compile(double())(x=ARRAY), 2 * ARRAY)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="asks /proc")
def test_a_full_disk_is_only_slower(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "cache"))

    class Full(io.FileIO):
        def write(self, data: Any) -> int:
            super().write(bytes(data)[:1])
            raise OSError(28, "No space left on device")

    def full(file: int, mode: str) -> Any:
        inside = (tmp_path / "cache") in Path(os.readlink(f"/proc/self/fd/{file}")).parents
        return Full(file, mode) if inside and mode == "wb" else fdopen(file, mode)

    fdopen = os.fdopen
    monkeypatch.setattr(os, "fdopen", full)
    np.testing.assert_array_equal(compile(double())(x=ARRAY), 2 * ARRAY)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    monkeypatch.setenv("EQSAT_CACHE", "off")
    with pytest.raises(BackendError, match=r"cannot be written: .*TMPDIR"):
        compile(double())


WRAPPER = """#!/bin/sh
rm -r '{cache}' && touch '{removed}'
exec cc "$@"
"""


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="a shell")
def test_a_cache_that_is_removed_while_a_compiler_runs_is_only_slower(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The compiler is a file of its own, too, whose path has spaces and a quote."""
    wrapper, cache = tmp_path / "a wrapper's folder" / "my cc", tmp_path / "cache"
    wrapper.parent.mkdir()
    wrapper.write_text(WRAPPER.format(cache=cache, removed=tmp_path / "removed"))
    wrapper.chmod(0o700)
    monkeypatch.setenv("CC", str(wrapper))
    monkeypatch.setenv("EQSAT_CACHE", str(cache))
    np.testing.assert_array_equal(compile(double())(x=ARRAY), 2 * ARRAY)
    assert (tmp_path / "removed").exists()


def test_where_the_cache_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for chosen, found in (("~/x", tmp_path / "x"), ("OFF", None), ("here", Path("here"))):
        monkeypatch.setenv("EQSAT_CACHE", chosen)
        assert cache_directory() == found
    monkeypatch.setenv("EQSAT_CACHE", "")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_directory() == tmp_path / ".cache" / "eqsat"
    monkeypatch.setattr(os.path, "expanduser", str)
    assert cache_directory() is None


def test_a_file_is_kept_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    assert keep("new", "file", "text") == tmp_path / "new" / "file"
    assert (tmp_path / "new" / "file").read_text() == "text"
    with pytest.warns(CacheWarning, match="new/file is not used: .* is not a folder"):
        assert keep("new/file", "below", "text") is None
    (tmp_path / "new" / "folder").mkdir()
    assert keep("new", "folder", "text") is None
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")) == ["new", "new/file", "new/folder"]


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("CC", "cc '", "CC=.*quotation"),
        ("EQSAT_CFLAGS", "'", "EQSAT_CFLAGS=.*quotation"),
        ("EQSAT_CFLAGS", "-fno-such-thing", r"(?s)failed.*check EQSAT_CFLAGS"),
        ("CC", "false", r"(?s)said nothing, and left with status 1.*check CC"),
    ],
)
def test_a_users_choices_are_named(
    variable: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    monkeypatch.setenv(variable, value)
    with pytest.raises(BackendError, match=message):
        cc.load_library("int f(void) { return 0; }")
