"""Real graphs: what each tool makes of them: bytes moved, nodes, and processor time in onnxruntime.

    python benchmarks/graphs.py MODELS [--only NAME,..] [--python PYTHON] [--objective O] [--target T] [--json PATH]

MODELS is a folder of .onnx files (without it, this is all that is printed); `graph_suite.export` writes the suite's own
networks there (in an environment with torch), `graph_suite.wheels` those that packages bring. PYTHON is an interpreter
that has onnxsim, onnxslim and openvino; without it only onnxruntime's own pass stands beside us. OpenVINO writes no
model: it stands beside us as another runtime, for the input and for ours, with the bytes that its layout operators move
(also into the formats of its kernels) and its time.

For each model one line: nodes before and after, the same after onnxruntime's own pass (EXTENDED), megabytes moved
before and after, megabytes of the best other tool, megabytes that are left after that pass for the input, us and the
best other tool, seconds of optimising, and the time of our result and of the best other tool over that of the input
(each at its best level, one thread, in turns; the noise is about 4 %). Results are compared with the input.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx as onnx_package
from graph_suite.latency import geometric_mean, kernels_after, latencies
from graph_suite.moved import moved_bytes
from graph_suite.suite import FAMILIES
from graph_suite.tools import TOOLS, in_openvino, run

import eqsat.onnx
from eqsat.files import write_whole
from eqsat.ir.errors import EqsatError
from eqsat.onnx.check import compare_models, random_inputs

onnx: Any = onnx_package
NOISE = 0.04
CLOSED = 1e-6
"""A gap below that is none: the solver of integer programs stops there."""


@dataclass
class Version:
    """A model as a tool leaves it."""

    path: str
    nodes: int = 0
    moved: float = 0.0
    """Megabytes that layout operators move."""
    moved_after: float = 0.0
    """The same after onnxruntime's own pass."""
    nodes_after: int = 0
    seconds: float = 0.0
    """Seconds of optimising."""
    time: float = 0.0
    """Seconds of a run in onnxruntime."""
    wrong: str = ""


@dataclass
class Row:
    """A model and its versions by tool; "input" is the model itself."""

    name: str
    family: str
    versions: dict[str, Version] = field(default_factory=dict[str, Version])
    gap: float | None = None
    status: str = ""
    openvino: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """What OpenVINO runs of the input and of ours."""

    def best(self, what: str) -> tuple[str, float]:
        """The other tool with the least of something."""
        others = {n: v for n, v in self.versions.items() if n != "eqsat" and not v.wrong}
        name = min(others, key=lambda n: float(getattr(others[n], what)))
        return name, float(getattr(others[name], what))

    @property
    def ratio(self) -> float:
        return self.versions["eqsat"].time / self.versions["input"].time


def looked_at(version: Version, feeds: Mapping[str, Any], folder: Path) -> None:
    """Count what a version moves."""
    model = eqsat.onnx.load_model(version.path)
    version.nodes, version.moved = len(model.graph.node), moved_bytes(model, feeds) / 1e6
    after = onnx.load(str(kernels_after(Path(version.path), folder)))
    version.nodes_after, version.moved_after = len(after.graph.node), moved_bytes(after, feeds) / 1e6


def compared(path: Path, chosen: argparse.Namespace, folder: Path) -> Row:
    """One model through all tools."""
    family = FAMILIES.get(path.name.split(".")[0], "other")
    row = Row(path.name.removesuffix(".onnx"), family, {"input": Version(str(path))})
    before = eqsat.onnx.load_model(path)
    start = time.perf_counter()
    row.versions["eqsat"] = ours = Version(str(folder / "eqsat.onnx"))
    try:
        result = eqsat.onnx.optimize(before, target=chosen.target, objective=chosen.objective)
    except EqsatError as error:
        ours.wrong = str(error)
        return row
    ours.seconds = time.perf_counter() - start
    eqsat.onnx.save_model(result.model, ours.path)
    row.gap, row.status = result.gap, result.status
    for tool in TOOLS if chosen.python else ():
        version = Version(str(folder / f"{tool}.onnx"))
        version.seconds, version.wrong = run(tool, path, Path(version.path), [chosen.python])
        row.versions[tool] = version
    feeds = random_inputs(before, 0)
    for name, version in row.versions.items():
        if version.wrong:
            continue
        looked_at(version, feeds, folder)
        if name != "input":
            check = compare_models(before, eqsat.onnx.load_model(version.path), tolerance=1e-3)
            version.wrong = "" if check.equal else f"DIFFERENT: {check.worst:.2g}"
    right = {n: Path(v.path) for n, v in row.versions.items() if not v.wrong}
    for name, seconds in latencies(right, feeds, chosen.seconds).items():
        row.versions[name].time = seconds
    if chosen.python:
        both = [n for n in ("input", "eqsat") if n in right]
        row.openvino = dict(zip(both, in_openvino([right[n] for n in both], feeds, [chosen.python]), strict=True))
    return row


