"""Index maps: the time to decide, to invert and to simplify, beside Apache TVM and isl in the same run.

    python benchmarks/index_maps.py [--maps N] [--sizes N,N,..] [--families F,F,..]
                                    [--questions Q,Q] [--json PATH]

For each family and number of points, `--maps` maps. Every side gets the map in its own notation, ready made, and is
timed from there to its answer (processor time; rounds are interleaved). Times of eqsat are cold, without any cached
answer, in memory or on disk ("warm": asked again). The questions are the same, the answers are not equally strong:

  decide              eqsat: is_bijective onto the declared shape, a no with a witness. TVM: detect_iter_map, which
                      ignores strides and offsets and has no witness. isl: is_injective, and the range is the whole box.
  invert              the inverse and the cells without a point, or that two points share a cell. eqsat tries its
                      inverse before it returns it (steps that hold at every point: at all points of a box of up to
                      16,384, at 4,096 of a larger one; others at all points, or proved), TVM does not; isl's function
                      is a piecewise one.
  simplify map        the inverse after the map, which is the identity. eqsat derives its result by proved rules and
                      tries it at points.
  simplify predicate  the cells that the inverse leads into the box.

Answers are checked afterwards. "n/N" counts the right ones; a simplification is "longer" where another side's has fewer
operations (isl's: where it is not the plain variable). "ratio" is eqsat's time over that of the faster peer that was
right, the median over the maps where one was. Without TVM installed, its columns are empty.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from map_suite.check import judge, truth
from map_suite.isl_worker import Timed
from map_suite.sides import QUESTIONS, Case, Question, Side, available

from eqsat.files import write_whole
from eqsat.ir.errors import EqsatError, LayoutError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.walk import substitute
from eqsat.testing.maps import MAP_FAMILIES, random_map

ROUNDS = 3
LONG = 0.3  # seconds after which a call is not repeated
ISL_OPERATIONS = 200_000
GOAL_SECONDS = 0.005
GOAL_RATIO = 2.0


@dataclass
class Measured:
    """One side's answer to one question: seconds of each round, and whether it was right."""

    seconds: list[float] = field(default_factory=list[float])
    verdict: str = "refused"
    note: str = ""
    size: int | None = None
    warm: float | None = None

    @property
    def time(self) -> float:
        return float(np.median(self.seconds))


@dataclass(frozen=True)
class Row:
    question: Question
    family: str
    size: int
    map: str
    shape: tuple[int, ...]
    sides: dict[str, Measured]

    @property
    def ratio(self) -> float | None:
        """eqsat's time over that of the faster peer with a right answer."""
        peers = [m.time for n, m in self.sides.items() if n != "eqsat" and m.verdict == "right"]
        mine = self.sides["eqsat"]
        return mine.time / min(peers) if peers and mine.seconds else None


def make_case(family: str, rng: Random, points: int) -> Case:
    """A map of about so many points (within a factor of ten where the family allows), and what to simplify."""
    best: tuple[Any, ...] | None = None
    for _ in range(200):
        m, shape = random_map(family, rng, points)
        if best is None or prod(shape) > prod(best[1]):
            best = m, shape
        if prod(shape) * 10 >= points:
            best = m, shape
            break
    assert best is not None
    m, shape = best
    declared = tuple(int(str(n)) for n in m.map_shape(shape))
    try:
        back, _ = m.non_surjective_inverse(shape)
    except LayoutError:
        return Case(family, m, shape, declared)
    if back.is_table or m.is_table:
        return Case(family, m, shape, declared)
    table = dict(zip(back.inputs, m.outputs, strict=True))
    bounds = (t.compare(*c) for o, n in zip(back.outputs, shape, strict=True) for c in (("le", 0, o), ("lt", o, n)))
    terms = tuple(substitute(o, table) for o in back.outputs)
    return Case(family, m, shape, declared, terms, t.logical_and(*bounds), back.names)


