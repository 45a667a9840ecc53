"""Prints, for each rule and law, a question whose answer changes where it is left out.

    python tests/expressions/campaign.py [NAME ...]

The questions are the recorded ones (`find_examples.py` looks for them); each is asked again, with the rule and without.
The exit code is 1 where a rule or law changes nothing, or none was recorded and none of the reasons below is there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from find_examples import EXAMPLES
from without import answer, forget, leaving_out

from eqsat.rules.statement_laws import all_declared

WIDTH = 60
REASONS = {
    "absorb": "no program can be loaded without it",
}


def asked(row: dict[str, Any]) -> tuple[str, str]:
    """What is said to an example now, and where its rule is left out."""
    forget()
    said = answer(row)
    with leaving_out(row["rule"]):
        return said, answer(row)


def table(names: list[str]) -> Iterator[tuple[str, str, str, str, str]]:
    """Name, question, example, answer and answer without, of each rule and law."""
    rows = {row["rule"]: row for row in json.loads(EXAMPLES.read_text())}
    for rule in all_declared():
        if names and rule.name not in names:
            continue
        row = rows.get(rule.name)
        if row is None:
            yield rule.name, "", REASONS.get(rule.name, "NO EXAMPLE"), "", ""
            continue
        question = row.get("question", "simplify")
        asked_about = {
            "inverse": row.get("map"),
            "optimize": f"a program of {len(row.get('program', ''))} characters",
            "optimize_statements": f"a function of {len(row.get('function', '').splitlines())} lines",
            "proof": row.get("law"),
        }
        yield rule.name, question, asked_about.get(question) or row["text"], *asked(row)


def main(names: list[str]) -> int:
    os.environ["EQSAT_CACHE"] = "off"
    needed = True
    for name, question, example, said, without in table(names):
        idle = example == "NO EXAMPLE" or (bool(question) and said == without)
        needed = needed and not idle
        shown = [f"{text[:WIDTH]:{WIDTH}}" for text in (example, said, without)]
        print(f"{'!' if idle else ' '} {name:28} {question:19}", *shown, flush=True)
    return 0 if needed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
