"""The verdict cache saves time and can do nothing else: whatever is wrong with it is a miss."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from eqsat import prover
from eqsat.ir.term import var
from eqsat.prove_cache import cache_clear, cache_get, cache_info, cache_key, cache_put
from eqsat.prove_points import Answer
from eqsat.prover import Budget, Portfolio, prove

PROVED = Answer("proved", "test")
KEY = cache_key(["a question"])


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(prover, "SLOW", 0.0)
    return tmp_path / "cache"


def database(directory: Path) -> Path:
    return directory / "verdicts.sqlite3"


def test_round_trip_and_clear(directory: Path) -> None:
    refuted = Answer("refuted", "test", (1, -2), (3, 4), "note")
    assert cache_get(KEY) is None
    assert cache_put(KEY, refuted)
    assert cache_get(KEY) == refuted
    info = cache_info()
    assert (info.path, info.entries) == (database(directory), 1) and info.size > 0
    cache_clear()
    assert cache_get(KEY) is None and cache_info().entries == 0


def test_off(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CACHE", "off")
    assert not cache_put(KEY, PROVED)
    assert cache_get(KEY) is None and cache_info().path is None
    assert not directory.exists()
    monkeypatch.delenv("EQSAT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(directory))
    assert cache_info().path == directory / "eqsat" / "verdicts.sqlite3"


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def overwrite(path: Path) -> None:
    path.write_bytes(b"no database at all" * 100)


def scramble(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4096] + bytes(255 - b for b in data[4096:]))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def other_table(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE verdicts (key TEXT)")


def flipped(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE verdicts SET answer = replace(answer, 'proved', 'unknown')")


def not_json(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE verdicts SET answer = 'proved'")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [truncate, overwrite, scramble, empty, other_table, flipped, not_json, folder])
def test_damage_is_a_miss(directory: Path, damage: Callable[[Path], None]) -> None:
    assert cache_put(KEY, PROVED)
    damage(database(directory))
    assert cache_get(KEY) is None
    assert cache_info().entries in (0, 1)
    assert prove("(x*a + y)//a == x + y//a", None, "a > 0").verdict == "proved"


@pytest.mark.parametrize("damage", [truncate, overwrite, scramble, empty])
def test_damage_heals(directory: Path, damage: Callable[[Path], None]) -> None:
    assert cache_put(KEY, PROVED)
    damage(database(directory))
    assert cache_put(KEY, PROVED)
    assert cache_get(KEY) == PROVED


def test_locked_is_a_miss(directory: Path) -> None:
    assert cache_put(KEY, PROVED)
    holder = sqlite3.connect(database(directory), isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        assert cache_get(KEY) is None
        assert not cache_put(KEY, PROVED)
    finally:
        holder.close()
    assert cache_get(KEY) == PROVED


def test_unwritable_is_a_miss(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.parent.mkdir(exist_ok=True)
    directory.write_text("a file where the directory should be")
    assert cache_get(KEY) is None
    assert not cache_put(KEY, PROVED)
    assert prove("(x*a)//a == x", None, "a > 0").verdict == "proved"


def test_renamed_questions_share_an_entry() -> None:
    assert prove("(x*a + y)//a == x + y//a", None, "a > 0").verdict == "proved"
    entries = cache_info().entries
    assert entries > 0
    assert prove("(row*width + column)//width == row + column//width", None, "width > 0").verdict == "proved"
    assert cache_info().entries == entries
    assert prove("(x*a + y)//a == x + y//a", None, "a > 1").verdict == "proved"
    assert cache_info().entries > entries


def test_hits_do_not_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    question = ("(x*a + y)//a == x + y//a", None, "a > 0")
    first = prove(*question)

    def never(*_: object) -> Answer:
        raise AssertionError("asked again")

    monkeypatch.setattr(prover, "z3_claim", never)
    again = prove(*question)
    assert (again.verdict, again.method) == (first.verdict, first.method)
    cache_clear()
    with pytest.raises(AssertionError, match="asked again"):
        prove(*question)


def test_unknown_is_kept_with_its_budget() -> None:
    i = var("i")
    question = (((i * i * i) % 97 < 97), {i: (0, None)})
    stingy = Portfolio(Budget(points=1, few_points=1, isl_operations=1, z3_rlimits=(1,)))
    hard = (i * i + i) % 2 == 0
    assert stingy.prove(hard, {i: (0, None)}).verdict == "unknown"
    entries = cache_info().entries
    assert entries > 0
    assert stingy.prove(hard, {i: (0, None)}).verdict == "unknown"
    assert cache_info().entries == entries
    assert Portfolio().prove(hard, {i: (0, 1 << 16)}).verdict == "proved"
    assert Portfolio().prove(*question).verdict == "proved"


def test_a_stored_witness_is_checked() -> None:
    i = var("i")
    key: list[str] = []
    goal = (i * i) % 64 != 33 * 33 % 64
    portfolio = Portfolio(Budget(few_points=1))

    def spy(k: str) -> Answer | None:
        key.append(k)
        return None

    def unknown(_: object) -> Answer:
        return Answer("unknown", "")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prover, "probe", unknown)
        patch.setattr(prover, "cache_get", spy)
        assert portfolio.prove(goal, {i: (0, 1 << 20)}).verdict == "refuted"
        patch.undo()
        patch.setattr(prover, "probe", unknown)
        cache_put(key[0], Answer("refuted", "forged", (2,)))
        proof = portfolio.prove(goal, {i: (0, 1 << 20)})
    assert proof.method != "forged" and proof.witness is not None
    assert proof.witness["i"] ** 2 % 64 == 33 * 33 % 64


def test_processes_share(directory: Path) -> None:
    code = "from eqsat.prove_cache import cache_get, cache_key; print(cache_get({!r}), cache_key(['q']))"
    assert cache_put(KEY, PROVED)
    done = subprocess.run([sys.executable, "-c", code.format(KEY)], capture_output=True, text=True, check=True)
    assert "verdict='proved'" in done.stdout
    assert cache_key(["q"]) in done.stdout
