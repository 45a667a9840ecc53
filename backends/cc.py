"""The C compiler: finding it, calling it without a shell, and a cache of objects keyed by content."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from eqsat.ir.errors import BackendError

FLAGS = (
    "-std=c99", "-O3", "-fPIC", "-Wall", "-Wextra",
    # Values exactly as written: no fused multiply-add; the other two change no value, only errno and trap flags.
    "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
    # The workspace holds one type after another.
    "-fno-strict-aliasing",
)  # fmt: skip
NATIVE = "-march=native"
TIMEOUT = 300.0
SHOWN_LINES = 12


def cache_directory() -> Path | None:
    """Where compiled objects are kept: $EQSAT_CACHE, else $XDG_CACHE_HOME/eqsat, else ~/.cache/eqsat; None: off."""
    chosen = os.environ.get("EQSAT_CACHE")
    if chosen and chosen.lower() == "off":
        return None
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "eqsat"


def extra_flags() -> tuple[str, ...]:
    """What the user adds to every compilation, $EQSAT_CFLAGS: a sanitizer, -g, another -march."""
    return tuple(shlex.split(os.environ.get("EQSAT_CFLAGS", "")))


def has_zig() -> bool:
    """Whether the wheel that brings a compiler is installed."""
    return importlib.util.find_spec("ziglang") is not None


def find_compiler() -> tuple[str, ...]:
    """The command of a C compiler: $CC, else cc, gcc or clang, else the one in the ziglang wheel.

    Raises BackendError where there is none, or where $CC does not name a program.
    """
    named = os.environ.get("CC", "").strip()
    if named:
        try:
            words = shlex.split(named)
        except ValueError as error:
            raise BackendError(f"compiler CC={named!r}", str(error), "name a C compiler, or unset CC") from error
        if shutil.which(words[0]) is None:
            raise BackendError(f"compiler CC={named!r}", "is not a program", "name a C compiler, or unset CC")
        return tuple(words)
    for name in ("cc", "gcc", "clang"):
        found = shutil.which(name)
        if found:
            return (found,)
    if has_zig():
        return (sys.executable, "-m", "ziglang", "cc")
    fix = "install gcc or clang, or `pip install eqsat[cc]`, which brings one; target='numpy' needs none"
    raise BackendError("target c", "there is no C compiler", fix)


@lru_cache(maxsize=16)
def compiler_version(command: tuple[str, ...]) -> str:
    """What the compiler says about itself; asked once for each file that it may be, and then remembered."""
    base, place = cache_directory(), shutil.which(command[0])
    if base is None or place is None:
        return _asked_version(command)
    facts = os.stat(place)
    question = repr((command, os.path.realpath(place), facts.st_size, facts.st_mtime_ns))
    path = base / "compilers" / hashlib.sha256(question.encode()).hexdigest()[:32]
    try:
        return path.read_text()
    except (OSError, ValueError):
        answer = _asked_version(command)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(answer)
        os.replace(partial, path)
    except OSError:
        # A cache that cannot be written costs a question next time, nothing else.
        return answer
    return answer


def _asked_version(command: tuple[str, ...]) -> str:
    done = _run((*command, "--version"), 60.0)
    return done.stdout + done.stderr


@lru_cache(maxsize=1)
def machine() -> str:
    """The processor that -march=native means."""
    try:
        with open("/proc/cpuinfo", errors="replace") as file:
            # One processor is described up to an empty line; the others are alike.
            lines = list(takewhile(str.strip, file))
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    facts = [line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))]
    return platform.machine() + "".join(facts)


def _run(command: tuple[str, ...], timeout: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BackendError(
            f"compiler {command[0]}", f"did not finish in {timeout:.0f} s", "compile smaller parts"
        ) from error
    except OSError as error:
        raise BackendError(f"compiler {command[0]}", str(error), "name a working C compiler in CC") from error


def elided(text: str) -> str:
    """The first lines of a compiler's output."""
    lines = text.strip().splitlines()
    shown = [line[:200] for line in lines[:SHOWN_LINES]]
    return "\n".join(shown + ([f"... {len(lines) - SHOWN_LINES} more lines"] if len(lines) > SHOWN_LINES else []))


