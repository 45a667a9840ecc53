"""Calls of every kind, run alone, from threads, after a fork, in a pool: a script, so that nothing is warm before.

`python mixed_calls.py MODE CALLS`: prints a JSON list with the answers of the calls 0, 1, ... CALLS - 1.
"""

import concurrent.futures
import json
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable

import numpy as np

import eqsat as eq
from eqsat.index_graph.explain import explain_terms
from eqsat.workers.process import alive

THREADS = 8


def optimize(k: int) -> str:
    x = eq.input("x", (1, 32, 8, 8 + k % 7), "float32")
    y = x.layout_transform("NCHW", "NHWC").relu().layout_transform("NHWC", "NCHW")
    if k % 2:
        y = y.permute_dims((0, 1, 3, 2)).pad(1).crop((1, 1, 1, 1), (1, 32, 8 + k % 7, 8))
    found = eq.optimize(y)
    return f"{found.status} {found.bytes_moved} {found.program}"


def exact(k: int) -> str:
    """A program with a choice, so that the exact extraction runs too."""
    x = eq.input("x", (4, 6 + k % 3, 10), "float32")
    t = x.permute_dims((2, 0, 1))
    found = eq.optimize(eq.Program([x], {"a": t + t.relu(), "b": t.sum(0), "c": t.permute_dims((1, 2, 0)).relu()}))
    return f"{found.status} {found.bytes_moved} {found.program}"


def simplify(k: int) -> str:
    n = 2 + k % 5
    return str(eq.simplify(f"(i // {n} * {4 * n} + i % {n} * 4 + j) // 4 % {n + 1}", {"i": 64 + k % 3, "j": 4}))


def by_rules(k: int) -> str:
    n = 2 + k % 4
    return eq.prove(f"x % ({n}*a) // {n} == x // {n} % a", {"a": (1, None)}).verdict


def by_z3(k: int) -> str:
    n = k % 3
    return eq.prove(f"x*x + {2 * n}*x*y + {n * n}*y*y >= 0", {"x": (None, None), "y": (None, None)}).verdict


def decide(k: int) -> str:
    return eq.decide(f"(i * 7 + j) % {5 + k % 4} < {3 + k % 3}", {"i": (0, None), "j": 3 + k % 5})


def index_map(k: int) -> str:
    n = 3 + k % 4
    there, shape = eq.IndexMap.parse(f"i, j -> i // {n}, j, i % {n}"), (12 * n, 5 + k % 3)
    return f"{there.is_injective(shape).verdict} {there.inverse(shape)}"


def compiled(k: int) -> str:
    x = eq.input("x", (6 + k % 3, 10), "float32")
    kernel = eq.compile(x.permute_dims((1, 0)) + 1.0)
    array = np.arange((6 + k % 3) * 10, dtype="float32").reshape(6 + k % 3, 10)
    return str(bool(np.array_equal(kernel(x=array), array.T + 1)))


def verify(k: int) -> str:
    x = eq.input("x", (4, 6 + k % 3), "float32")
    return eq.verify(x.permute_dims((1, 0)).relu(), x.relu().permute_dims((1, 0))).verdict


def explain(k: int) -> str:
    n = 2 + k % 3
    return str(explain_terms(f"x // {n} * {n} + x % {n} + y", "x + y").rules)


def by_graph(k: int) -> str:
    """A question that only the e-graph answers, in a worker."""
    n = 2 + k % 3
    return str(explain_terms(f"minimum(x, y) // {n}", f"minimum(x // {n}, y // {n})").rules)


def second_stage(k: int) -> str:
    """A simplification that takes the e-graph: in the thread that asks, or in a worker after a fork."""
    n = 64 << k % 3
    return str(eq.simplify(f"{n - 1} - ({n - 5} - i) % {n}", {"i": n}))


KINDS: list[Callable[[int], str]] = [
    optimize, simplify, by_z3, index_map, compiled, decide, exact, verify, by_rules, explain, by_graph,
    second_stage,
]  # fmt: skip


def call(k: int) -> str:
    """The answer of one call, or its error."""
    try:
        return KINDS[k % len(KINDS)](k // len(KINDS))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def in_threads(calls: int, running: set[int] | None = None) -> list[str]:
    """Eight threads, which begin at once; each takes the next call. `running` holds the calls that are going on."""
    answers = [""] * calls
    start = threading.Barrier(THREADS)
    rest = iter(range(calls))
    lock = threading.Lock()
    going = set[int]() if running is None else running

    def work() -> None:
        start.wait()
        while True:
            with lock:
                k = next(rest, None)
            if k is None:
                return
            going.add(k)
            answers[k] = call(k)
            going.remove(k)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def with_kills(calls: int) -> list[str]:
    """Threads, while somebody kills workers, but none of the same call twice."""
    running = set[int]()

    def kill() -> None:
        hit = set[int]()
        while True:
            time.sleep(0.05)
            pids = list(alive)
            if pids and hit.isdisjoint(list(running)):
                hit = set(running)
                os.kill(random.choice(pids), signal.SIGKILL)
                hit |= running

    threading.Thread(target=kill, daemon=True).start()
    return in_threads(calls, running)


def in_pool(calls: int, method: str) -> list[str]:
    """A pool of four processes, after this one has made calls, also while its threads make more."""
    for k in range(len(KINDS)):
        call(k)
    busy = threading.Thread(target=in_threads, args=(len(KINDS),))
    busy.start()
    with concurrent.futures.ProcessPoolExecutor(4, mp_context=multiprocessing.get_context(method)) as pool:
        answers = list(pool.map(call, range(calls)))
    busy.join()
    return answers


def in_daemons(calls: int) -> list[str]:
    """multiprocessing.Pool, whose workers are daemonic: they may not start processes by multiprocessing."""
    call(0)
    with multiprocessing.get_context("fork").Pool(4) as pool:
        return pool.map(call, range(calls))


def after_forks(calls: int) -> list[str]:
    """A child of a child of a process that has made calls."""
    call(0)
    call(2)
    reading, writing = os.pipe()
    if not os.fork():
        call(1)
        if not os.fork():
            os.write(writing, json.dumps([call(k) for k in range(calls)]).encode())
            os._exit(0)
        os.wait()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        answers = json.loads(stream.read())
    os.wait()
    return answers


def main() -> None:
    mode, calls = sys.argv[1], int(sys.argv[2])
    modes: dict[str, Callable[[], list[str]]] = {
        "alone": lambda: [call(k) for k in range(calls)],
        "threads": lambda: in_threads(calls),
        "kills": lambda: with_kills(calls),
        "fork": lambda: in_pool(calls, "fork"),
        "spawn": lambda: in_pool(calls, "spawn"),
        "daemons": lambda: in_daemons(calls),
        "forks": lambda: after_forks(calls),
    }
    print(json.dumps(modes[mode]()))


if __name__ == "__main__":
    main()
