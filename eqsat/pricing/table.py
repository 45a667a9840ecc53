"""The table of prices: what moving a byte costs by how it is moved and by the length of the runs that are moved as one,
what an operator costs by itself, and what a product costs whose operands lie the wrong way. Times are picoseconds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from math import isfinite
from pathlib import Path
from typing import Any, cast

from eqsat.backends.cache import cache_directory
from eqsat.ir.errors import EqsatError

KINDS = (
    "axis",  # one axis of single elements is moved
    "transpose",  # axes change places in any other way
    "slice",
    "stride",  # every other element of the innermost axis
    "pad",
    "concat",
    "split",
    "expand",
    "tile",  # axes are repeated whole
    "gather",
    "mask",
    "depth_to_space",
    "space_to_depth",
    "broadcast",  # an element-wise operator over an operand that is repeated: what that adds
    "elementwise",
    "norm_of_sum",  # a normalisation that the runtime joins with the sum before it: what that adds
    "apart",  # element-wise operators that the runtime makes one where no reshape tears them apart: what that adds
)
"""How bytes are moved."""
OPERATORS = ("node", "reshape")
PRODUCTS = ("work", "constant_left", "transposed_left", "packed")
FORMAT = 3
FILE = "prices.json"

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Table:
    """Measured prices.

    moves: for each of KINDS, the length of a run in bytes and the picoseconds of a byte in runs of that length, the
    shortest first. operators: the picoseconds of an operator beside its bytes. products: the picoseconds of a
    multiplication, and what it costs more where the left operand is the constant, or is read with its last axes in the
    other order; packed: of a cell of the right operand, where the runtime has to bring that in order for each run.
    """

    source: str
    threads: int
    moves: Mapping[str, Points]
    operators: Mapping[str, float]
    products: Mapping[str, float]

    def rate(self, kind: str, run: int) -> float:
        """The picoseconds of a byte in runs of so many bytes: between two lengths that were measured a run costs the
        same time by itself. A longer run is never dearer.

        >>> table = Table("", 1, {"slice": [(4, 600.0), (8, 310.0), (64, 60.0)]}, {}, {})
        >>> [table.rate("slice", run) for run in (2, 4, 6, 64, 4096)]
        [1180.0, 600.0, 406.7, 60.0, 60.0]
        """
        points = self._falling(kind)
        at = 1 / max(run, 1)
        if len(points) == 1 or at <= 1 / points[-1][0]:
            return round(points[-1][1], 1)
        place = next((n for n, (length, _) in enumerate(points) if length >= run), 1)
        (short, dear), (long, cheap) = points[max(place, 1) - 1], points[max(place, 1)]
        return round(cheap + (dear - cheap) * (at - 1 / long) / (1 / short - 1 / long), 1)

    def _falling(self, kind: str) -> Points:
        """The points; where measuring found a longer run dearer, the shorter one costs as much."""
        falling: list[tuple[float, float]] = []
        most = 0.0
        for length, price in reversed(self.moves[kind]):
            most = max(most, price)
            falling.append((length, most))
        return falling[::-1]

    def moved(self, kind: str, cells: int, run: int, itemsize: int) -> int:
        """The picoseconds in which so many cells are moved in runs of so many cells."""
        return round(cells * itemsize * self.rate(kind, run * itemsize))

    def data(self) -> dict[str, Any]:
        """The table as JSON has it."""
        moves = {kind: [list(point) for point in points] for kind, points in self.moves.items()}
        return {
            "source": self.source,
            "threads": self.threads,
            "picoseconds_per_byte_by_run": moves,
            "picoseconds_per_operator": dict(self.operators),
            "picoseconds_of_products": dict(self.products),
        }


def shipped() -> Table:
    """The table that comes with the package."""
    return _shipped()


@lru_cache(maxsize=1)
def _shipped() -> Table:
    text = resources.files("eqsat.pricing").joinpath(FILE).read_text(encoding="utf-8")
    return _chosen(text, "the prices of the package", None)


def own_file() -> Path | None:
    """Where `eqsat calibrate` keeps the prices of this machine: beside the caches; None where these are off."""
    folder = cache_directory()
    return None if folder is None else folder / FILE


def current() -> Table:
    """The prices of this machine where they were measured, else those that come with the package."""
    file = own_file()
    return shipped() if file is None or not file.is_file() else read(file)


def read(path: Path, threads: int | None = None) -> Table:
    """The prices in a file that `eqsat calibrate` wrote: those for a number of threads, else the first ones.

    Errors: EqsatError for a file that cannot be read, or holds no prices for that.
    """
    what = f"prices {str(path)!r}"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise EqsatError(what, f"cannot be read: {reason}", "eqsat calibrate writes such a file") from error
    return _chosen(text, what, threads)


def written(tables: Sequence[Table]) -> str:
    """The text of a file of prices."""
    return json.dumps({"format": FORMAT, "tables": [table.data() for table in tables]}, indent=1) + "\n"


def _chosen(text: str, what: str, threads: int | None) -> Table:
    def wrong(problem: str) -> EqsatError:
        return EqsatError(what, problem, "eqsat calibrate writes such a file anew")

    try:
        data: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise wrong(f"is not JSON: {error}") from error
    if not isinstance(data, dict) or cast("dict[str, Any]", data).get("format") != FORMAT:
        raise wrong(f"is not of format {FORMAT}")
    rows = cast("dict[str, Any]", data).get("tables")
    if not isinstance(rows, list) or not rows:
        raise wrong("has no tables")
    tables = [_table(row, wrong) for row in cast("list[Any]", rows)]
    found = next((table for table in tables if threads is None or table.threads == threads), None)
    if found is None:
        known = ", ".join(str(table.threads) for table in tables)
        raise wrong(f"has no table for {threads} threads, only for {known}")
    return found


def _table(row: Any, wrong: Any) -> Table:
    """A table from its JSON, every entry looked at."""
    given: dict[str, Any] = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
    if not isinstance(given.get("source"), str) or not isinstance(given.get("threads"), int):
        raise wrong("a table has no source, or no number of threads")
    moves: dict[str, Points] = {}
    rates = _entries(given, "picoseconds_per_byte_by_run", KINDS, wrong)
    for kind, points in rates.items():
        listed = cast("list[Any]", points) if isinstance(points, list) else []
        pairs = [cast("list[Any]", p) for p in listed if isinstance(p, list) and len(cast("list[Any]", p)) == 2]
        if not pairs or len(pairs) != len(listed) or not all(_is_price(v) for p in pairs for v in p):
            raise wrong(f"{kind} has no pairs of a run in bytes and a price")
        moves[kind] = [(float(length), float(price)) for length, price in pairs]
        lengths = [length for length, _ in moves[kind]]
        if lengths[0] < 1 or lengths != sorted(set(lengths)):
            raise wrong(f"{kind} has runs that do not grow")
    operators = _entries(given, "picoseconds_per_operator", OPERATORS, wrong)
    products = _entries(given, "picoseconds_of_products", PRODUCTS, wrong)
    for name, value in (*operators.items(), *products.items()):
        if not _is_price(value):
            raise wrong(f"{name} has the price {value!r}")
    return Table(given["source"], given["threads"], moves, operators, products)


def _entries(given: Mapping[str, Any], name: str, keys: Sequence[str], wrong: Any) -> dict[str, Any]:
    found: Any = given.get(name)
    if not isinstance(found, dict):
        raise wrong(f"a table has no {name}")
    entries = cast("dict[str, Any]", found)
    for key in keys:
        if key not in entries:
            raise wrong(f"{name} has no {key}")
    return {key: entries[key] for key in keys}


def _is_price(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value) and value >= 0
