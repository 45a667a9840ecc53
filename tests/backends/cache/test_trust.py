"""What others put into the cache, or could, is not run and not believed: one warning, and the answer without it."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")

STRANGER = 54321
"""The id of somebody else."""

PREPARE = """
import numpy as np, eqsat as eq
from eqsat.proving.cache import cache_get, cache_key, cache_put
from eqsat.proving.points import Answer
x = eq.input("x", (3, 5), "float32")
a = np.arange(15, dtype="float32").reshape(3, 5)
eq.compile(x.permute_dims((1, 0)) + 1)(x=a)
cache_put(cache_key(["is the moon a cheese"]), Answer("proved", "planted"))
"""

ATTACKED = """
import json, os, sys, warnings
import numpy as np, eqsat as eq
from eqsat.proving.cache import cache_get, cache_key
x = eq.input("x", (3, 5), "float32")
a = np.arange(15, dtype="float32").reshape(3, 5)
found = {}
for case, (cache, folder) in json.load(sys.stdin).items():
    os.environ["EQSAT_CACHE"], os.environ["MARK"] = cache, os.path.join(folder, "mark")
    os.chdir(folder)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            right = bool(np.array_equal(eq.compile(x.permute_dims((1, 0)) + 1)(x=a), a.T + 1))
        except Exception as error:
            right = repr(error)
        believed = cache_get(cache_key(["is the moon a cheese"])) is not None
    found[case] = os.path.exists("mark"), believed, right, [str(w.message) for w in caught]
print(json.dumps(found))
"""

# Shows that it was loaded.
EVIL = """
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void planted(void)
{
    FILE *file = fopen(getenv("MARK"), "w");
    if (file)
        fclose(file);
}
"""


def process(code: str, cache: Path, given: str = "") -> str:
    """What a new process with this cache prints."""
    environment = {**os.environ, "EQSAT_CACHE": str(cache)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- what is planted --------------------------------------------------------------------------------------------------


def plant_object(cache: Path) -> None:
    """Another library under the name of each object, with its sum."""
    source, evil = cache.parent / "evil.c", cache.parent / "evil.so"
    source.write_text(EVIL)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(evil), str(source)], check=True)
    objects = list((cache / "objects").glob("*.so"))
    assert objects
    for path in objects:
        path.unlink()
        shutil.copyfile(evil, path)
        path.with_suffix(".sum").write_text(hashlib.sha256(evil.read_bytes()).hexdigest())


def plant_program(cache: Path) -> None:
    """Other C text in each compiled program, with its sum."""
    (path,) = (cache / "programs").glob("*.json")
    data = json.loads(path.read_text().partition("\n")[2])
    data["source"] = EVIL + data["source"]
    text = json.dumps(data)
    path.write_text(hashlib.sha256(text.encode()).hexdigest() + "\n" + text)


PLANTS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "library": ("objects", plant_object),
    "program": ("programs", plant_program),
    "verdict": ("", lambda cache: None),
}
"""The folder of what is planted, and how it comes there."""


# -- how others come to write it --------------------------------------------------------------------------------------


def mode(bits: int, *where: str) -> Callable[[Path, str], str]:
    """Whose folder has this mode: "cache", "folder" (below it), "parent" or "files"."""

    def change(cache: Path, folder: str) -> str:
        for path in places(cache, folder, where):
            path.chmod(bits)
        return str(cache)

    return change


def owner(*where: str) -> Callable[[Path, str], str]:
    def change(cache: Path, folder: str) -> str:
        for path in places(cache, folder, where):
            os.lchown(path, STRANGER, STRANGER)
        return str(cache)

    return change


def places(cache: Path, folder: str, names: tuple[str, ...]) -> list[Path]:
    files = [p for p in (cache / folder).iterdir() if p.is_file()]
    found = {"cache": [cache], "folder": [cache / folder], "parent": [cache.parent], "files": files}
    return [path for name in names for path in found[name]]


def linked(cache: Path, folder: str) -> str:
    """The cache is a link into a folder that all may write."""
    there = cache.parent / "open" / "cache"
    there.parent.mkdir()
    cache.rename(there)
    there.parent.chmod(0o777)
    cache.symlink_to(there)
    return str(cache)


def strange_link(cache: Path, folder: str) -> str:
    """Somebody else's link, in a sticky folder, to a folder of ours."""
    there = cache.parent / "ours"
    cache.rename(there)
    (cache.parent / "tmp").mkdir()
    (cache.parent / "tmp").chmod(0o1777)
    link = cache.parent / "tmp" / "cache"
    link.symlink_to(there)
    os.lchown(link, STRANGER, STRANGER)
    return str(link)


def linked_files(cache: Path, folder: str) -> str:
    """Files that are links to where all may write."""
    there = cache.parent / "open"
    there.mkdir()
    for path in places(cache, folder, ("files",)):
        shutil.move(path, there / path.name)
        path.symlink_to(there / path.name)
    there.chmod(0o777)
    return str(cache)


def sticky_parent(cache: Path, folder: str) -> str:
    cache.parent.chmod(0o1777)
    return str(cache)


def own_link(cache: Path, folder: str) -> str:
    link = cache.parent / "link"
    link.symlink_to(cache.name)
    return str(link)


