"""What checking results costs, and how much of what was changed it reaches.

For each model: the changed regions that were proved, run, or neither, and what the check took, in milliseconds of
processor time and as a share of the run. The goal: under 1 % of all regions neither, at most the larger of 100 ms and
10 % of a run. Models are built by code; paths of others may be given.

    python benchmarks/checking.py [MODEL.onnx ...] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import eqsat as eq
from eqsat import nets

BUILT: Mapping[str, Callable[[], object]] = {
    "converter, 8 blocks": lambda: nets.nhwc_converter_net(blocks=8),
    "converter, 20 blocks": nets.nhwc_converter_net,
    "converter, 50 blocks": lambda: nets.nhwc_converter_net(blocks=50),
    "conv chain": nets.conv_chain,
    "windows": nets.window_partition,
    "channel shuffle": nets.channel_shuffle,
}
GOAL = 0.01


@dataclass(frozen=True)
class Row:
    """A model: its regions by verdict, seconds of the run without and with checking, and of the check by itself."""

    model: str
    proved: int
    run: int
    neither: int
    seconds: float
    check: float
    difference: str = ""

    @property
    def within(self) -> bool:
        """Whether the check kept to its budget."""
        return self.check <= max(0.1, 0.1 * self.seconds) * 1.1


def measured(name: str, model: object) -> Row:
    """Optimise a model, checked."""
    begun = time.perf_counter()
    best = eq.onnx.optimize(model)  # type: ignore[arg-type]
    whole = time.perf_counter() - begun
    done = best.checked
    counts = done.count("proved"), done.count("run"), done.count("neither")
    difference = "" if done.difference is None else f"{done.difference.what}: {done.difference.problem}"
    return Row(name, *counts, whole - done.seconds, done.seconds, difference)


def table(rows: list[Row]) -> str:
    """The rows and their sum, as text."""
    lines = [f"{'model':32} {'proved':>7} {'run':>5} {'neither':>8} {'run, s':>8} {'check, ms':>10} {'share':>7}"]
    for row in rows:
        share, note = row.check / max(row.seconds, 1e-9), "" if row.within else "  over the budget"
        counts = f"{row.proved:7} {row.run:5} {row.neither:8}"
        times = f"{row.seconds:8.2f} {1000 * row.check:10.1f} {share:7.1%}"
        lines.append(f"{row.model[:32]:32} {counts} {times}{note}" + (f"  {row.difference}" if row.difference else ""))
    regions = sum(r.proved + r.run + r.neither for r in rows)
    neither = sum(r.neither for r in rows)
    share = neither / regions if regions else 0.0
    kept = sum(r.within for r in rows)
    proved, run = sum(r.proved for r in rows), sum(r.run for r in rows)
    lines.append(
        f"{regions} changed regions: {proved} proved, {run} run, {neither} neither ({share:.1%}, goal {GOAL:.0%}); "
        f"{kept} of {len(rows)} checks kept to their budget"
    )
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Print the table; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(argv)
    models: dict[str, object] = {name: make() for name, make in BUILT.items()}
    models.update({p.name: p for p in given.models})
    eq.onnx.optimize(nets.conv_chain())  # starts the worker
    rows = [measured(name, model) for name, model in models.items()]
    print(table(rows))
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(r) for r in rows], indent=1))
    regions = sum(r.proved + r.run + r.neither for r in rows)
    missed = sum(r.neither for r in rows) > GOAL * regions or not all(r.within for r in rows)
    return int(missed or any(r.difference for r in rows))


if __name__ == "__main__":
    sys.exit(main())