def line(row: Row) -> str:
    """A row of the table."""
    own, ours = row.versions["input"], row.versions["eqsat"]
    if ours.wrong:
        return f"{row.name:28} {ours.wrong}"
    tool, moved = row.best("moved")
    _, after = row.best("moved_after")
    _, best = row.best("time")
    wrong = " ".join(f"[{n}: {v.wrong}]" for n, v in row.versions.items() if v.wrong)
    gap = "-" if row.gap is None else f"{row.gap:.2f}"
    there = [row.openvino.get(n, {}) for n in ("input", "eqsat")]
    wrong += " ".join(f"[openvino: {x['wrong']}]" for x in there if x.get("wrong"))
    runs = all(x.get("time") for x in there)
    other = (
        f"{there[0]['moved']:7.2f} {there[1]['moved']:7.2f} {there[1]['time'] / there[0]['time']:6.3f}" if runs else ""
    )
    return (
        f"{row.name:28} {own.nodes:5}->{ours.nodes:<5} {own.nodes_after:5}->{ours.nodes_after:<5}"
        f" {own.moved:7.2f} {ours.moved:7.2f} {moved:7.2f} {tool:9}"
        f" {own.moved_after:7.2f} {ours.moved_after:7.2f} {after:7.2f} {ours.seconds:6.1f} {gap:>5}"
        f" {own.time * 1e3:7.2f} {row.ratio:6.3f} {best / own.time:6.3f} {other} {wrong}"
    )


def summary(rows: list[Row]) -> str:
    """Means by family, and who is ahead."""
    lines: list[str] = []
    families: dict[str, list[Row]] = defaultdict(list)
    good = [r for r in rows if not r.versions["eqsat"].wrong]
    for row in good:
        families[row.family].append(row)
        families["all"].append(row)
    for family, members in families.items():
        ratios = [r.ratio for r in members]
        others = [r.best("time")[1] / r.versions["input"].time for r in members]
        slower = sum(r > 1 + NOISE for r in ratios)
        lines.append(
            f"{family:12} {len(members):3} models  time {geometric_mean(ratios):.3f} (worst {max(ratios):.3f},"
            f" {slower} slower than noise)  best other {geometric_mean(others):.3f}"
        )
    for what in ("moved", "moved_after"):
        pairs = [(float(getattr(r.versions["eqsat"], what)), r.best(what)[1]) for r in good]
        counts = [sum(a < b * 0.999 for a, b in pairs), sum(abs(a - b) <= b * 0.001 for a, b in pairs)]
        lines.append(f"{what}: ahead {counts[0]}, equal {counts[1]}, behind {len(pairs) - sum(counts)}")
    pairs = [(r.openvino["eqsat"], r.openvino["input"]) for r in good if len(r.openvino) == 2]
    pairs = [(a, b) for a, b in pairs if a.get("time") and b.get("time")]
    if pairs:
        fewer = [
            sum(a["moved"] < b["moved"] * 0.999 for a, b in pairs),
            sum(a["moved"] > b["moved"] * 1.001 for a, b in pairs),
        ]
        mean = geometric_mean([a["time"] / b["time"] for a, b in pairs])
        lines.append(f"in OpenVINO, {len(pairs)} models: time {mean:.3f}; fewer bytes {fewer[0]}, more {fewer[1]}")
    seconds = sorted(r.versions["eqsat"].seconds for r in good)
    if seconds:
        closed = sum(r.gap is not None and r.gap < CLOSED for r in good)
        middle, most = seconds[len(seconds) // 2], seconds[-1]
        lines.append(f"seconds: median {middle:.2f}, most {most:.2f}; gap below {CLOSED:g} on {closed}")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", type=Path, nargs="?", help="a folder of .onnx files")
    parser.add_argument("--only", default="", help="names of models, as vit.ts,swin.dy")
    parser.add_argument("--python", default="", help="an interpreter that has onnxsim and onnxslim")
    parser.add_argument("--objective")
    parser.add_argument("--target", default="onnx")
    parser.add_argument("--seconds", type=float, default=3.0, help="of timed runs for each model")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    if chosen.models is None:
        print(__doc__)
        return 0
    names = {x for x in str(chosen.only).split(",") if x}
    rows: list[Row] = []
    failed = False
    print(
        f"{'model':28} {'nodes':>12} {'pass':>12}"
        f" {'MB':>7} {'ours':>7} {'other':>7} {'':9} {'pass':>7} {'ours':>7} {'other':>7}"
        f" {'sec':>6} {'gap':>5} {'ms':>7} {'time':>6} {'other':>6} {'ov':>7} {'ours':>7} {'time':>6}"
    )
    for path in sorted(chosen.models.glob("*.onnx")):
        if names and path.name.removesuffix(".onnx") not in names:
            continue
        with TemporaryDirectory() as folder:
            try:
                rows.append(compared(path, chosen, Path(folder)))
            except EqsatError as error:  # the model as given, or ours, does not run
                print(f"{path.name}: {error}", flush=True)
                failed = True
                continue
        print(line(rows[-1]), flush=True)
    print(summary(rows))
    if chosen.json:
        table: list[dict[str, Any]] = [asdict(row) for row in rows]
        write_whole(chosen.json, json.dumps(table, indent=1).encode())
    return 1 if failed or any(r.versions["eqsat"].wrong for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