Change = Callable[[Path, str], str]
REFUSED: dict[str, Change] = {
    "all may write the cache": mode(0o777, "cache"),
    "the group may write the cache": mode(0o770, "cache"),
    "all may write the cache, sticky": mode(0o1777, "cache"),
    "all may write the folder": mode(0o777, "folder"),
    "the group may write the folder": mode(0o775, "folder"),
    "all may write the parent": mode(0o777, "parent"),
    "all may write the files": mode(0o666, "files"),
    "the group may write the files": mode(0o620, "files"),
    "a link into an open folder": linked,
    "files that are links": linked_files,
}
STRANGERS: dict[str, Change] = {
    "somebody's cache": owner("cache", "folder", "files"),
    "somebody's folder": owner("folder"),
    "somebody's parent": owner("parent"),
    "somebody's files": owner("files"),
    "somebody's link": strange_link,
}
TAKEN: dict[str, Change] = {
    "as it was made": lambda cache, folder: str(cache),
    "all may read it": mode(0o755, "cache", "folder"),
    "a sticky parent": sticky_parent,
    "a link of ours": own_link,
    "relative": lambda cache, folder: os.path.join(".", cache.name),
    "up and down": lambda cache, folder: os.path.join(str(cache), "..", cache.name),
}


Outcome = tuple[bool, bool, "bool | str", list[str]]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Outcome]]:
    """For each case: did planted code run, was a planted verdict believed, was the answer right, and what was said."""
    known: dict[str, dict[str, Outcome]] = {}

    def ask(plant: str) -> dict[str, Outcome]:
        if plant not in known:
            top = tmp_path_factory.mktemp(plant)
            folder, put = PLANTS[plant]
            before = os.umask(0o022)
            try:
                process(PREPARE, top / "made" / "cache")
                put(top / "made" / "cache")
                asked: dict[str, tuple[str, str]] = {}
                for number, (case, change) in enumerate((REFUSED | STRANGERS | TAKEN).items()):
                    if case in STRANGERS and os.geteuid() != 0:
                        continue
                    cache = top / str(number) / "shared" / "cache"
                    shutil.copytree(top / "made" / "cache", cache)
                    asked[case] = change(cache, folder), str(cache.parent)
            finally:
                os.umask(before)
            known[plant] = json.loads(process(ATTACKED, top / "none", json.dumps(asked)))
        return known[plant]

    return ask


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("case", [*REFUSED, *STRANGERS])
def test_what_others_can_write_is_not_used(
    plant: str, case: str, outcomes: Callable[[str], dict[str, Outcome]]
) -> None:
    if case in STRANGERS and os.geteuid() != 0:
        pytest.skip("only root gives files away")
    ran, believed, right, said = outcomes(plant)[case]
    assert not ran and right is True and not (plant == "verdict" and believed)
    if case != "files that are links":
        assert 1 <= len(said) <= 2 and all(" is not used: " in text and "(" in text for text in said), said


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("case", TAKEN)
def test_what_is_ours_alone_is_used(plant: str, case: str, outcomes: Callable[[str], dict[str, Outcome]]) -> None:
    """The attack itself works: planted by ourselves, the same files are run and believed."""
    ran, believed, _, said = outcomes(plant)[case]
    assert (ran or plant == "verdict") and believed and not said


def test_a_journal_of_somebody_else_is_not_replayed(tmp_path: Path) -> None:
    """SQLite believes what it finds beside a database."""
    process(PREPARE, tmp_path)
    for bits, believed in ((0o600, True), (0o666, False)):
        (tmp_path / "verdicts.sqlite3-wal").touch()
        (tmp_path / "verdicts.sqlite3-wal").chmod(bits)
        found = json.loads(process(ATTACKED, tmp_path, json.dumps({"": (str(tmp_path), str(tmp_path))})))
        assert found[""][1] is believed
        assert any("verdicts.sqlite3 of the cache is not used" in text for text in found[""][3]) is not believed


class Pickled:
    """What runs a command when it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.mark),)


@pytest.mark.opencl
def test_binaries_of_drivers_are_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where a driver keeps no binaries, ours hold nothing that reading runs; a damaged one is compiled anew."""
    from eqsat.backends.opencl import device as device

    def no_cache(_: object) -> bool:
        return False

    monkeypatch.setattr("pyopencl.characterize.has_src_build_cache", no_cache)
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    where, source = device.open_device(), "__kernel void f(__global int *x) { x[get_global_id(0)] = 7; }"

    def runs() -> None:
        cl = device.opencl()
        (kernel,) = device.build(where, source).all_kernels()
        memory = cl.Buffer(where.context, cl.mem_flags.READ_WRITE, 16)
        kernel(where.queue, (4,), None, memory)
        data = bytearray(16)
        cl.enqueue_copy(where.queue, data, memory)
        assert data == b"\7\0\0\0" * 4

    runs()
    files = [p for p in (tmp_path / "opencl").rglob("*") if p.is_file()]
    assert files, "nothing was kept"
    for path in files:
        held, mark = path.read_bytes(), tmp_path / "mark"
        for planted in (pickle.dumps(Pickled(mark)), held[:-9], b"", held[:32] + b"x" * len(held[32:])):
            path.write_bytes(planted)
            runs()
            assert not mark.exists()
    kept = {p: p.read_bytes() for p in files}
    monkeypatch.setattr(device.cache, "keep", pytest.fail)
    runs()
    assert {p: p.read_bytes() for p in files} == kept
