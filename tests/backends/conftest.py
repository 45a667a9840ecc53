"""Keeps what these tests compile out of the user's cache, and makes warnings errors."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from eqsat.backends.c import cc


@pytest.fixture(scope="session", autouse=True)
def compiler_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    caches = ("EQSAT_CACHE", "POCL_CACHE_DIR", "XDG_CACHE_HOME")
    kept = {name: os.environ.get(name) for name in (*caches, "EQSAT_CFLAGS")}
    for name in caches:
        os.environ[name] = str(tmp_path_factory.mktemp("cache"))
    os.environ["EQSAT_CFLAGS"] = os.environ.get("EQSAT_CFLAGS", "-O1 -Wconversion -Wno-float-conversion -Werror")
    yield
    for name, value in kept.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


@pytest.fixture(autouse=True)
def compiled_for_this_processor(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where the compiler warns of a kernel for this processor, and so refuses it, one for any processor is compiled
    instead, and computes the same: no test would see what was not tested."""
    compiled = cc._compile  # pyright: ignore[reportPrivateUsage]
    refused: list[str] = []

    def noted(command: tuple[str, ...], units: Sequence[Path], made: Path) -> CompletedProcess[str]:
        done = compiled(command, units, made)
        if done.returncode != 0 and cc.NATIVE in command and "[-Werror" in done.stderr:
            refused.append(done.stderr)
        return done

    monkeypatch.setattr(cc, "_compile", noted)
    yield
    assert not refused, cc.elided(refused[0])
