"""Compiled programs in the cache: the C text and what a call needs, by a digest of everything that they follow from.

An entry is JSON behind a line with its digest. It holds the sizes and times of the generator's files: where one of them
has changed, the entry is not used. So a change of this package needs no version number.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsat.backends import cache
from eqsat.backends.interface import Entry, HostCall, ProgramBuffer, Unit
from eqsat.backends.lowering.values import Flat, Value
from eqsat.ir.dtypes import INDEX, NDArray

if TYPE_CHECKING:
    from eqsat.backends.lowering.lowered import Lowered


@dataclass(frozen=True)
class CachedInterface:
    """What :class:`eqsat.backends.interface.Interface` asks for, read from the cache."""

    buffers: Mapping[str, ProgramBuffer]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    constants: Mapping[str, NDArray]
    workspace_bytes: int
    calls: tuple[HostCall | None, ...]


@lru_cache(maxsize=4096)
def file_state(path: str) -> list[int]:
    """Size and time of a file, which tell a changed one from the same one; nothing of one that is gone."""
    try:
        facts = os.stat(path)
    except OSError:
        return []
    return [facts.st_size, facts.st_mtime_ns]


@lru_cache(maxsize=4096)
def _place(file: str) -> str:
    return os.path.realpath(file)


def generator_state() -> dict[str, list[int]]:
    """The files of the modules that have made kernels in this process, and of others: changed ones may make others.
    Among them are rules, and what applies them."""
    names = [name for name in list(sys.modules) if name.startswith("eqsat.")]
    files = sorted(_place(file) for name in names if (file := sys.modules[name].__file__) is not None)
    return {file: file_state(file) for file in files}


def _facts(value: Value) -> tuple[Any, ...] | None:
    """What a value is, as data; None where it calls Python, which cannot be told from other Python."""
    if value.kind == "host":
        return None
    terms = [None if term is None else term.digest for term in (value.body, value.after)]
    array = None
    if value.array is not None:
        array = hashlib.sha256(np.ascontiguousarray(value.array).view(np.uint8).reshape(-1).data).digest()
    how = (value.combiner, value.ordered, value.steps)
    return (value.name, value.shape, value.dtype, value.kind, value.label, value.reduce, *how, *terms, array)


def program_key(name: str, inputs: Mapping[str, str], flat: Flat, *settings: object) -> str | None:
    """A digest of a program's values and of how it is compiled; None for programs that call Python."""
    facts = [_facts(value) for value in flat.values]
    if any(f is None for f in facts):
        return None
    question = repr((name, tuple(inputs.items()), tuple(flat.outputs.items()), facts, settings, __file__))
    return hashlib.sha256(question.encode()).hexdigest()[:32]


def find(key: str | None, flat: Flat) -> tuple[CachedInterface, Unit] | None:
    """The program with a key; None where there is none, or none that is intact and of this generator."""
    held = None if key is None else cache.held("programs", f"{key}.json")
    if held is None:
        return None
    try:
        check, _, text = held.decode().partition("\n")
        if hashlib.sha256(text.encode()).hexdigest() != check:
            return None
        data = json.loads(text)
    except ValueError:
        return None
    if any(file_state(file) != facts for file, facts in data["generator"].items()):
        return None
    arrays = {v.name: v.array for v in flat.values if v.array is not None}
    constants = {n: arrays[n] for n in data["constants"]}
    for name, (source, split, order) in data["packed"].items():
        constants[name] = np.ascontiguousarray(arrays[source].reshape(split).transpose(order))
    constants |= {n: np.array(numbers, np.int64) for n, numbers in data["tables"].items()}
    buffers = {name: ProgramBuffer(name, tuple(shape), *rest) for name, shape, *rest in data["buffers"]}
    entries = tuple(Entry(name, tuple(names)) for name, names in data["entries"])
    cached = CachedInterface(
        buffers, data["inputs"], data["outputs"], constants, data["workspace"], (None,) * len(entries)
    )
    return cached, Unit(data["source"], data["header"], entries, data["library"])


def keep(key: str | None, lowered: Lowered, unit: Unit) -> None:
    """Write a compiled program to the cache; one that cannot be written costs time later, nothing else."""
    if key is None or cache.cache_directory() is None:
        return
    outside = [b for b in lowered.buffers.values() if b.role != "workspace"]
    kept = [b for b in outside if b.role == "constant"]
    data = {
        "generator": generator_state(),
        "source": unit.source,
        "header": unit.header,
        "entries": [(e.name, e.buffers) for e in unit.entries],
        "library": unit.library,
        "buffers": [astuple(b) for b in outside],
        "inputs": dict(lowered.inputs),
        "outputs": dict(lowered.outputs),
        "constants": [b.name for b in kept if b.dtype != INDEX and b.name not in lowered.packed],
        "tables": {b.name: lowered.constants[b.name].tolist() for b in kept if b.dtype == INDEX},
        "packed": lowered.packed,
        "workspace": lowered.workspace_bytes,
    }
    text = json.dumps(data)
    cache.keep("programs", f"{key}.json", hashlib.sha256(text.encode()).hexdigest() + "\n" + text)
