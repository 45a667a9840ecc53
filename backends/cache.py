"""Files kept between runs: where they lie, and writing one whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from threading import get_ident


def cache_directory() -> Path | None:
    """Where it lies: $EQSAT_CACHE, else $XDG_CACHE_HOME/eqsat, else ~/.cache/eqsat; None: off, or there is no home."""
    chosen = os.environ.get("EQSAT_CACHE")
    if chosen:
        return None if chosen.lower() == "off" else Path(os.path.expanduser(chosen))
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser(os.path.join("~", ".cache"))
    return None if base.startswith("~") else Path(base) / "eqsat"


def keep(path: Path, text: str) -> None:
    """Write a file of the cache. One that cannot be written costs time in the next run, nothing else."""
    partial = path.with_name(f"{path.name}.{os.getpid()}-{get_ident()}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            partial.write_text(text)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
