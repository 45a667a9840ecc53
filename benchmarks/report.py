"""Seconds until the page of a report is there, in a Chromium without a window.

    python benchmarks/report.py [--browser PROGRAM] [--nodes N,..] [--rounds N]

A page of N operators, a quarter of which are moves that were removed, is made and opened anew each time, with nothing
cached. Shown are its size, the seconds of making it, and the median and the worst seconds until it is laid out, as
the page itself measures them. The bar is 2 s for 2,000 operators.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import eqsat as eq
from eqsat.checking.verdict import Checked, RegionCheck
from eqsat.reporting.page import page
from eqsat.reporting.sides import Side, Vertex
from eqsat.reporting.summary import Report

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
TELL = """<script>addEventListener("load", () => {
  document.body.getBoundingClientRect(); // lays out all of it
  document.title = `there ${performance.now()}`;
});</script></body>"""


def report_of(count: int) -> Report:
    """A report of a chain of so many operators, every fourth of which moves data and is gone."""
    sides: list[Side] = []
    for moves in (True, False):
        made = [Vertex("x", "", "input", "float32(8)", "input x", ())]
        for n in range(count):
            kind, moved = ("Transpose", 64) if n % 4 == 0 else ("Relu", 0)
            if moves or not moved:
                reads = (made[-1].tensor,) if n % 7 else (made[-1].tensor, made[len(made) // 2].tensor)
                text, name = f"t{n}[i0]", f"/layers.{n // 12}/{kind}_{n}"
                made.append(Vertex(f"t{n}", name, kind, "float32(8)", text, reads, moved, 1000, name))
        sides.append(Side(tuple(made), 0))
    gone = tuple(v.key for v in sides[0].operators if v.moved)
    checked = Checked((RegionCheck("proved", "the same operations", 0.01, gone, ()),), 0.01)
    base = eq.optimize(eq.input("x", (8,), "float32").relu()).report
    return replace(base, before=sides[0], after=sides[1], costs=(count, count // 2), same=False, checked=checked)


def opened(browser: str, path: Path) -> float:
    """Seconds until a page is laid out, as it says itself."""
    with TemporaryDirectory() as profile:
        command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
        command += ["--window-size=1280,900", "--dump-dom", "--timeout=20000", path.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r"<title>there ([\d.]+)</title>", done.stdout)
    if found is None:
        raise SystemExit(f"the page said nothing: {done.stderr[-500:]}")
    return float(found[1]) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--browser", default=next(filter(None, map(shutil.which, NAMES)), None))
    parser.add_argument("--nodes", default="200,2000")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.browser is None:
        raise SystemExit("no browser was found: name one with --browser")
    for count in map(int, options.nodes.split(",")):
        start = time.perf_counter()
        text = page(report_of(count), f"{count} operators").replace("</body>", TELL)
        made = time.perf_counter() - start
        with TemporaryDirectory() as folder:
            path = Path(folder) / "report.html"
            path.write_text(text, encoding="utf-8")
            seconds = [opened(options.browser, path) for _ in range(options.rounds)]
        shown = f"median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s"
        print(f"{count:6} operators: {len(text) / 1e6:.2f} MB, made in {made:.2f} s, opened in {shown}")


if __name__ == "__main__":
    main()
