"""Keeps what these tests compile out of the user's cache, and makes warnings errors."""

import os
from collections.abc import Iterator

import pytest


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
