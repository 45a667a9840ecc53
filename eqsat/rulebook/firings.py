"""Recorded firings: for each rule and law the smallest example of the corpus on which it fires, wherever it acts.

They are found and written by `tests/expressions/find_firings.py`, and the tests let them fire again.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def firings() -> dict[str, dict[str, dict[str, Any]]]:
    """By the name of a rule or law and where it acts: an expression with its ranges, a program, a function, or the
    law that is proved by an axiom.

    >>> firings()["min-div"]["graph"]["text"]
    'minimum(x, y) // 3'
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in json.loads(Path(__file__).with_name("firings.json").read_text(encoding="utf-8")):
        found.setdefault(row["name"], {})[row["in"]] = {k: v for k, v in row.items() if k not in ("name", "in")}
    return found
