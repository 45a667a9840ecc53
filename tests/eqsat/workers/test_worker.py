"""Searches in worker processes: what goes wrong in one is seen, and limits are named."""

import subprocess
import sys
from typing import cast

import pytest

import eqsat as eq
from eqsat.graph.search import Limits, Task
from eqsat.graph.search_worker import WorkerFailure, search
from eqsat.operators.interned import Interned
from eqsat.workers.call import WorkerMemoryLimit, WorkerTimeLimit

MEMORY = """
import eqsat as eq
y = x = eq.input("x", (1, 32, 8, 8), "float32")
for _ in range(30):
    y = y.layout_transform("NCHW", "NHWC").relu().layout_transform("NHWC", "NCHW")
r = eq.optimize(y, limits=eq.Limits(memory_mb={megabytes}))
print(r.status, r.cost_after <= r.cost_before)
"""


def test_a_defect_in_the_worker_is_no_limit() -> None:
    """A task without a table that the search needs fails in the worker; that must not read as a limit."""
    task = Task(cast("Interned", None), [], {}, {}, [], Limits(seconds=5.0), ())
    with pytest.raises(WorkerFailure, match="Traceback"):
        search(task)


def test_the_worker_goes_on_after_a_failure() -> None:
    with pytest.raises(WorkerFailure):
        search(Task(Interned(), [(7, ())], {}, {}, [], Limits(seconds=5.0), ()))
    x = eq.input("x", (2, 3), "float32")
    result = eq.optimize(x.permute_dims((1, 0)).permute_dims((1, 0)))
    assert result.status == "saturated" and not result.layout_ops


@pytest.mark.parametrize("megabytes", [1, 16, 24, 40])
def test_a_memory_limit_is_named_and_quiet(megabytes: int) -> None:
    """Wherever memory ends: the program comes back with the reason, and nothing else is said."""
    code = MEMORY.format(megabytes=megabytes)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("memory-limit True\n", "")


@pytest.mark.parametrize(
    ("error", "status"), [(WorkerTimeLimit("search"), "time-limit"), (WorkerMemoryLimit("search"), "memory-limit")]
)
def test_a_limit_before_the_first_snapshot_is_named(
    error: Exception, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("eqsat.graph.search_worker.call", stopped)
    x = eq.input("x", (1, 32, 8, 8), "float32")
    program = x.layout_transform("NCHW", "NHWC").relu().layout_transform("NHWC", "NCHW")
    result = eq.optimize(program)
    assert (result.status, result.cost_after) == (status, result.cost_before)
    assert eq.verify(x.permute_dims((0, 2, 3, 1)).relu(), x.relu().permute_dims((0, 2, 3, 1))).verdict != "refuted"
