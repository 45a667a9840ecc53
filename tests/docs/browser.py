"""Pages in a headless browser: what they show at a width, in light or dark, and what goes wrong there."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
WATCH = """<script>window.problems = []; window.opened = [];
addEventListener("error", (e) => problems.push(String(e.message)), true);
console.error = (...said) => problems.push(said.join(" "));
new PerformanceObserver((list) => opened.push(...list.getEntries().map((e) => e.name))).observe({ type: "resource" });
</script>"""
TELL = """<script>addEventListener("load", () => setTimeout(() => {
  const seconds = performance.now() / 1000;
  const answer = (() => { %s })();
  const needed = document.documentElement.scrollWidth;
  parent.postMessage({ seconds, problems, opened, answer, width: innerWidth, needed,
    back: getComputedStyle(document.body).backgroundColor }, "*");
}, 50));</script>"""
FRAME = """<!doctype html><body style="margin:0"><iframe src="%s" style="border:0;width:%dpx;height:900px"></iframe>
<script>addEventListener("message", (e) => { const out = document.createElement("pre"); out.id = "seen";
  out.textContent = JSON.stringify(e.data); document.body.append(out); });</script>"""


@dataclass
class Seen:
    """What a browser had to say: seconds until the page was there, errors, files that were loaded, the width that there
    is and the width that the page needs, the colour behind it, and the answer of the script."""

    seconds: float
    problems: list[str]
    opened: list[str]
    width: int
    needed: int
    back: str
    answer: Any = field(default=None)


def browser() -> str | None:
    """The browser to use: EQSAT_BROWSER, or a Chromium that is installed."""
    return os.environ.get("EQSAT_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


def look(page: Path, script: str = "return null", width: int = 1280, dark: bool = False) -> Seen:
    """Open a page and run a script in it once it is there."""
    text = page.read_text()
    watched = text.replace("<head>", f"<head>{WATCH}", 1).replace("</body>", f"{TELL % script}</body>", 1)
    assert watched.count(WATCH) == 1 and "postMessage" in watched
    inner, frame = page.with_name("watched.html"), page.with_name("frame.html")
    inner.write_text(watched)
    frame.write_text(FRAME % (inner.name, width))
    command = [
        str(browser()),
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        f"--window-size={max(width, 500)},900",
    ]
    command += [
        f"--user-data-dir={page.parent / 'profile'}",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
    ]
    command += ["--virtual-time-budget=20000", "--dump-dom", frame.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, f"the page said nothing: {done.stdout[-500:]} {done.stderr[-500:]}"
    return Seen(**json.loads(unescape(found[1])))
