"""`eqsat calibrate`: this machine and its prices, measured, shown, and kept for `eqsat optimize` and for kernels."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from eqsat.backends.calibration import calibrate
from eqsat.backends.machine import Machine, chosen_machine
from eqsat.cli.output import Output, writable, write_file
from eqsat.ir.errors import BackendError, EqsatError
from eqsat.onnx.calibrate import measured, thread_counts
from eqsat.pricing.table import Table, own_file, written


def run_calibrate(output: Path | None, out: Output) -> int:
    """Measure, write and print the prices."""
    file = own_file() if output is None else output
    if file is None:
        raise EqsatError("prices", "there is no folder to keep them in: the cache is off", "use --output FILE")
    if output is None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = writable(file) or file
    with out.progress("measuring the caches"):
        machine, missing = _machine()
    tables: list[Table] = []
    for threads in thread_counts():
        with out.progress(f"measuring with {threads} threads"):
            tables.append(measured(threads))
    write_file(place, written(tables))
    data = {
        "machine": machine and asdict(machine),
        "tables": [table.data() for table in tables],
        "written": [str(file)],
    }
    said = machine_text(machine) if machine else f"kernels: {missing}"
    out.answer(data, "\n\n".join([said, *map(table_text, tables), f"written: {file}"]))
    return 0


def _machine() -> tuple[Machine | None, str]:
    """The machine that kernels are made for from now on; else why there is none."""
    try:
        return chosen_machine() or calibrate(), ""
    except BackendError as error:
        return None, str(error)


def machine_text(machine: Machine) -> str:
    """A machine for readers.

    >>> machine_text(Machine()).split("; ")[:2]
    ['kernels: vectors of 32 bytes', 'caches of 32 and 512 KiB, results from 32 MiB on are written past the last one']
    """
    past = f"{min(machine.last, machine.past) / (1 << 20):g} MiB"
    caches = f"{machine.first >> 10} and {machine.second >> 10} KiB"
    vectors = f"vectors of {machine.vector} bytes"
    written = f"results from {past} on are written past the last one; strips of {machine.strip} rows"
    written += f", runs of {machine.run} bytes"
    return f"kernels: {vectors}; caches of {caches}, {written}"


def table_text(table: Table) -> str:
    """A table of prices for readers: a line for each way of moving bytes, a column for each length of a run."""
    runs = sorted({int(run) for points in table.moves.values() for run, _ in points})
    lines = [f"{table.source}, {table.threads} thread{'s' if table.threads > 1 else ''}"]
    lines.append(f"{'ns per KiB in runs of bytes':28}" + "".join(f"{run:>8}" for run in runs))
    for kind, points in table.moves.items():
        prices = {int(run): f"{price * 1.024:8.0f}" for run, price in points}
        lines.append(f"  {kind:26}" + "".join(prices.get(run, " " * 8) for run in runs).rstrip())
    lines += [f"{name + ': ns per operator':28}{price / 1000:8.0f}" for name, price in table.operators.items()]
    units = {"packed": "cell"}
    lines += [
        f"{name + ': ps per ' + units.get(name, 'multiplication'):40}{price:8.2f}"
        for name, price in table.products.items()
    ]
    return "\n".join(lines)
