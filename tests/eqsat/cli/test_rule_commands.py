"""`eqsat rules`: rules of one's own on the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from eqsat.cli import main

MODULE = '''
import eqsat as eq
from eqsat.ir.law import mapping, same_box, tensor, view
from eqsat.ir.rule import Family, Idx, Pos
from eqsat.ir.terms import term as t

MINE = Family("mine")


@MINE.rule("halves")
def halves(x: Idx):
    """Two halves of an even number."""
    return (4*x) // 2 + x % 1, 2*x


@MINE.rule("rounded")
def rounded(x: Idx, c: Pos):
    return x // c * c, x


@MINE.rule("cubes")
def cubes(x: Idx, y: Idx, z: Idx):
    same = t.compare("eq", x*x*x + y*y*y, z*z*z)
    return t.where(t.logical_and(x > 0, y > 0, same), 1, 0), t.const(0, "index")


@eq.law("any view")
def any_view():
    x, m = tensor("x"), mapping("m")
    return view(x, m), x, same_box(m, x)
'''

Answer = tuple[int, str, str]
Run = Callable[..., Answer]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine_in_tests.py").write_text(MODULE.replace("(4*x) // 2 + x % 1", "(4*x + x % 1) // 2"))
    monkeypatch.delitem(sys.modules, "mine_in_tests", raising=False)
    monkeypatch.setenv("EQSAT_DEBUG", "0")

    def call(*args: object) -> Answer:
        capsys.readouterr()
        code = main([str(a) for a in args])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def statuses(text: str) -> dict[str, Any]:
    return {r["name"]: r for r in json.loads(text)["rules"]}


STATUS = {"halves": "proved", "rounded": "refuted", "cubes": "unknown", "any view": "refuted"}


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_module_is_checked(run: Run, jobs: str, tmp_path: Path) -> None:  # feature: J2
    code, out, err = run(
        "rules", "check", "mine_in_tests", "--jobs", jobs, "--seconds", "1.5", "--junit", "out.xml", "--json"
    )
    found = statuses(out)
    assert (code, err) == (1, "") and {name: r["status"] for name, r in found.items()} == STATUS
    assert found["rounded"]["witness"] == {"x": 1, "c": 2}
    assert found["cubes"]["seconds"] < 20 and "clock" in found["cubes"]["note"]
    assert "m = [" in found["any view"]["note"] and "x = [" in found["any view"]["note"]
    suite = ElementTree.parse(tmp_path / "out.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("4", "3")


def test_rules_by_name_and_modules_together(run: Run) -> None:
    code, out, _ = run("rules", "check", "split-merge", "mine_in_tests", "--seconds", "1", "--json")
    assert code == 1 and list(statuses(out)) == ["split-merge", *STATUS]
    assert run("rules", "check", "split-merge")[0] == 0


def test_the_text_shows_what_is_wrong(run: Run) -> None:
    _, out, _ = run("rules", "check", "mine_in_tests", "--seconds", "1")
    assert "rounded at {'x': 1, 'c': 2}" in out and "the left side is" in out
    assert out.splitlines()[-1] == "1 proved, 1 unknown, 2 refuted"


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["split-marge"], "neither a rule nor a module"),
        (["no_such_module"], "neither a rule nor a module"),
        (["split-merge", "--jobs", "many"], "neither a number nor an address"),
        (["split-merge", "--jobs", "0"], "neither a number nor an address"),
        (["split-merge", "--junit", "no/such/folder.xml"], "cannot be written"),
    ],
)
def test_bad_usage_is_one_line(run: Run, args: list[str], problem: str) -> None:
    code, out, err = run("rules", "check", *args)
    assert (code, out) == (2, "") and problem in err and err.count("\n") == 1


def test_a_module_that_ends_the_process_checks_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "ends_in_tests.py").write_text("raise SystemExit(0)")
    code, out, err = run("rules", "check", "ends_in_tests")
    assert (code, out) == (2, "") and "cannot be imported: SystemExit" in err


TWICE = MODULE.replace('@MINE.rule("rounded")', '@eq.rule("halves")')
LAWS = "\n".join(line for line in MODULE.splitlines() if not line.startswith("@MINE"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (TWICE, "another one has this name"),
        ("raise ValueError('no')", "cannot be imported: ValueError: no (EQSAT_DEBUG=1 shows where)"),
    ],
)
def test_modules_whose_rules_could_not_be_used_are_refused(run: Run, tmp_path: Path, text: str, problem: str) -> None:
    """As `eq.simplify` and `eqsat optimize` refuse two of one name."""
    name = f"refused_in_tests_{len(text)}"
    (tmp_path / f"{name}.py").write_text(text)
    code, out, err = run("rules", "check", name)
    assert (code, out) == (2, "") and problem in err


def test_the_name_of_a_file_is_no_module(run: Run) -> None:
    assert "(name the module, mine_in_tests, in the folder of its file)" in run("rules", "check", "mine_in_tests.py")[2]


@pytest.mark.parametrize("command", ["minimize", "derivable"])
def test_laws_alone_are_not_derived(run: Run, command: str, tmp_path: Path) -> None:
    (tmp_path / "laws_in_tests.py").write_text(LAWS)
    code, out, err = run("rules", command, "laws_in_tests")
    assert (code, out) == (2, "") and "laws of tensors alone" in err


@pytest.mark.parametrize("args", [["minimize"], ["derivable"], ["derivable", "--steps", "steps.txt"]])
def test_nothing_is_derived_from_a_false_rule(run: Run, args: list[str], tmp_path: Path) -> None:
    (tmp_path / "false_in_tests.py").write_text(
        "import eqsat as eq\nfrom eqsat.ir.rule import Idx\n\n"
        "@eq.rule('false')\ndef false(x: Idx):\n    return x % 4, x % 2\n"
    )
    (tmp_path / "steps.txt").write_text("x % 4\nx % 2\n")
    code, out, err = run("rules", args[0], "false_in_tests", *args[1:])
    assert (code, out) == (2, "") and "refuted at {'x': -1}" in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("args", [["explain", "x", "x"], ["rules", "list"]])
def test_a_full_device_is_no_defect(args: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "eqsat", *args], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and "no space is left" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_cluster_checks_rules(run: Run) -> None:
    """Two worker processes of a Dask cluster, by its address."""
    distributed: Any = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True)
    try:
        code, out, _ = run(
            "rules", "check", "mine_in_tests", "--seconds", "2", "--jobs", cluster.scheduler_address, "--json"
        )
        assert code == 1 and {name: r["status"] for name, r in statuses(out).items()} == STATUS
    finally:
        cluster.close()


def test_jobs_can_be_interrupted(run: Run, tmp_path: Path) -> None:
    """Ctrl-C ends the command at once, whatever its workers are doing."""
    command = [sys.executable, "-m", "eqsat", "rules", "check", "mine_in_tests", "--jobs", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(4)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "eqsat: interrupted\n")
    assert time.monotonic() - begun < 10


def test_an_address_needs_the_package(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    code, _, err = run("rules", "check", "split-merge", "--jobs", "tcp://127.0.0.1:1")
    assert code == 2 and "eqsat[distributed]" in err