def seconds_of(ask: Callable[[], Any]) -> tuple[float, Any]:
    """The processor time of a call, of all threads: unlike the clock on the wall, it leaves out what else runs.
    What another process answers is timed there."""
    start = time.process_time()
    try:
        result = ask()
    except EqsatError as error:
        result = error
    return (result.seconds if isinstance(result, Timed) else time.process_time() - start), result


def measure(
    question: Question, case: Case, size: int, sides: Sequence[Side], known: tuple[bool | None, bool | None]
) -> Row:
    """Ask all sides in turn, a few times, then check what they answered."""
    asks = {s.name: s.prepare(question, case) for s in sides}
    measured = {s.name: Measured() for s in sides}
    results: dict[str, Any] = {}
    gc.collect()
    gc.disable()
    for _ in range(ROUNDS):
        for side in sides:
            ask, mine = asks[side.name], measured[side.name]
            if ask is None or (mine.seconds and mine.seconds[-1] > LONG):
                continue
            side.forget()
            seconds, results[side.name] = seconds_of(ask)
            mine.seconds.append(seconds)
            if side.name == "eqsat":
                mine.warm, _ = seconds_of(ask)
    gc.enable()
    for side in sides:
        if side.name in results:
            mine = measured[side.name]
            if isinstance(results[side.name], EqsatError) and not isinstance(results[side.name], LayoutError):
                mine.verdict, mine.note = "unknown", str(results[side.name])[:160]
                continue
            found = side.read(question, case, results[side.name])
            mine.verdict, mine.note, mine.size = judge(question, case, found, *known), found.note, found.size
    sizes = [m.size for m in measured.values() if m.verdict == "right" and m.size is not None]
    for mine in measured.values():
        if mine.verdict == "right" and mine.size is not None and mine.size > min(sizes):
            mine.verdict = "longer"
    return Row(question, case.family, size, str(case.m), case.shape, measured)


# -- the report -------------------------------------------------------------------------------------------------------


def _ms(values: Sequence[float], spread: bool = True) -> str:
    if not values:
        return "-"
    low, middle, high = (1000 * float(x) for x in np.percentile(values, (25, 50, 75)))
    return f"{middle:.2f} [{low:.2f}-{high:.2f}]" if spread else f"{middle:.2f}"


def _times(rows: Sequence[Row], side: str) -> list[float]:
    return [r.sides[side].time for r in rows if side in r.sides and r.sides[side].seconds]


def line_of(rows: Sequence[Row]) -> list[str]:
    """The columns after the label."""
    columns = [_ms(_times(rows, "eqsat")), _ms([r.sides["eqsat"].warm or 0.0 for r in rows], spread=False)]
    columns += [_ms(_times(rows, "tvm")), _ms(_times(rows, "isl"))]
    ratios = [r.ratio for r in rows if r.ratio is not None]
    columns.append(f"{float(np.median(ratios)):.2f}" if ratios else "-")
    for side in ("eqsat", "tvm", "isl"):
        verdicts = [r.sides[side].verdict for r in rows if side in r.sides]
        notes = ", ".join(f"{verdicts.count(k)} {k}" for k in ("longer", "wrong") if k in verdicts)
        columns.append(f"{verdicts.count('right')}/{len(verdicts)}{f' ({notes})' if notes else ''}")
    return columns


HEAD = ("eqsat ms [IQR]", "warm", "TVM ms [IQR]", "isl ms [IQR]", "ratio", "eqsat", "TVM", "isl")
WIDTHS = (24, 8, 24, 28, 9, 20, 20, 20)


def print_line(label: str, columns: Sequence[str]) -> None:
    print(f"{label:24}" + "".join(f"{c:>{w}}" for c, w in zip(columns, WIDTHS, strict=True)))


def report(rows: Sequence[Row]) -> None:
    for question in QUESTIONS:
        here = [r for r in rows if r.question == question]
        if not here:
            continue
        print(f"\n{question}")
        print_line("family, points up to", HEAD)
        for family, size in dict.fromkeys((r.family, r.size) for r in here):
            print_line(f"{family:12} {size:>10.0e}", line_of([r for r in here if (r.family, r.size) == (family, size)]))
        print_line("all", line_of(here))
    print()
    for line in summary(rows):
        print(line)


