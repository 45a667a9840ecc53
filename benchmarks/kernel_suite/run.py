"""The run: choose cases and peers, check, time, report."""

from __future__ import annotations

import json
import platform
import time
from argparse import Namespace
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

import eqsat
from eqsat.backends.calibration import this_machine
from eqsat.files import write_whole
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError
from kernel_suite.cases import extras, suite
from kernel_suite.fused import fused_cases
from kernel_suite.native import COPIES, aligned, copy_of, reader
from kernel_suite.peers import Einops, Eqsat, Numpy, OnnxRuntime, Peer, Task, Torch, Tvm
from kernel_suite.peers_native import Hptt, PlainC
from kernel_suite.peers_onednn import OneDnn, onednn_prefixes
from kernel_suite.report import HEAD, Row, row_of, summary
from kernel_suite.rounds import Contender, estimate, measure

SMALL = 20e6
"""Bytes moved by a case of the small suite at most."""
COLD = 128e6
"""Bytes of buffers that take turns: more than a last-level cache."""
QUICK_ROUNDS = 5


def peers() -> list[Peer]:
    """All peers, here or not."""
    known: list[Peer] = [Numpy(), Torch(), Einops(), OnnxRuntime(), Tvm(), PlainC(), Hptt(), Hptt(measure=True)]
    return [*known, *(OneDnn(prefix) for prefix in onednn_prefixes())]


def list_peers() -> int:
    """Print what each peer needs and what is found."""
    for peer in peers():
        found = peer.found()
        problem = f"not found: {peer.problem()}" if isinstance(peer, OneDnn) else "not found"
        print(f"{peer.name:14} {'found: ' + found if found else f'{problem}; needs {peer.needs}'}")
    return 0


def chosen_cases(chosen: Namespace) -> list[Task]:
    """The cases that the command line asks for."""
    tasks: list[Task] = list(suite())
    if chosen.suite == "all" or chosen.case or set(chosen.family.split(",")) & set("vwhxr"):
        tasks += [*extras(), *fused_cases()]
    if chosen.suite == "small":
        tasks = [task for task in tasks if task.moved <= SMALL]
    families, dtypes, names = (
        [part for part in text.split(",") if part] for text in (chosen.family, chosen.dtype, chosen.case)
    )
    return [
        task
        for task in tasks
        if (not families or task.family in families)
        and (not dtypes or task.dtype in dtypes)
        and (not names or any(name in task.name for name in names))
    ]


def list_cases(chosen: Namespace) -> int:
    """Print the cases, their families and sizes."""
    for task in chosen_cases(chosen):
        print(f"{task.family} {task.name:42} {task.dtype:8} {task.moved / 1e6:8.2f} MB")
    return 0


@dataclass(frozen=True)
class Buffers:
    """An input and an output, aligned to cache lines."""

    x: NDArray
    out: NDArray


def buffers_of(task: Task, x: NDArray, count: int) -> list[Buffers]:
    """Copies of an input, each with an output."""
    made: list[Buffers] = []
    for _ in range(count):
        pair = Buffers(aligned(task.shape, task.dtype), aligned(task.out_shape, task.out_dtype))
        np.copyto(pair.x, x)
        made.append(pair)
    return made


def contenders_of(task: Task, who: list[Peer], threads: int, cold: bool) -> tuple[list[Contender], dict[str, str]]:
    """Those who do the case correctly, copies of as many bytes, and what the others did."""
    x = task.sample(np.random.default_rng(0))
    expected = task.reference(x).reshape(-1).view(np.uint8)
    pool = buffers_of(task, x, ceil(COLD / task.moved) if cold and task.moved < COLD else 1)
    readers = [reader(pair.out, threads) for pair in pool]
    found: list[Contender] = []
    failed: dict[str, str] = {}
    for peer in who:
        try:
            variants = list(zip(*(peer.prepare(task, pair.x, pair.out, threads) for pair in pool), strict=True))
        except (RuntimeError, ValueError, AttributeError, TypeError, EqsatError) as error:
            failed[peer.name] = f"{type(error).__name__}: {error}"
            continue
        right: list[Contender] = []
        for calls in variants:
            for pair, call in zip(pool, calls, strict=True):
                result = pair.out.reshape(-1).view(np.uint8)
                result.fill(0xA5)
                call()
                if not np.array_equal(result, expected):
                    failed[peer.name] = "wrong result"
                    break
            else:
                right.append(Contender(peer.name, list(calls), readers, pool, peer=not isinstance(peer, Eqsat)))
        if right:
            found.append(min(right, key=estimate) if len(right) > 1 else right[0])
    size = task.moved // 2
    copied = [(aligned((size,), "uint8"), aligned((size,), "uint8")) for _ in pool]
    ends = [reader(target, threads) for _, target in copied]
    for name in COPIES:
        calls = [copy_of(name, target, source, threads) for source, target in copied]
        found.append(Contender(name, calls, ends, copied, peer=False))
    return found, failed


def processor() -> str:
    """The name of the processor, as far as the system tells."""
    info = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")] \
        if info.is_file() else []  # fmt: skip
    return names[0] if names else platform.processor()


def run(chosen: Namespace, threads: int, cores: list[int]) -> int:
    """Time the chosen cases; 1 if a kernel of eqsat is wrong or fails."""
    wanted = [name for name in chosen.only.split(",") if name]
    ours = [Eqsat(), Eqsat(tune=True)] if chosen.tune else [Eqsat()]
    others = [p for p in peers() if (p.name != "hptt measured" or wanted) and p.found()]
    others = [p for p in others if not wanted or any(p.name.startswith(name) for name in wanted)]
    missing = [p.name for p in peers() if not p.found()]
    rounds = QUICK_ROUNDS if chosen.quick else chosen.rounds
    tasks = chosen_cases(chosen)
    print(f"{len(tasks)} cases, {threads} thread(s) on cores {cores}, {rounds} rounds, {processor()}")
    print(f"kernels for {this_machine()}")
    print(f"eqsat in {Path(eqsat.__file__).parent}")
    print(f"peers: {', '.join(p.name for p in others)}; not found: {', '.join(missing) or 'none'} (--peers says more)")
    print(HEAD)
    rows: list[Row] = []
    broken: list[str] = []
    start = time.perf_counter()
    record: dict[str, Any] = {
        "threads": threads,
        "cores": cores,
        "rounds": rounds,
        "cold": chosen.cold,
        "clock": chosen.clock,
        "processor": processor(),
        "machine": asdict(this_machine()),
        "python": platform.python_version(),
        "peers": {p.name: p.found() for p in others},
        "broken": broken,
        "cases": [],
    }
    for task in tasks:
        found, failed = contenders_of(task, [*ours, *others], threads, chosen.cold)
        broken += [f"{task.name}: {name}: {failed[name]}" for name in (p.name for p in ours) if name in failed]
        if any(contender.name == "eqsat" for contender in found):
            measure(found, rounds, threads, chosen.clock)
            rows.append(row_of(task, found, failed))
            print(rows[-1].line(), flush=True)
            record["cases"].append(rows[-1].record())
        if chosen.json is not None:  # after each case, so that an interrupted run keeps what it has
            record["seconds"] = time.perf_counter() - start
            write_whole(chosen.json, json.dumps({"runs": [record]}, indent=1))
    print(summary(rows, broken, threads))
    print(f"{time.perf_counter() - start:.0f} s")
    return 1 if broken else 0
