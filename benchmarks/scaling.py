"""How optimising a model grows with its length, in four families of equal blocks.

    python benchmarks/scaling.py [--family NAME] [--nodes N,N,...]

chain: Transpose and Relu in turns; residual: y + sigmoid(transpose(y)); converter: an NHWC network as converters emit
it; transformer: an encoder. Each model is optimised in a process of its own. Prints nodes, e-nodes, seconds by phase,
the peak memory of the process, the gain, and the exponents with which e-nodes and seconds grow from the first length to
the last; exits with 1 where an exponent is above its goal (1.2 for e-nodes, 1.3 for seconds).
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from onnx import ModelProto

from eqsat.engine import Limits, extract_program, measure
from eqsat.graph.encode import encode
from eqsat.graph.search import task_of
from eqsat.graph.search_worker import search
from eqsat.nets import Net, nhwc_converter_net, transformer
from eqsat.onnx.read import read
from eqsat.onnx.write import write

ENODES, SECONDS = 1.2, 1.3
PHASES = ("read", "load", "search", "extract", "write")


def chain(nodes: int) -> ModelProto:
    net, x = Net(), "x"
    for k in range(nodes // 2):
        x = net.add("Relu", net.transpose(x, *((0, 2, 3, 1) if k % 2 == 0 else (0, 3, 1, 2))))
    return net.model([("x", (1, 64, 28, 28))], [(x, (1, 64, 28, 28) if nodes // 2 % 2 == 0 else (1, 28, 28, 64))])


def residual(nodes: int) -> ModelProto:
    net, x = Net(), "x"
    for _ in range(nodes // 3):
        x = net.add("Add", x, net.add("Sigmoid", net.transpose(x, 1, 0)))
    return net.model([("x", (512, 512))], [(x, (512, 512))])


FAMILIES: dict[str, Callable[[int], ModelProto]] = {
    "chain": chain,
    "residual": residual,
    "converter": lambda nodes: nhwc_converter_net(blocks=max(4, round(nodes / 4.5))),
    "transformer": lambda nodes: transformer(layers=max(1, round(nodes / 29)), width=64, tokens=64),
}


def run(family: str, nodes: int) -> dict[str, Any]:
    """Optimise one model; what it took."""
    model = FAMILIES[family](nodes)
    search(task_of(encode(read(chain(2))), "onnx", Limits()))  # starts the worker
    marks = [time.perf_counter()]
    program = read(model)
    marks.append(time.perf_counter())
    encoded = encode(program)
    task = task_of(encoded, "onnx", Limits(seconds=120))
    marks.append(time.perf_counter())
    snapshot = search(task)
    assert snapshot is not None
    marks.append(time.perf_counter())
    extracted = extract_program(encoded, snapshot, "onnx")
    found, gap = extracted.program, extracted.gap
    assert found is not None
    marks.append(time.perf_counter())
    write(found, program)
    marks.append(time.perf_counter())
    return {
        "nodes": len(model.graph.node),
        "e-nodes": snapshot.progress.nodes,
        "status": snapshot.progress.status,
        "gap": gap,
        **{name: b - a for name, a, b in zip(PHASES, marks[:-1], marks[1:], strict=True)},
        "seconds": marks[-1] - marks[0],
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "before": measure(program).bytes_moved,
        "after": measure(found).bytes_moved,
    }


def exponent(rows: list[dict[str, Any]], name: str) -> float:
    first, last = rows[0], rows[-1]
    return math.log(last[name] / first[name]) / math.log(last["nodes"] / first["nodes"])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--nodes", default="50,200,800,2000,3000")
    parser.add_argument("--one", type=int, help="run one length here and print JSON")
    options = parser.parse_args(arguments)
    if options.one is not None:
        print(json.dumps(run(options.family, options.one)))
        return 0
    failed = False
    heads = "".join(f"{name:>9}" for name in PHASES)
    heads = f"{'nodes':>6} {'e-nodes':>8} {'/node':>6}{heads}{'all s':>9}"
    print(f"{'family':12} {heads} {'MB':>6} {'gain':>7}  gap  status")
    for family in [options.family] if options.family else FAMILIES:
        rows: list[dict[str, Any]] = []
        for nodes in map(int, options.nodes.split(",")):
            command = [sys.executable, __file__, "--family", family, "--one", str(nodes)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
            r = json.loads(done.stdout)
            rows.append(r)
            phases = "".join(f"{r[name]:9.2f}" for name in PHASES)
            gain = 1 - r["after"] / r["before"]
            print(
                f"{family:12} {r['nodes']:6} {r['e-nodes']:8} {r['e-nodes'] / r['nodes']:6.1f}{phases}"
                f"{r['seconds']:9.2f} {r['peak']:6.0f} {gain:7.1%} {r['gap']:4.2f}  {r['status']}",
                flush=True,
            )
        if len(rows) > 1:
            grown = exponent(rows, "e-nodes"), exponent(rows, "seconds")
            failed |= grown[0] > ENODES or grown[1] > SECONDS
            print(f"{family:12} grows with the power {grown[0]:.2f} in e-nodes, {grown[1]:.2f} in seconds")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
