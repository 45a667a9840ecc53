"""Arrays of commands: files of them (.npz), and the arguments of functions over buffers that are made of them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from eqsat.calls import held_before
from eqsat.ir.dtypes import BFLOAT16, NDArray, is_float, is_int
from eqsat.ir.errors import EqsatError, EvaluationError
from eqsat.ir.statements.bind import bind_function
from eqsat.ir.statements.memory import array_shapes, declared_view, elements, laid, numpy_dtype
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.sizes import Sizes
from eqsat.ir.statements.stmt import BufferDecl
from eqsat.ir.terms.shape import format_shape
from eqsat.scheduling.memory import family, touches

Filler = Callable[[BufferDecl, Sizes], NDArray]
"""The array of a parameter, of a declaration and the sizes of its symbols."""

# -- files ------------------------------------------------------------------------------------------------------------


def read_arrays(path: Path, what: str) -> dict[str, NDArray]:
    """The arrays of a .npz file by their names; no Python objects. EqsatError where it is none, or broken."""
    found: dict[str, NDArray] = {}
    part = "it"
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise EqsatError(what, "is no .npz file of arrays", "numpy.savez writes one")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                for part in archive.files:
                    value = archive[part]
                    if not isinstance(value, np.ndarray):  # pyright: ignore[reportUnnecessaryIsInstance]
                        raise EqsatError(what, f"{part} is no array", "numpy.savez writes arrays")
                    found[part] = value
    except (EqsatError, MemoryError):
        raise
    except Exception as error:  # zipfile, its compressions and numpy have their own for all that can be broken
        reason = (error.strerror if isinstance(error, OSError) else "") or (str(error).splitlines() or [""])[0]
        if "pickle" in reason:
            problem = f"{part} holds Python objects, which are not read"
            raise EqsatError(what, problem, "save arrays of numbers") from error
        problem = f"cannot be read: {reason}" if part == "it" else f"{part} is broken: {reason}"
        raise EqsatError(what, problem) from error
    return found


def npz_of(arrays: Mapping[str, NDArray]) -> bytes:
    """The bytes of a .npz file: the same for the same arrays, whatever their names are.

    >>> with np.load(io.BytesIO(npz_of({"file": np.arange(3)}))) as found:
    ...     found["file"]
    array([0, 1, 2])
    """
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)
    return made.getvalue()


# -- arguments --------------------------------------------------------------------------------------------------------


def arguments_of(
    func: PrimFunc, given: Mapping[str, NDArray], sizes: Mapping[str, int], fill: Filler, what: str
) -> dict[str, NDArray]:
    """An array for each parameter of a function, which lies in memory as the parameter is declared.

    given: the elements of parameters, by name. A parameter that the function writes may be left out where nobody can
    tell what it held before; `fill` makes it. Errors: EqsatError for an array that is missing, is of no parameter, or
    has another type or shape, and for sizes that nothing tells or that do not fit.
    """
    unknown = [name for name in given if name not in func.params]
    if unknown:
        raise EqsatError(what, f"there is no parameter {unknown[0]!r}", f"parameters are {', '.join(func.params)}")
    cells = {name: _typed(what, func.buffer_map[name], array) for name, array in given.items()}
    known = known_sizes(func, {name: array.shape for name, array in cells.items()}, sizes, what)
    made: dict[str, NDArray] = {}
    for name in func.params:
        decl = func.buffer_map[name]
        if name not in cells:
            reason = _needed(func, name)
            if reason:
                raise EqsatError(what, f"there is no array {name!r}, and {reason}", "give one of that name")
            made[name] = fill(decl, known)
            continue
        shape, physical = array_shapes(decl, known)
        if cells[name].shape not in (shape, physical):
            found, wanted = format_shape(cells[name].shape), format_shape(shape)
            raise EqsatError(what, f"{name} has shape {found}, expected {wanted}", f"it is declared {decl}")
        made[name] = zeros(decl, known)
        made[name][...] = declared_view(decl, known, np.ascontiguousarray(cells[name]).reshape(cells[name].shape))
    return made


def known_sizes(func: PrimFunc, shapes: Mapping[str, tuple[int, ...]], sizes: Mapping[str, int], what: str) -> Sizes:
    """The sizes of a function's symbols by the shapes of arrays and those that are given; EqsatError without one."""
    try:
        return bind_function(func, shapes, sizes)
    except EvaluationError as error:
        raise EqsatError(what, error.problem, "give sizes with --shape N=SIZE") from error


def _typed(what: str, decl: BufferDecl, array: NDArray) -> NDArray:
    """An array after its type and its number of axes were compared with a declaration."""
    wanted = numpy_dtype(decl.scalar)
    if wanted == BFLOAT16 and array.dtype == np.dtype("V2"):
        array = array.view(wanted)  # files have no name for it
    if array.dtype.name != wanted:
        raise EqsatError(what, f"{decl.name} is {array.dtype.name}, expected {wanted}", f"it is declared {decl}")
    rank, axes = (n + (decl.lanes > 1) for n in (len(decl.shape), len(decl.axis_separators) + 1))
    if array.ndim != rank and not (decl.axis_separators and array.ndim == axes):
        problem = f"{decl.name} has shape {format_shape(array.shape)}, not of {rank} axes"
        raise EqsatError(what, problem, f"it is declared {decl}")
    return array


def _needed(func: PrimFunc, name: str) -> str:
    """Why a parameter has to be given; '' where it is written, and nobody can tell what it held before."""
    if not touches(func.body, family(func.body, name))[1]:
        return "the function does not write it"
    try:
        return held_before(func, name)
    except EqsatError as error:
        return f"it is not known whether what it held before matters: {error}"


def zeros(decl: BufferDecl, sizes: Sizes) -> NDArray:
    """A parameter that holds zeros."""
    return laid(decl, sizes, np.zeros(elements(decl, sizes), numpy_dtype(decl.scalar)))


def random(decl: BufferDecl, sizes: Sizes, rng: np.random.Generator) -> NDArray:
    """A parameter that holds small whole numbers."""
    dtype = np.dtype(numpy_dtype(decl.scalar))
    low, high = (-9, 10) if is_float(decl.scalar) or (is_int(decl.scalar) and dtype.kind == "i") else (0, 10)
    return laid(decl, sizes, rng.integers(low, high, elements(decl, sizes)).astype(dtype))
