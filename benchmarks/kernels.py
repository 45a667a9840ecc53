"""Kernels that move data between layouts: eqsat beside each peer that is installed, in turns, checked before timed.

    python benchmarks/kernels.py [--family a,b] [--case NAME] [--threads 1,2] [--rounds 15] [--quick] [--json PATH]
    python benchmarks/kernels.py --peers        # what each peer needs, and whether it is here; nothing is installed

Outputs must equal numpy's bit by bit before anything is timed. The process is pinned to as many cores as there are
threads. Each round times every contender, alone and with a reader of its output behind each call, in a random order.
The ratio to the best peer is of the times with the reader: the median over the rounds, and in brackets its 95%
bootstrap interval. `copy` is the best of three copies of as many bytes, as a ratio alone and with the reader. `room` is
the ratio that a family would have if no case were slower than that copy.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

GROUPS = {"small": "families a to g, of each the quick cases", "full": "families a to g", "all": "and v, w, h, x, r"}


def options(arguments: list[str]) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", action="store_true", help="print what each peer needs and what is found")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument(
        "--suite", choices=GROUPS, default="full", help="; ".join(f"{k}: {v}" for k, v in GROUPS.items())
    )
    parser.add_argument("--family", default="", help="only these families, as a,b")
    parser.add_argument("--case", default="", help="only cases whose name contains one of these, as x,y")
    parser.add_argument("--dtype", default="", help="only these element types")
    parser.add_argument("--only", default="", help="only these peers, as torch,hptt; `none` for none")
    parser.add_argument("--threads", default="1", help="numbers of threads, each in a process of its own: 1,2")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="5 rounds")
    parser.add_argument("--cold", action="store_true", help="buffers take turns, so that none is in a cache")
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall", help="cpu: for a busy machine, 1 thread only"
    )
    parser.add_argument("--tune", action="store_true", help="also tune=True, where it chooses differently")
    parser.add_argument("--cpu", type=int, default=None, help="the first core to use; the last ones if not given")
    parser.add_argument(
        "--machine", default="", help="make kernels for this machine: a name, or a file that describes it"
    )
    parser.add_argument("--json", type=Path, default=None, help="write all times to this file")
    return parser.parse_args(arguments)


def pin(threads: int, first: int | None) -> list[int]:
    """Keep this process on as many cores as it has threads; before any library looks at them."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    os.environ["TVM_THREAD_POOL_SPIN_COUNT"] = "0"
    # Idle threads wait busily only for a moment, or they would run into the next contender's turn.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    if not hasattr(os, "sched_setaffinity"):
        return []
    usable = sorted(os.sched_getaffinity(0))
    cores = usable[-threads:] if first is None else [c for c in usable if c >= first][:threads]
    if len(cores) < threads:
        raise SystemExit(f"--threads {threads} needs as many cores, and there are {cores}")
    os.sched_setaffinity(0, cores)
    # torch brings an OpenMP runtime that all C libraries here can share: threads of two would take each other's cores.
    if find_spec("torch") is not None:
        __import__("torch")
    return cores


def several(arguments: list[str], counts: list[int], path: Path | None) -> int:
    """Run this program once for each number of threads, and join what they write."""
    status, joined = 0, list[dict[str, Any]]()
    kept = [a for a in arguments if not a.startswith(("--threads=", "--json="))]
    for name in ("--threads", "--json"):
        if name in kept:
            at = kept.index(name)
            del kept[at : at + 2]
    with tempfile.TemporaryDirectory() as folder:
        for count in counts:
            part = Path(folder) / f"{count}.json"
            line = [sys.executable, __file__, *kept, "--threads", str(count), "--json", str(part)]
            status = max(status, subprocess.run(line, check=False).returncode)
            joined += json.loads(part.read_text())["runs"] if part.is_file() else []
    if path is not None:
        from eqsat.files import write_whole

        write_whole(path, json.dumps({"runs": joined}, indent=1))
    return status


def main(arguments: list[str]) -> int:
    chosen = options(arguments)
    counts = [int(n) for n in chosen.threads.split(",")]
    if len(counts) > 1 and not (chosen.peers or chosen.list):
        return several(arguments, counts, chosen.json)
    if chosen.clock == "cpu" and counts[0] > 1:
        raise SystemExit("--clock cpu sees one thread: leave it out, or --threads 1")
    if chosen.machine:
        os.environ["EQSAT_MACHINE"] = chosen.machine
    cores = pin(counts[0], chosen.cpu)
    # Imported here, because importing them loads libraries that look at the cores and the environment.
    from kernel_suite.run import list_cases, list_peers, run

    if chosen.peers:
        return list_peers()
    if chosen.list:
        return list_cases(chosen)
    from eqsat.backends.machine import chosen_machine
    from eqsat.ir.errors import BackendError

    try:
        chosen_machine()
    except BackendError as error:
        raise SystemExit(f"--machine: {error}") from error
    return run(chosen, counts[0], cores)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