def summary(rows: Sequence[Row]) -> list[str]:
    """How the run stands against the goal."""
    lines: list[str] = []
    for question in QUESTIONS:
        here = [r for r in rows if r.question == question]
        if not here:
            continue
        middle = float(np.median(_times(here, "eqsat")))
        slow: list[str] = []
        for family in dict.fromkeys(r.family for r in here):
            ratios = [r.ratio for r in here if r.family == family and r.ratio is not None]
            if ratios and float(np.median(ratios)) > GOAL_RATIO:
                slow.append(f"{family} {float(np.median(ratios)):.1f}x")
        bad = {k: sum(r.sides["eqsat"].verdict == k for r in here) for k in ("unknown", "wrong", "longer")}
        lines.append(
            f"{question}: median {1000 * middle:.2f} ms ({'within' if middle < GOAL_SECONDS else 'above'} "
            f"{1000 * GOAL_SECONDS:g} ms); {', '.join(f'{n} {k}' for k, n in bad.items())} of {len(here)}; "
            f"families above {GOAL_RATIO:g}x the faster peer: {', '.join(slow) or 'none'}"
        )
    return lines


def as_data(row: Row) -> dict[str, Any]:
    sides = {
        name: {"seconds": m.seconds, "warm": m.warm, "verdict": m.verdict, "note": m.note, "operations": m.size}
        for name, m in row.sides.items()
    }
    own = {"question": row.question, "family": row.family, "size": row.size, "map": row.map, "shape": row.shape}
    return {**own, "ratio": row.ratio, "sides": sides}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--maps", type=int, default=4, metavar="N", help="maps of each family and size")
    parser.add_argument("--sizes", default="1000,1000000,1000000000", metavar="N,N", help="numbers of points")
    parser.add_argument("--families", default=",".join(MAP_FAMILIES), metavar="F,F")
    parser.add_argument("--questions", default=",".join(QUESTIONS), metavar="Q,Q")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every measurement as JSON")
    options = parser.parse_args(arguments)
    for name, known in (("families", MAP_FAMILIES), ("questions", QUESTIONS)):
        missing = [x for x in getattr(options, name).split(",") if x not in known]
        if missing:
            parser.error(f"--{name}: there is no {missing[0]!r}; there are {', '.join(known)}")
    return options


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
    os.environ["EQSAT_CACHE"] = "off"
    families, sizes = options.families.split(","), [int(float(n)) for n in options.sizes.split(",")]
    wanted: list[Question] = [q for q in QUESTIONS if q in options.questions.split(",")]
    sides, missing = available(ISL_OPERATIONS)
    for package in missing:
        print(f"{package} is not installed, so its columns stay empty: pip install {package}")
    warm_up = make_case("split", Random(0), 100)
    for question in QUESTIONS:  # imports, compiled rules
        measure(question, warm_up, 100, sides, truth(warm_up))
    rows: list[Row] = []
    for family in families:
        for size in sizes:
            for n in range(options.maps):
                case = make_case(family, Random(f"{options.seed} {family} {size} {n}"), size)
                known = truth(case)
                asked: list[Question] = wanted if case.terms else [q for q in wanted if q in QUESTIONS[:2]]
                rows += [measure(q, case, size, sides, known) for q in asked]
            print(f"\r{family} {size:.0e}      ", end="", file=sys.stderr, flush=True)
    print("\r", end="", file=sys.stderr)
    installed = [p for p in ("apache-tvm", "islpy") if p not in missing]
    print(f"eqsat beside {', '.join(f'{p} {version(p)}' for p in installed)}; {options.maps} maps of each kind")
    report(rows)
    if options.json:
        data = {"versions": {p: version(p) for p in installed}, "rows": [as_data(r) for r in rows]}
        write_whole(options.json, json.dumps(data, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
