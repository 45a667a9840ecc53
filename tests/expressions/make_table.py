"""Writes the table of expressions: those of the grammars that have smaller forms, each with its least size.

    python tests/expressions/make_table.py [--groups G,G] [--forms PATH]

The least sizes come from an enumeration of all terms by size (`terms_by_size`); a smallest term is then proved equal in
the whole ranges. What cannot be enumerated or proved is left out. `--forms` writes smallest forms too, but those of the
unseen third never: rules are written without them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from grammars import GROUPS, Group, Profile, expression
from terms_by_size import Search

from eqsat.index_graph.cost import cost
from eqsat.ir.dtypes import INDEX, NDArray
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder
from eqsat.proving.prover import Portfolio
from eqsat.proving.read import read

TABLE = Path(__file__).parent / "table.json"
POINTS = 80
PROBES = 4096
REACH = 1500
CANDIDATES = 14  # expressions looked at for each one in the table
UNSEEN = 3  # every third seed


@dataclass(eq=False)
class Candidate:
    """An expression that may get into the table."""

    seed: int
    text: str
    profile: Profile
    term: Term
    form: Term | None = None


def points(group: Group, profile: Profile, count: int) -> dict[str, NDArray]:
    """Points of the ranges where the assumption holds: near to zero, far away, and with values near to each other."""
    source = np.random.default_rng(crc32(f"{group.name} {profile}".encode()))
    found: dict[str, list[int]] = {n: [] for n in group.names}
    assumed = None if not profile.assuming else read([profile.assuming], None)[0][0]
    while len(found[group.names[0]]) < count:
        reach = int(source.choice([3, 9, 9, 40, REACH]))
        point: dict[str, int] = {}
        for name in group.names:
            near = int(source.choice(list(point.values()))) if point and source.random() < 0.4 else 0
            start, stop = _ends(profile, name)
            low = -reach if start is None else start
            high = (reach if start is None else start + reach) if stop is None else stop - 1
            value = near + int(source.integers(-3, 4)) if near else int(source.integers(low, high + 1))
            point[name] = max(value, start) if start is not None else value
            point[name] = min(point[name], stop - 1) if stop is not None else point[name]
        if assumed is not None:
            env = {v: np.asarray(point[str(v)]) for v in postorder(assumed) if v.op == "var"}
            if not bool(evaluate_masked([assumed], env)[0][0]):
                continue
        for name, value in point.items():
            found[name].append(value)
    return {n: np.array(values, np.int64) for n, values in found.items()}


def _ends(profile: Profile, name: str) -> tuple[int | None, int | None]:
    given = profile.ranges.get(name, (None, None))
    return (0, given) if isinstance(given, int) else given


def values(term: Term, env: dict[str, NDArray]) -> NDArray | None:
    """The values at points; None where one is undefined."""
    count = len(next(iter(env.values())))
    value, bad = evaluate_masked([term], {t.var(n): v for n, v in env.items()})[0]
    if bad is not None and bool(np.any(bad)):
        return None
    return np.broadcast_to(value, (count,)).astype(np.int64)


def candidates(group: Group) -> list[Candidate]:
    """Different expressions of a class in the order of their seeds."""
    found: dict[tuple[Term, int], Candidate] = {}
    for seed in range(CANDIDATES * group.count):
        text, profile = expression(group, seed)
        term = read([text], None)[0][0]
        found.setdefault((term, id(profile)), Candidate(seed, text, profile, term))
    return list(found.values())


def find_forms(group: Group, those: list[Candidate], profile: Profile) -> None:
    """Give the smallest forms to those that have smaller ones."""
    env, probes = points(group, profile, POINTS), points(group, profile, PROBES)
    search = Search(group, env)
    limit = max(cost(c.term) for c in those) - 2
    search.grow(min(limit, 8))
    for is_index in (True, False):
        asked = [
            (c, row) for c in those if (c.term.dtype == INDEX) == is_index and (row := values(c.term, env)) is not None
        ]
        if not asked:
            continue
        for (c, _), found in zip(asked, search.smallest([row for _, row in asked], is_index), strict=True):
            if found is not None and cost(found[1]) < cost(c.term):
                there, here = values(c.term, probes), values(found[1], probes)
                if there is not None and here is not None and np.array_equal(there, here):
                    c.form = found[1]


def is_proved(c: Candidate, form: Term) -> bool:
    """Whether the form is equal in the whole ranges."""
    terms, box = read([c.term, form, *([c.profile.assuming] if c.profile.assuming else [])], c.profile.ranges)
    return Portfolio().equal(terms[0], terms[1], box, terms[2] if len(terms) > 2 else None).verdict == "proved"


def rows_of(group: Group) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of a class, and the smallest forms of those that are not unseen."""
    these = candidates(group)
    for profile in {str(p): p for p in group.profiles}.values():
        find_forms(group, [c for c in these if c.profile == profile], profile)
    rows: list[dict[str, Any]] = []
    forms: list[str] = []
    for c in these:
        if c.form is None or len(rows) == group.count or not is_proved(c, c.form):
            continue
        unseen = c.seed % UNSEEN == UNSEEN - 1
        row: dict[str, Any] = {"class": group.name, "seed": c.seed, "text": c.text, "size": cost(c.form)}
        if c.profile.ranges:
            row["ranges"] = c.profile.ranges
        if c.profile.assuming:
            row["assuming"] = c.profile.assuming
        rows.append({**row, "unseen": unseen})
        if not unseen:
            forms.append(f"{group.name} {c.seed}: {c.form}")
    return rows, forms


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", default=",".join(g.name for g in GROUPS))
    parser.add_argument("--forms", type=Path)
    options = parser.parse_args(arguments)
    chosen = options.groups.split(",")
    rows = [r for r in json.loads(TABLE.read_text()) if r["class"] not in chosen] if TABLE.exists() else []
    forms: list[str] = []
    for group in GROUPS:
        if group.name in chosen:
            start = time.perf_counter()
            more, seen = rows_of(group)
            rows += more
            forms += seen
            print(f"{group.name}: {len(more)} of {group.count}, {time.perf_counter() - start:.0f} s", flush=True)
    order = [g.name for g in GROUPS]
    rows.sort(key=lambda r: (order.index(r["class"]), r["seed"]))
    TABLE.write_text("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
    if options.forms:
        options.forms.write_text("\n".join(forms) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
