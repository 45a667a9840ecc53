"""Each scalar rule's smallest example: leaving the rule out changes the answer."""

import json
from typing import Any

import find_examples
import pytest
from find_examples import EXAMPLES
from without import answer, forget, leaving_out

from eqsat.rules import scalar_rules

ROWS: list[dict[str, Any]] = json.loads(EXAMPLES.read_text())
WITHOUT_EXAMPLE = 43


@pytest.fixture(autouse=True)
def no_verdicts_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that a rule gave before must not stand in for it."""
    monkeypatch.setenv("EQSAT_CACHE", "off")
    forget()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["rule"])
def test_leaving_a_rule_out_changes_its_example(row: dict[str, Any]) -> None:
    assert answer(row) == row["answer"]
    with leaving_out(row["rule"]):
        assert answer(row) == row["without"] != row["answer"]


def test_rules_have_examples() -> None:
    """All but some old ones: what they say, interval analysis or other rules say as well."""
    names = [r.name for r in scalar_rules()]
    shown = {row["rule"] for row in ROWS}
    assert len(shown) == len(ROWS) and shown <= set(names)
    assert len(names) - len(shown) <= WITHOUT_EXAMPLE


@pytest.mark.slow
def test_examples_are_found_again(capsys: pytest.CaptureFixture[str]) -> None:
    """The search finds an example for each rule that has one; the file stays as it is."""
    text = EXAMPLES.read_text()
    try:
        find_examples.main([])
        assert {row["rule"] for row in json.loads(EXAMPLES.read_text())} >= {row["rule"] for row in ROWS}
    finally:
        EXAMPLES.write_text(text)
