"""What commands say about a cache that others can write: one line, whatever processes they start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from eqsat.backends.cache import folder, private_file
from eqsat.ir.errors import EqsatError

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")


def command(cache: Path, *args: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "EQSAT_CACHE": str(cache)}
    line = [sys.executable, "-m", "eqsat", *args]
    return subprocess.run(line, capture_output=True, text=True, timeout=120, env=environment, check=False)


@pytest.fixture
def open_cache(tmp_path: Path) -> Path:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    return tmp_path / "cache"


def test_info_and_clear_say_why(open_cache: Path) -> None:
    (open_cache / "objects").mkdir()
    (open_cache / "objects" / "ab.so").touch()
    info = command(open_cache, "cache", "info")
    assert info.returncode == 0
    said = f"the cache {open_cache} is not used: others can write {open_cache} (mode 0777) (remove it, "
    assert info.stdout.startswith(said) and len(info.stdout.splitlines()) == 2, info.stdout
    data = json.loads(command(open_cache, "cache", "info", "--json").stdout)
    assert "mode 0777" in data["verdicts"]["problem"] and data["objects"]["entries"] == 0
    cleared = command(open_cache, "cache", "clear")
    assert cleared.returncode == 1 and "is not used: others can write" in cleared.stdout
    assert (open_cache / "objects" / "ab.so").exists()


def test_a_command_says_it_once(open_cache: Path) -> None:
    done = command(open_cache, "kernel", "i, j -> j, i", "--shape", "3,5")
    (line,) = done.stderr.splitlines()
    assert done.returncode == 0 and line.startswith(f"eqsat: the cache {open_cache} is not used: others can write ")
    assert "EQSAT_CACHE" in line and not [p for p in open_cache.rglob("*") if p.is_file()]


@pytest.mark.onnx
def test_a_command_with_a_worker_says_it_once(open_cache: Path, tmp_path: Path) -> None:
    from eqsat.nets import conv_chain
    from eqsat.onnx import save_model

    save_model(conv_chain(), tmp_path / "m.onnx")
    done = command(open_cache, "optimize", str(tmp_path / "m.onnx"), "--verify")
    (line,) = done.stderr.splitlines()
    assert done.returncode == 0 and line.startswith(f"eqsat: the cache {open_cache} is not used: ")


def test_private_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "cache"))
    before = os.umask(0)
    try:
        path = private_file("mismatch-1.txt", "structure")
    finally:
        os.umask(before)
    assert path is not None and path == tmp_path / "cache" / "reports" / "mismatch-1.txt"
    assert path.read_text() == "structure"
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    assert private_file("mismatch-1.txt", "newer") == path and path.read_text() == "newer"
    assert json.loads(command(tmp_path / "cache", "cache", "info", "--json").stdout)["reports"]["entries"] == 1
    for name in ("", ".", "..", "a/b", "../x", "a\0b", ".hidden", "/x"):
        with pytest.raises(EqsatError, match="not a plain name"):
            private_file(name, "")
    assert "1 reports" in command(tmp_path / "cache", "cache", "clear").stdout and not path.exists()
    monkeypatch.setenv("EQSAT_CACHE", "off")
    assert private_file("x", "") is None and folder() is None


def test_a_folder_in_the_cache_can_be_somebody_elses_alone(tmp_path: Path) -> None:
    for kind in ("objects", "tuned"):
        (tmp_path / kind).mkdir(mode=0o700)
    (tmp_path / "objects").chmod(0o770)
    (tmp_path / "tuned" / "ab.json").touch()
    info = command(tmp_path, "cache", "info").stdout
    assert f"objects: {tmp_path}/objects is not used: others can write {tmp_path}/objects (mode 0770)" in info
    assert f"tuned: 1 in {tmp_path}/tuned (0 bytes)" in info
    cleared = command(tmp_path, "cache", "clear")
    assert cleared.returncode == 1 and "1 tuned" in cleared.stdout and not (tmp_path / "tuned" / "ab.json").exists()
