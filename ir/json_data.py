"""Reading JSON from strangers: every access is checked, and what does not fit is a ParseError that says where."""

from __future__ import annotations

import json
from typing import Any, NoReturn, cast

from eqsat.ir.errors import ParseError
from eqsat.ir.given import told


class JsonReader:
    """Typed access to parsed JSON; `what` names the document in errors.

    >>> reader = JsonReader("index map")
    >>> reader.integer(reader.parse("[3, 4]"), "extents")
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.ParseError: JSON of index map: extents is not an integer
    """

    def __init__(self, what: str) -> None:
        self.what = what

    def fail(self, problem: str) -> NoReturn:
        raise ParseError(f"JSON of {self.what}", problem)

    def parse(self, text: str | bytes) -> Any:
        """The parsed document."""
        try:
            return json.loads(text)
        except TypeError as error:
            raise ParseError(f"JSON of {self.what}", f"{told(text)} is no text") from error
        except RecursionError as error:
            raise ParseError(f"JSON of {self.what}", "nested too deeply") from error
        except ValueError as error:
            raise ParseError(f"JSON of {self.what}", str(error)) from error

    def header(self, data: Any, kind: str, version: int = 1) -> dict[str, Any]:
        """The document as a dict, after its {"eqsat": kind, "version": ...} was checked."""
        fields = self.mapping(data, "the document")
        if fields.get("eqsat") != kind:
            self.fail(f'is not {{"eqsat": "{kind}", ...}}')
        if fields.get("version") != version:
            self.fail(f"has version {fields.get('version')!r}, this is version {version}")
        return fields

    def mapping(self, data: Any, where: str) -> dict[str, Any]:
        if not isinstance(data, dict):
            self.fail(f"{where} is not an object")
        return cast("dict[str, Any]", data)

    def field(self, data: dict[str, Any], key: str) -> Any:
        if key not in data:
            self.fail(f"{key!r} is missing")
        return data[key]

    def items(self, data: Any, where: str, length: int | None = None) -> list[Any]:
        """A list, of the given length where one is given."""
        if not isinstance(data, list):
            self.fail(f"{where} is not a list")
        values = cast("list[Any]", data)
        if length is not None and len(values) != length:
            self.fail(f"{where} has {len(values)} items, expected {length}")
        return values

    def string(self, data: Any, where: str) -> str:
        if not isinstance(data, str):
            self.fail(f"{where} is not a string")
        return data

    def integer(self, data: Any, where: str, low: int | None = None) -> int:
        """An integer, at least `low`; true and false are none."""
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail(f"{where} is not an integer")
        if low is not None and data < low:
            self.fail(f"{where} is {data}, below {low}")
        return data

    def boolean(self, data: Any, where: str) -> bool:
        if not isinstance(data, bool):
            self.fail(f"{where} is not true or false")
        return data

    def integers(self, data: Any, where: str, low: int | None = None) -> list[int]:
        return [self.integer(d, where, low) for d in self.items(data, where)]


def write_json(data: Any) -> str:
    """Compact, deterministic JSON text."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False)
