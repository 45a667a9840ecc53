"""Threads, forks and pools: every call answers what it answers alone, whoever else calls."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import eqsat as eq
from eqsat.ir.flat import split
from eqsat.ir.tensors.tensor import View

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")

SCRIPT = Path(__file__).parents[1] / "helpers" / "mixed_calls.py"
KINDS = 12  # of calls
CALLS = 22
NOTEBOOK = """
import sys
sys.path.insert(0, {folder!r})
del sys.modules["__main__"].__spec__
import mixed_calls
print(mixed_calls.json.dumps([mixed_calls.call(k) for k in range({calls})]))
"""


def answers(mode: str, calls: int, cache: str, seconds: float = 200) -> list[str]:
    """What the calls answer in a process of their own."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), mode, str(calls)], capture_output=True, text=True, timeout=seconds,
        env={**os.environ, "EQSAT_CACHE": cache, "EQSAT_CFLAGS": "-O0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def alone() -> list[str]:
    """What each call answers when nobody else calls."""
    found = answers("alone", CALLS, "off")
    assert not [a for a in found if "Error" in a or "Failure" in a]
    return found


@pytest.mark.smoke
@pytest.mark.parametrize(("mode", "calls"), [("threads", CALLS), ("fork", KINDS)])
def test_calls_from_threads_and_forks(mode: str, calls: int, alone: list[str], tmp_path: Path) -> None:
    assert answers(mode, calls, str(tmp_path)) == alone[:calls]


@pytest.mark.parametrize(
    ("mode", "calls"),
    [("kills", CALLS), pytest.param("spawn", KINDS, marks=pytest.mark.slow), ("daemons", KINDS), ("forks", KINDS)],
)
def test_calls_from_pools_and_with_killed_workers(mode: str, calls: int, alone: list[str]) -> None:
    assert answers(mode, calls, "off") == alone[:calls]


def test_calls_without_a_main_file(alone: list[str]) -> None:
    """As in a notebook: code that comes over a pipe."""
    code = NOTEBOOK.format(folder=str(SCRIPT.parent), calls=11)
    done = subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True, timeout=100)
    assert json.loads(done.stdout) == alone[:11], done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", ["threads", "kills"])
def test_a_thousand_calls(mode: str, tmp_path: Path) -> None:
    assert answers(mode, 1000, str(tmp_path), 900) == answers("alone", 1000, "off", 900)


def test_the_maps_of_views_are_found_while_others_forget_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of views that look alike is dropped when it is too much, whoever looks there."""
    monkeypatch.setattr(split, "MOST_ALIKE", 2)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def found(n: int) -> str:
        x = eq.input("x", (2, 3 + n % 7, 5), "float32")
        node = x.permute_dims((2, 0, 1) if n % 2 else (1, 0, 2)).node
        assert isinstance(node, View)
        return str(split.maps_of_view(node))

    try:
        with ThreadPoolExecutor(8) as pool:
            texts = list(pool.map(found, range(2000)))
    finally:
        sys.setswitchinterval(before)
    assert texts == [texts[n % 14] for n in range(2000)]