def build(
    source: str, target: Path, command: tuple[str, ...], flags: tuple[str, ...], parts: Sequence[str] = ()
) -> None:
    """Compile C text into a shared object, which appears at the path complete or not at all.

    `parts` are the same text as several, which are compiled at the same time.
    """
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as folder:
        made = Path(folder) / "unit.so"
        texts = list(parts) or [source]
        units = [Path(folder) / f"unit{n}.c" for n in range(len(texts))]
        for unit, text in zip(units, texts, strict=True):
            unit.write_text(text)
        done = subprocess.CompletedProcess[str]((), 1)
        for native in ((NATIVE,), ()):
            done = _compile((*command, *FLAGS, *native, *flags), units, made)
            if done.returncode == 0 and made.is_file():
                break
        else:
            fix = "a compiler without OpenMP needs threads=1" if "-fopenmp" in flags else "please report the program"
            raise BackendError(f"compiler {' '.join(command)}", f"failed:\n{elided(done.stderr or done.stdout)}", fix)
        target.with_suffix(".sum").write_text(_digest(made))
        os.replace(made, target)


def _compile(command: tuple[str, ...], units: Sequence[Path], made: Path) -> subprocess.CompletedProcess[str]:
    """One run of the compiler, or one for each unit at the same time and one that links; the first that failed."""
    if len(units) > 1:

        def one(unit: Path) -> subprocess.CompletedProcess[str]:
            # Parts have the same beginning, of which each needs some.
            return _run((*command, "-Wno-unused-function", "-c", "-o", str(unit.with_suffix(".o")), str(unit)), TIMEOUT)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            runs = list(pool.map(one, units))
        failed = [run for run in runs if run.returncode != 0]
        if failed:
            return failed[0]
        units = [unit.with_suffix(".o") for unit in units]
    return _run((*command, "-shared", "-o", str(made), *map(str, units), "-lm"), TIMEOUT)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _intact(path: Path) -> bool:
    """Whether a cached object is what was written: a truncated one would crash the process that loads it."""
    try:
        return _digest(path) == path.with_suffix(".sum").read_text()
    except OSError:
        return False


def load_library(source: str, flags: tuple[str, ...] = (), parts: Sequence[str] = ()) -> ctypes.CDLL:
    """The loaded library of a C text, from the cache or compiled now.

    Raises BackendError without a compiler, and with the compiler's words where it fails.
    """
    command = find_compiler()
    flags = (*flags, *extra_flags())
    if "ziglang" in command:
        flags = (*flags, "-fno-sanitize=undefined")
    question = "\0".join((source, *FLAGS, *flags, *command, compiler_version(command), machine()))
    name = hashlib.sha256(question.encode()).hexdigest()[:32]
    base = cache_directory()
    if base is None:
        return _load_uncached(source, command, flags, parts)
    folder = base / "objects"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(folder, os.W_OK):
            raise PermissionError(folder)
    except OSError:
        return _load_uncached(source, command, flags, parts)
    path = folder / f"{name}.so"
    if _intact(path):
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            path.unlink(missing_ok=True)
    build(source, path, command, flags, parts)
    return _open(path, command, flags)


def _open(path: Path, command: tuple[str, ...], flags: tuple[str, ...]) -> ctypes.CDLL:
    """A library that was compiled just now; one that does not load lacks something that its compiler promised."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        fix = "a compiler without OpenMP needs threads=1" if "-fopenmp" in flags else "name another compiler in CC"
        raise BackendError(f"compiler {' '.join(command)}", f"made what does not load: {error}", fix) from error


def _load_uncached(source: str, command: tuple[str, ...], flags: tuple[str, ...], parts: Sequence[str]) -> ctypes.CDLL:
    """Without a place to keep objects, the library is deleted once it is mapped."""
    with tempfile.TemporaryDirectory(prefix="eqsat-", ignore_cleanup_errors=True) as scratch:
        path = Path(scratch) / "unit.so"
        build(source, path, command, flags, parts)
        return _open(path, command, flags)
