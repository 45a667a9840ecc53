"""The worker process: what goes wrong in it is seen."""

from typing import cast

import pytest

from eqsat.search import Limits, Task
from eqsat.universe import Universe
from eqsat.worker import WorkerFailure, search


def test_a_defect_in_the_worker_is_no_limit() -> None:
    """A task without a table that the search needs fails in the worker; that must not read as a limit."""
    task = Task(cast("Universe", None), {}, {}, [], Limits(seconds=5.0))
    with pytest.raises(WorkerFailure, match="Traceback"):
        search(task)


def test_the_worker_goes_on_after_a_failure() -> None:
    import eqsat as eq

    with pytest.raises(WorkerFailure):
        search(Task(Universe(), {7: []}, {}, [(7, 7)], Limits(seconds=5.0)))
    x = eq.input("x", (2, 3), "float32")
    result = eq.optimize(x.permute_dims((1, 0)).permute_dims((1, 0)))
    assert result.status == "saturated" and not result.layout_ops
