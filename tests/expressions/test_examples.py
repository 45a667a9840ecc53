"""The smallest example of each rule and law: leaving it out changes the answer."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import campaign
import find_examples
import pytest
from find_examples import EXAMPLES
from without import answer, forget, leaving_out

from eqsat.rules.statement_laws import all_declared

ROWS: list[dict[str, Any]] = json.loads(EXAMPLES.read_text())


@pytest.fixture(autouse=True)
def no_verdicts_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that a rule gave before must not stand in for it."""
    monkeypatch.setenv("EQSAT_CACHE", "off")
    forget()


LONG = ("inverse-pair", "reduce-neutral", "div-of-sum")
"""Examples of seconds and of half a minute; tests of the laws, and other examples, ask the same of smaller ones."""


@pytest.mark.parametrize(
    "row", [pytest.param(r, id=r["rule"], marks=[pytest.mark.slow] if r["rule"] in LONG else []) for r in ROWS]
)
def test_leaving_a_rule_out_changes_its_example(row: dict[str, Any]) -> None:
    assert answer(row) == row["answer"]
    with leaving_out(row["rule"]):
        assert answer(row) == row["without"] != row["answer"]


def test_rules_and_laws_have_examples() -> None:
    """All but those that nothing could go without."""
    shown = [row["rule"] for row in ROWS]
    assert sorted([*shown, *campaign.REASONS]) == sorted(r.name for r in all_declared())


def test_the_campaign_prints_what_changes(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["div-div", "compose", "absorb"]
    assert campaign.main(names) == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) == 3 and all(name in said for name in (*names, "optimize", "bytes"))


def test_the_campaign_is_a_script() -> None:
    script = Path(campaign.__file__)
    done = subprocess.run([sys.executable, str(script), "absorb"], capture_output=True, text=True, cwd="/", check=False)
    assert done.returncode == 0 and "no program can be loaded without it" in done.stdout, done.stderr


def test_the_campaign_tells_what_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = [{"rule": "div-div", "text": "x % 2 % 2", "answer": "x % 2", "without": "x % 2"}]
    (tmp_path / "examples.json").write_text(json.dumps(rows))
    monkeypatch.setattr(campaign, "EXAMPLES", tmp_path / "examples.json")
    assert campaign.main(["div-div", "mod-mod"]) == 1
    assert [line[0] for line in capsys.readouterr().out.splitlines()] == ["!", "!"]


@pytest.mark.slow
def test_examples_are_found_again(capsys: pytest.CaptureFixture[str]) -> None:
    """The search finds an example for each rule that has one; the file stays as it is."""
    text = EXAMPLES.read_text()
    try:
        find_examples.main([])
        assert {row["rule"] for row in json.loads(EXAMPLES.read_text())} >= {row["rule"] for row in ROWS}
    finally:
        EXAMPLES.write_text(text)
