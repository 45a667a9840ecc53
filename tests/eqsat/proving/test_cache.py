"""The verdict cache saves time and can do nothing else: whatever is wrong with it is a miss."""

import importlib
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import eqsat as eq
from eqsat.ir.terms.term import var
from eqsat.proving import cache, prover
from eqsat.proving.cache import cache_clear, cache_get, cache_info, cache_key, cache_put
from eqsat.proving.points import Answer
from eqsat.proving.prover import Budget, Portfolio, prove

PROVED = Answer("proved", "test")
KEY = cache_key(["a question"])


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "cache"))
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
    assert cache_info().entries == (1 if damage in (flipped, not_json) else 0)
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


@pytest.mark.filterwarnings("ignore::eqsat.backends.cache.CacheWarning")
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
    budget = Budget(rules=False)
    first = prove(*question, budget=budget)

    def never(*_: object) -> Answer:
        raise AssertionError("asked again")

    monkeypatch.setattr(prover, "z3_claim", never)
    again = prove(*question, budget=budget)
    assert (again.verdict, again.method) == (first.verdict, first.method)
    cache_clear()
    with pytest.raises(AssertionError, match="asked again"):
        prove(*question, budget=budget)


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
    code = "from eqsat.proving.cache import cache_get, cache_key; print(cache_get({!r}), cache_key(['q']))"
    assert cache_put(KEY, PROVED)
    done = subprocess.run([sys.executable, "-c", code.format(KEY)], capture_output=True, text=True, check=True)
    assert "verdict='proved'" in done.stdout
    assert cache_key(["q"]) in done.stdout


QUESTIONS = """
import sys
from eqsat.proving.prover import Budget, Portfolio, decide, prove
from eqsat.ir.terms.term import ax, sym, var
n, m = sym("N"), sym("M")
i, j = ax(0, n), ax(1, m)
bare = Budget(rules=False)
verdicts = [
    prove("i % 48 < 48 and i // 48 <= 20833", {"i": 1000000}).verdict,
    prove("i // 5 * 7 != 7 * (i // 5) + 1", {"i": (0, None)}).verdict,
    prove((i * m + j) // m < n, budget=bare).verdict,
    prove("x*x >= 0").verdict,
    prove("(x*a + y)//a == x + y//a", None, "a > 0", budget=bare).verdict,
    decide((i + 1) % n < n),
    decide("i // 3 + j // 5 < 70000", {"i": 200000, "j": 200000}),
    Portfolio().injective([(3500 * var("i") + var("j")) // 2100, (3500 * var("i") + var("j")) % 2100],
                          {var("i"): (0, 60000), var("j"): (0, 3500)}).verdict,
    Portfolio().injective([(i + 1) % n], {}).verdict,
]
print(verdicts, sorted({"z3", "islpy"} & set(sys.modules)))
"""


def test_a_second_run_needs_no_solver(directory: Path) -> None:
    """The same questions in a new process: the same verdicts, and neither solver is even loaded."""
    first, second = (
        subprocess.run([sys.executable, "-c", QUESTIONS], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert first.endswith("['islpy', 'z3']\n") and "unknown" not in first
    assert second == first.replace("['islpy', 'z3']", "[]")
    database(directory).unlink()
    third = subprocess.run([sys.executable, "-c", QUESTIONS], capture_output=True, text=True, check=True).stdout
    assert third == first


def test_writers_do_not_disturb_each_other(directory: Path) -> None:
    """Many processes and threads write at once; every entry that can be read is right."""
    code = """
import sys
from concurrent.futures import ThreadPoolExecutor
from eqsat.proving.cache import cache_get, cache_key, cache_put
from eqsat.proving.points import Answer
def work(n):
    key = cache_key([str(n)])
    cache_put(key, Answer("refuted", "test", (n,)))
    found = cache_get(key)
    assert found is None or found.witness == (n,)
start = int(sys.argv[1])
with ThreadPoolExecutor(4) as pool:
    list(pool.map(work, range(start, start + 120)))
"""
    running = [subprocess.Popen([sys.executable, "-c", code, str(60 * k)]) for k in range(3)]
    assert [p.wait(timeout=60) for p in running] == [0, 0, 0]
    found = [cache_get(cache_key([str(n)])) for n in range(240)]
    kept = [(n, answer) for n, answer in enumerate(found) if answer is not None]
    assert len(kept) > 100 and all(answer.witness == (n,) for n, answer in kept)


def test_another_process_is_seen(directory: Path) -> None:
    assert cache_put(KEY, PROVED)
    code = "from eqsat.proving.cache import cache_put, cache_key; from eqsat.proving.points import Answer;"
    code += "cache_put(cache_key(['other']), Answer('unknown', 'test'))"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert cache_get(cache_key(["other"])) == Answer("unknown", "test")
    assert cache_get(KEY) == PROVED


def test_read_only_is_read(directory: Path) -> None:
    assert cache_put(KEY, PROVED)
    database(directory).chmod(0o444)
    directory.chmod(0o555)
    try:
        assert cache_get(KEY) == PROVED
        assert prove("i % 48 < 48 and i // 48 <= 20833", {"i": 1000000}).verdict == "proved"
    finally:
        directory.chmod(0o755)


def test_an_old_schema_is_replaced_in_behaviour(directory: Path) -> None:
    """A table of another shape is never written to, and never believed."""
    directory.mkdir()
    with sqlite3.connect(database(directory)) as connection:
        connection.execute("CREATE TABLE verdicts (key TEXT PRIMARY KEY, verdict TEXT)")
        connection.execute("INSERT INTO verdicts VALUES (?, 'proved')", (KEY,))
    assert cache_get(KEY) is None
    assert not cache_put(KEY, PROVED)
    assert cache_get(KEY) is None
    assert prove("4*io + ii < 14", {"io": 4, "ii": 4}).verdict == "refuted"


WORDLESS = ("eqsat.backends", "eqsat.interrupt", "eqsat.interrupt_start", "eqsat.workers")
"""Where answers are kept, and which process finds them: no verdict follows from that."""


def test_a_key_depends_on_all_that_a_verdict_follows_from() -> None:
    """Every module that the prover imports, inside of functions too, is in a room of the digest."""
    grimp = importlib.import_module("grimp")
    imports = grimp.build_graph("eqsat", cache_dir=None)
    root = Path(eq.__file__).parent.resolve()
    covered = {path.resolve() for room in cache.ROOMS for path in (root / room).glob("*.py")}
    needed: set[str] = imports.find_upstream_modules("eqsat.proving", as_package=True)
    assert len(needed) > 30
    for name in sorted(needed):
        path = root.joinpath(*name.split(".")[1:])
        source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        assert source.resolve() in covered or name.startswith(WORDLESS), name
