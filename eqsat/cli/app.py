"""The commands and their options, as Typer reads them. What they do is in the modules of the same names."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from eqsat import __version__
from eqsat.backends.targets import find_target, offered
from eqsat.cli.output import Output


class Objective(StrEnum):
    """What an optimised model has less of."""

    bytes = "bytes"
    time = "time"


app = typer.Typer(
    name="eqsat",
    help="Rewrite, prove, optimise and compile programs of tensor layouts by equality saturation.",
    epilog="Exit codes: 0 done, 1 a check failed, 2 bad usage or input, 3 internal error, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
rules_app = typer.Typer(no_args_is_help=True, help="The laws that rewrites use: list them, or prove them anew.")
cache_app = typer.Typer(no_args_is_help=True, help="What is kept between runs: verdicts of provers, compiled objects.")
app.add_typer(rules_app, name="rules")
app.add_typer(cache_app, name="cache")

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Freezes = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[=LAYOUT]",
        help="Keep the layouts of an operator, node or value, or give it others: 'NHWC -> NCHW' of the result, or "
        "'operand; ...; result'. May be repeated.",
    ),
]
Growth = Annotated[
    float, typer.Option(metavar="SHARE", min=0.0, help="By how much constants in new layouts may enlarge the model.")
]
Shapes = Annotated[list[str] | None, typer.Option("--shape", metavar="N=SIZE", help="Fix a named dimension.")]


def _target(command: str, text: str) -> Any:
    """The option `--target` of a command: one of the targets that it offers, or of an installed package that offers it
    there."""
    names = offered(command)

    def check(value: str | None) -> str | None:
        if value is None or value in names:
            return value
        found = find_target(value)
        if found is None or command not in found.commands:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(names)}.")
        return value

    return typer.Option(metavar=f"[{'|'.join(names)}]", help=text, callback=check)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"eqsat {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """The options before a command."""


@app.command()
def optimize(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx")],
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="OUT.onnx", help="Write the result.")] = None,
    report: Annotated[Path | None, typer.Option(metavar="OUT.html", help="Write the explanation as a page.")] = None,
    target: Annotated[str, _target("optimize", "Where the result is to run.")] = "onnx",
    objective: Annotated[
        Objective | None, typer.Option(help="What to have less of (for onnx: time, by measured prices; else bytes).")
    ] = None,
    prices: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Prices of time that `eqsat calibrate --output` wrote.")
    ] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Run both models in turns; keep the input where no gain is measured.")
    ] = False,
    time: Annotated[float | None, typer.Option(metavar="S", help="Limit of the whole run in seconds (60).")] = None,
    shape: Shapes = None,
    fold_inputs: Annotated[
        bool, typer.Option("--fold-inputs", help="Inputs that have a default are constants.")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Run both models and compare their outputs.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 where a limit was hit with nothing gained.")
    ] = False,
    rules: Annotated[
        str | None, typer.Option(metavar="MODULE", help="Use the laws and rules of a Python module, too.")
    ] = None,
    freeze: Freezes = None,
    growth: Growth = 0.05,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Say by which laws moves went, and every side condition."),
    ] = False,
    json: Json = False,
) -> int:
    """Optimise the layouts of an ONNX model. Without -o: print the summary, write nothing."""
    from eqsat.cli.optimize import Request, run_optimize

    chosen = None if objective is None else objective.value
    request = Request(
        model,
        output,
        report,
        target,
        chosen,
        time,
        tuple(shape or ()),
        fold_inputs,
        verify,
        strict,
        rules,
        growth,
        prices,
        confirm,
        verbose,
        freeze=tuple(freeze or ()),
        laws=json or verbose or report is not None,
    )
    return run_optimize(request, Output(json))


@app.command()
def kernel(
    conversion: Annotated[
        str, typer.Argument(metavar="CONVERSION", help="Two layouts, 'NCHW -> NCHW16c', or an index map.")
    ],
    shape: Annotated[str, typer.Option(metavar="1,64,56,56", help="The shape of the input.")],
    dtype: Annotated[str, typer.Option(help="The element type.")] = "float32",
    target: Annotated[str, _target("kernel", "What to write the kernel in.")] = "c",
    pad_value: Annotated[
        str | None, typer.Option(metavar="V", help="What padded cells hold, where the map pads.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the source.")] = None,
    bench: Annotated[bool, typer.Option("--bench", help="Compile it, check it, and time it against a copy.")] = False,
    json: Json = False,
) -> int:
    """Print the kernel that converts one layout into another."""
    from eqsat.cli.kernel import run_kernel

    return run_kernel(conversion, shape, dtype, target, pad_value, output, bench, Output(json))


@app.command()
def schedule(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A function over buffers, as text or JSON.")],
    steps: Annotated[
        list[str] | None,
        typer.Option(
            "--steps",
            "-s",
            metavar="FILE|STEP",
            help="Steps: a file of calls or a trace, or \"split('i', [None, 4])\".",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the function (.json), or its source.")
    ] = None,
    target: Annotated[str | None, _target("schedule", "Lower it, and print the source.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Run it before and after the steps, compiled too for a target; compare.")
    ] = False,
    shape: Annotated[list[str] | None, typer.Option("--shape", metavar="N=SIZE", help="The value of a symbol.")] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npz",
            help="Arguments by the names of parameters: run on them (with --check: compare on them). What is written "
            "may be left out where nobody can tell what it held before; then it begins with zeros (--check: anything).",
        ),
    ] = None,
    outputs: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npz", help="Run on --inputs, and write the parameters that the function writes."),
    ] = None,
    json: Json = False,
) -> int:
    """Print a function over buffers, schedule it, check it, lower it, run it: by the target, else by the interpreter.
    Arrays lie as FILE declares them, whatever the steps do. 1 where a step is refused, and the program at the place."""
    from eqsat.cli.schedule import Request, run_schedule

    request = Request(file, tuple(steps or ()), output, target, check, tuple(shape or ()), inputs, outputs)
    return run_schedule(request, Output(json))


@rules_app.command("list")
def rules_list(json: Json = False) -> int:
    """List the rules: family, name and law."""
    from eqsat.cli.rules import run_list

    return run_list(Output(json))


@rules_app.command("check")
def rules_check(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME|MODULE]...", help="Only these rules, or those of a module.")
    ] = None,
    jobs: Annotated[
        str, typer.Option(metavar="N|ADDRESS", help="Worker processes, or the address of a Dask scheduler.")
    ] = "1",
    seconds: Annotated[float | None, typer.Option(metavar="S", min=0.01, help="What one rule may take.")] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the reports as JUnit XML.")] = None,
    json: Json = False,
) -> int:
    """Prove rules, ours or those of your modules; 1 where one is not proved."""
    from eqsat.cli.rules import Checking, run_check

    return run_check(Checking(tuple(names or ()), jobs, seconds, junit), Output(json))


@rules_app.command("profile")
def rules_profile(
    modules: Annotated[list[str] | None, typer.Argument(metavar="[MODULE]...", help="With the rules of these.")] = None,
    corpus: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Expressions, one a line: '(8*i + j)//8 ; j=8'.")
    ] = None,
    expression: Annotated[
        list[str] | None, typer.Option("--on", metavar="EXPRESSION", help="An expression, as a line of a corpus.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw it, with matplotlib.")] = None,
    graph: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Draw the e-graph of the first expression (.dot, .svg).")
    ] = None,
    json: Json = False,
) -> int:
    """Say what each rule does to a search: matches, rows, time; and which rules run away, on what."""
    from eqsat.cli.research import Profiling, run_profile

    return run_profile(Profiling(tuple(modules or ()), corpus, tuple(expression or ()), plot, graph), Output(json))


@rules_app.command("discover")
def rules_discover(
    grammar: Annotated[
        str, typer.Option(metavar="[arithmetic|bits|...|layouts]", help="Over which terms; an unknown name lists them.")
    ] = "arithmetic",
    known: Annotated[
        str, typer.Option(metavar="[default|none|MODULE]", help="Rules that need not be found: ours, none, a module's.")
    ] = "default",
    without: Annotated[
        str, typer.Option(metavar="NAME,NAME", help="Known rules to leave out: are they found again?")
    ] = "",
    seconds: Annotated[float, typer.Option(metavar="S", min=1.0, help="How long to look.")] = 60.0,
    most: Annotated[int, typer.Option(metavar="N", min=1, help="How many rules to find.")] = 1_000,
    json: Json = False,
) -> int:
    """Find true rules that do not follow from those that are known; print them ready to paste."""
    from eqsat.cli.research import run_discover

    return run_discover(grammar, known, without, seconds, most, Output(json))


@rules_app.command("minimize")
def rules_minimize(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME|MODULE]...", help="These rules; without any, all of ours.")
    ] = None,
    json: Json = False,
) -> int:
    """Say which rules follow from the others, and from which."""
    from eqsat.cli.research import run_minimize

    return run_minimize(tuple(names or ()), Output(json))


@rules_app.command("derivable")
def rules_derivable(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME|MODULE]...", help="Do these follow from the rest of ours?")
    ] = None,
    steps: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A derivation by hand, a term on each line.")
    ] = None,
    ranges: Annotated[str, typer.Option(metavar="i=16,j=2:8", help="Ranges of its variables.")] = "",
    json: Json = False,
) -> int:
    """Do rules follow from ours, or does a derivation by hand hold, and where does it break; 1 where not."""
    from eqsat.cli.research import run_derivable

    return run_derivable(tuple(names or ()), steps, ranges, Output(json))


@app.command()
def explain(
    a: Annotated[str, typer.Argument(metavar="A", help="An index expression, such as '(8*i + j) // 8'.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    ranges: Annotated[str, typer.Option(metavar="i=16,j=2:8", help="Ranges of variables: extent, or start:stop.")] = "",
    latex: Annotated[bool, typer.Option("--latex", help="Print the steps as LaTeX.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="OUT.html", help="Write the steps as a page.")] = None,
    rules: Annotated[
        list[str] | None, typer.Option(metavar="MODULE", help="With the rules of these beside ours, once proved.")
    ] = None,
    json: Json = False,
) -> int:
    """Say whether two expressions are equal, and why, step by step; 1 where they are not, with values that show it."""
    from eqsat.cli.terms import Explaining, run_explain

    return run_explain(Explaining(a, b, ranges, latex, html, tuple(rules or ())), Output(json))


@app.command()
def verify(
    before: Annotated[Path, typer.Argument(metavar="BEFORE.onnx")],
    after: Annotated[Path, typer.Argument(metavar="AFTER.onnx")],
    shape: Shapes = None,
    json: Json = False,
) -> int:
    """Compare two models: by proof where that is possible, and by running both; 1 where they differ."""
    from eqsat.cli.verify import run_verify

    return run_verify(before, after, tuple(shape or ()), Output(json))


@app.command()
def calibrate(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to keep them (beside the caches).")
    ] = None,
    json: Json = False,
) -> int:
    """Measure, in less than a minute, the prices of time by which ONNX models are optimised, with onnxruntime."""
    from eqsat.cli.calibrate import run_calibrate

    return run_calibrate(output, Output(json))


@cache_app.command("info")
def cache_show(json: Json = False) -> int:
    """Say where the caches are and what they hold."""
    from eqsat.cli.cache import run_info

    return run_info(Output(json))


@cache_app.command("clear")
def cache_empty(json: Json = False) -> int:
    """Remove what the caches hold."""
    from eqsat.cli.cache import run_clear

    return run_clear(Output(json))
