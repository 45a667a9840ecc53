"""The documentation as it is built, in a headless browser: no errors, nothing from a network, nothing too wide."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from browser import look
from pages import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.slow]
pytest.importorskip("mkdocs")
PAGES = ("index", "tutorial", "how-to/optimize-a-model", "gallery/preprocessing", "reference/programs", "side-by-side")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "PYTHONPATH": "docs", "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=300)
    return folder


@pytest.mark.parametrize(("width", "dark"), [(420, False), (800, True), (1280, False)])
def test_pages_in_a_browser(site: Path, width: int, dark: bool, tmp_path: Path) -> None:
    own = shutil.copytree(site, tmp_path / "site")  # with a browser that remembers no choice of colours
    for page in PAGES:
        seen = look(own / f"{page}.html", "return document.querySelectorAll('h1').length", width, dark)
        assert seen.answer == 1 and seen.width == width and seen.needed <= width, page
        assert all(name.startswith("file:") for name in seen.opened), (page, seen.opened)
        assert [problem for problem in seen.problems if "search" not in problem] == [], page
        assert (seen.back == "rgb(255, 255, 255)") != dark, (page, seen.back)
