"""`eqsat cache`: where verdicts and compiled objects are kept, how much there is, and removing it."""

from __future__ import annotations

from pathlib import Path

from eqsat.backends.cc import cache_directory
from eqsat.cli_output import Output, count
from eqsat.prove_cache import cache_clear, cache_info

SUFFIXES = (".so", ".sum")


def _objects() -> tuple[Path | None, list[Path]]:
    base = cache_directory()
    if base is None:
        return None, []
    folder = base / "objects"
    found = sorted(p for p in folder.iterdir() if p.suffix in SUFFIXES) if folder.is_dir() else []
    return folder, found


def run_info(out: Output) -> int:
    """Print what there is."""
    verdicts = cache_info()
    folder, files = _objects()
    size = sum(p.stat().st_size for p in files)
    libraries = sum(p.suffix == ".so" for p in files)
    data = {
        "verdicts": {"path": verdicts.path, "entries": verdicts.entries, "bytes": verdicts.size},
        "objects": {"path": folder, "entries": libraries, "bytes": size},
    }
    kept = {"verdicts": (verdicts.path, verdicts.entries, verdicts.size), "objects": (folder, libraries, size)}
    lines = [
        f"{kind}: off" if path is None else f"{kind}: {count(entries)} in {path} ({count(held)} bytes)"
        for kind, (path, entries, held) in kept.items()
    ]
    out.answer(data, "\n".join(lines))
    return 0


def run_clear(out: Output) -> int:
    """Remove the verdicts and the objects; nothing else in the folder is touched."""
    verdicts = cache_info().entries
    _, files = _objects()
    cache_clear()
    for file in files:
        file.unlink(missing_ok=True)
    objects = sum(p.suffix == ".so" for p in files)
    out.answer(
        {"verdicts": verdicts, "objects": objects}, f"removed {count(verdicts)} verdicts, {count(objects)} objects"
    )
    return 0
