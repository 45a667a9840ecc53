"""What eqsat and Apache TVM answer to the same questions about index maps, with a witness for each wrong answer.

    python tests/peers/tvm_report.py [--maps N] [--seed N] [--json PATH]

--maps is the number of maps of each family. Exit code 1: an answer of eqsat was wrong or missing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from compare_tvm import Answer, Row, generated, rows_of
from features_tvm import Feature
from schedule_features_tvm import FEATURES

KINDS = ("right", "differs", "refused", "wrong")
SIZES = ("eqsat fewer", "as many", "TVM fewer")


def answered(feature: Feature) -> Answer:
    """TVM's answer, an error being a refusal."""
    try:
        return feature.theirs()
    except Exception as error:  # TVM raises many types
        return Answer("refused", str(error).strip().splitlines()[-1][:200])


def status(feature: Feature, theirs: Answer) -> str:
    """TVM's answer as one line; says so where TVM has changed since it was last looked at."""
    now = "" if theirs.kind == feature.seen else f" (was: {feature.seen})"
    return f"{theirs.kind}{now}{': ' + theirs.detail if theirs.detail else ''}"


def tabulate(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Per question: what both did, and how the sizes of simplified terms compare."""
    table: dict[str, Counter[str]] = {}
    for row in rows:
        counts = table.setdefault(row.question, Counter())
        counts["asked"] += 1
        counts[f"eqsat {row.eqsat.kind}"] += 1
        counts[f"tvm {row.tvm.kind}"] += 1
        if row.eqsat.size is not None and row.tvm.size is not None:
            sign = (row.eqsat.size > row.tvm.size) - (row.eqsat.size < row.tvm.size)
            counts[SIZES[sign + 1]] += 1
    return {question: dict(counts) for question, counts in table.items()}


def print_table(table: dict[str, dict[str, int]]) -> None:
    kinds = " ".join(f"{k:>8}" for k in KINDS)
    print(f"{'':30} {'asked':>6} | eqsat {KINDS[0]:>6} {'else':>5} | TVM {kinds} | operations left")
    for question, counts in table.items():
        right = counts.get("eqsat right", 0)
        theirs = " ".join(f"{counts.get(f'tvm {k}', 0):8}" for k in KINDS)
        sizes = ", ".join(f"{k} {counts.get(k, 0)}" for k in SIZES) if counts.keys() & set(SIZES) else ""
        ours = f"{right:6} {counts['asked'] - right:5}"
        print(f"{question:30} {counts['asked']:6} |       {ours} |     {theirs} | {sizes}")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--maps", type=int, default=12, metavar="N", help="maps of each family")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write all answers as JSON")
    options = parser.parse_args(arguments)
    rows = [row for case in generated(options.maps, options.seed) for row in rows_of(*case)]
    ours = [r for r in rows if r.eqsat.kind != "right"]
    theirs = [r for r in rows if r.tvm.kind == "wrong"]
    table = tabulate(rows)
    print(f"eqsat {version('eqsat')} and Apache TVM {version('apache-tvm')}\n")
    print_table(table)
    for title, wrong, side in (("eqsat is wrong or silent", ours, "eqsat"), ("TVM is wrong", theirs, "tvm")):
        print(f"\n{title}: {len(wrong)}")
        for row in wrong:
            print(f"  {row.question}, {row.family}: {row.map} on {row.shape}: {getattr(row, side).detail}")
    fewer = [r for r in rows if r.eqsat.size is not None and r.tvm.size is not None and r.tvm.size < r.eqsat.size]
    print(f"\nTVM's term has fewer operations: {len(fewer)}")
    for row in fewer:
        print(f"  {row.question}, {row.family}: {row.map} on {row.shape}: {row.eqsat.detail} against {row.tvm.detail}")
    print("\nSingle features (eqsat is right on all)")
    features: list[dict[str, Any]] = []
    for f in FEATURES:
        mine, other = f.ours(), answered(f)
        features.append({"feature": f.number, "what": f.what, "eqsat": mine, "tvm": asdict(other), "seen": f.seen})
        print(f"  {f.number:4} {f.what}\n       eqsat: {mine}\n       TVM:   {status(f, other)}")
    if options.json:
        data = {
            "versions": {p: version(p) for p in ("eqsat", "apache-tvm", "islpy", "z3-solver", "numpy")},
            "table": table, "rows": [asdict(r) for r in rows], "features": features,
        }  # fmt: skip
        options.json.write_text(json.dumps(data, indent=1, default=str))
    return 1 if ours else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
