"""Keeps what these tests compile out of the user's cache, and makes warnings errors."""

import os
import warnings
from collections.abc import Iterator

import pytest

from eqsat.backends.c.cc import CompilerWarning


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
def compiled_for_this_processor() -> Iterator[None]:
    """What is compiled for any processor instead computes the same: no test would see what was not tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompilerWarning)
        yield
