"""`eqsat cache`: what is kept between runs, where, how much of it there is, and removing it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from eqsat.backends.cache import cache_directory
from eqsat.cli_output import Output, count
from eqsat.prove_cache import cache_clear, cache_info

FOLDERS = {
    "objects": r"[0-9a-f]+\.(so|sum(\.\d+-\d+)?)",
    "programs": r"[0-9a-f]+\.json(\.\d+-\d+)?",
    "tuned": r"(cl-)?[0-9a-f]+\.json(\.\d+-\d+)?",
}
"""The names of the files that each folder holds, those included that a killed process left behind."""


def _kept() -> dict[str, tuple[Path | None, list[Path]]]:
    """For each kind of file, its folder (None: caching is off) and what there is."""
    base = cache_directory()
    found: dict[str, tuple[Path | None, list[Path]]] = {}
    for kind, name in FOLDERS.items():
        folder = None if base is None else base / kind
        files = sorted(folder.iterdir()) if folder is not None and folder.is_dir() else []
        found[kind] = folder, [p for p in files if re.fullmatch(name, p.name) and p.is_file()]
    return found


def _entries(files: list[Path]) -> int:
    """How many things there are: a sum belongs to its object."""
    return sum(p.suffix != ".sum" for p in files)


def run_info(out: Output) -> int:
    """Print what there is."""
    verdicts = cache_info()
    rows: dict[str, tuple[object, int, int]] = {"verdicts": (verdicts.path, verdicts.entries, verdicts.size)}
    for kind, (folder, files) in _kept().items():
        rows[kind] = folder, _entries(files), sum(p.stat().st_size for p in files)
    data: Mapping[str, object] = {
        kind: {"path": path, "entries": entries, "bytes": held} for kind, (path, entries, held) in rows.items()
    }
    lines = [
        f"{kind}: off" if path is None else f"{kind}: {count(entries)} in {path} ({count(held)} bytes)"
        for kind, (path, entries, held) in rows.items()
    ]
    out.answer(dict(data), "\n".join(lines))
    return 0


def run_clear(out: Output) -> int:
    """Remove what there is; nothing else in the folders is touched."""
    removed = {"verdicts": cache_info().entries}
    kept = _kept()
    cache_clear()
    for kind, (_, files) in kept.items():
        removed[kind] = _entries(files)
        for file in files:
            file.unlink(missing_ok=True)
    out.answer(dict(removed), "removed " + ", ".join(f"{count(n)} {kind}" for kind, n in removed.items()))
    return 0
