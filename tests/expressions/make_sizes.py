"""Writes the sizes that simplifying reaches now, for expressions that the table does not have: none may get larger.

    python tests/expressions/make_sizes.py

They are expressions of the same grammars, whether or not they have smaller forms, and of index maps: a map after its
inverse, and the predicate of the cells that the inverse leads into the box. Sizes that are there already are kept
where they are smaller.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from typing import Any

from grammars import GROUPS, expression

from eqsat.index_graph.cost import cost
from eqsat.ir.errors import LayoutError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute
from eqsat.simplifying.simplify import simplify
from eqsat.testing.maps import MAP_FAMILIES, random_map

SIZES = Path(__file__).parent / "sizes.json"
FIRST = 100_000  # seeds from here on are not in the table
EACH = 50
MAPS = 12


def of_grammars() -> list[dict[str, Any]]:
    """Expressions of each class."""
    rows: dict[str, dict[str, Any]] = {}
    for group in GROUPS:
        for seed in range(FIRST, FIRST + EACH):
            text, profile = expression(group, seed)
            row: dict[str, Any] = {"text": text}
            if profile.ranges:
                row["ranges"] = profile.ranges
            if profile.assuming:
                row["assuming"] = profile.assuming
            rows[json.dumps(row)] = row
    return list(rows.values())


def of_maps() -> list[dict[str, Any]]:
    """Maps of each family and size after their inverses, and where these lead into the box."""
    rows: list[dict[str, Any]] = []
    for family in MAP_FAMILIES:
        for n in range(MAPS):
            m, shape = random_map(family, Random(f"{family} {n}"), (64, 4096, 10**6)[n % 3])
            try:
                back, _ = m.non_surjective_inverse(shape)
            except LayoutError:
                continue
            if back.is_table or m.is_table:
                continue
            table = dict(zip(back.inputs, m.outputs, strict=True))
            ranges = dict(zip(m.names, shape, strict=True))
            rows += [_row(substitute(o, table), ranges) for o in back.outputs]
            inside = [
                t.compare(*c) for o, e in zip(back.outputs, shape, strict=True) for c in (("le", 0, o), ("lt", o, e))
            ]
            cells = {name: int(str(e)) for name, e in zip(back.names, m.map_shape(shape), strict=True)}
            rows.append(_row(t.logical_and(*inside), cells))
    return [row for row in rows if 12 < len(row["text"]) < 600]


def _row(term: Term, ranges: dict[str, int]) -> dict[str, Any]:
    return {"text": str(term), "ranges": ranges}


def size(row: dict[str, Any]) -> int:
    """What simplifying an expression reaches."""
    ranges = {n: r if isinstance(r, int) else tuple(r) for n, r in row.get("ranges", {}).items()}
    return cost(simplify(row["text"], ranges, row.get("assuming")))


def main() -> int:
    known = {json.dumps({**r, "size": 0}): r["size"] for r in json.loads(SIZES.read_text())} if SIZES.exists() else {}
    rows = [{**row, "size": size(row)} for row in (*of_grammars(), *of_maps())]
    for row in rows:
        row["size"] = min(row["size"], known.get(json.dumps({**row, "size": 0}), row["size"]))
    SIZES.write_text("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
