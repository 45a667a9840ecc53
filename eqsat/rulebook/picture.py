"""A finite counter-model of a law as small tensors, before and after: what each name holds at each index."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_AT = re.compile(r"(.+)\(([^()]*)\)$")


def picture(model: Mapping[str, str]) -> str:
    """The model in which the two sides of a law differ, in words: tensors as rows of values, maps by what they read.

    A cell outside of a box is `-`.

    >>> print(picture({"i": "#0", "box x(#0)": "True", "x(#0)": "value 1", "box m(#0)": "True", "valid m(#0)": "False",
    ...     "gather m(#0)": "#0", "fill of m(#0)": "value 2", "left[i]": "value 2", "right[i]": "value 1",
    ...     "left defined": "True", "right defined": "True", "left box": "True", "right box": "True"}))
    with m = [2 (fill)], x = [1]: at 0 the left side is 2, the right side is 1
    """
    table: dict[str, dict[tuple[str, ...], str]] = {}
    for text, value in model.items():
        found = _AT.match(text)
        if found is not None:
            arguments = tuple(_short(a) for a in found[2].split(", "))
            table.setdefault(found[1], {})[arguments] = _short(value)
    boxes = sorted(name.removeprefix("box ") for name in table if name.startswith("box "))
    parts = [f"{name} = [{', '.join(_cells(name, table))}]" for name in boxes]
    parts += [f"{name.removeprefix('condition ')} = {_values(table[name])}" for name in table if _is_condition(name)]
    parts += [f"{text.removeprefix('constant ')} = {_short(v)}" for text, v in model.items() if _is_constant(text)]
    functions = [n for n in table if " " not in n and n not in boxes]
    parts += [f"{n}({', '.join(a)}) = {v}" for n in functions for a, v in table[n].items()]
    sides = ", ".join(f"the {side} side {_side(side, model)}" for side in ("left", "right"))
    return f"with {', '.join(parts)}: at {_short(model.get('i', '#0'))} {sides}"


def _is_condition(name: str) -> bool:
    return name.startswith("condition ")


def _is_constant(text: str) -> bool:
    return text.startswith("constant ")


def _short(text: str) -> str:
    return text.removeprefix("value ").removeprefix("#")


def _values(row: Mapping[tuple[str, ...], str]) -> str:
    return f"[{', '.join(row[k] for k in sorted(row))}]"


def _cells(name: str, table: Mapping[str, Mapping[tuple[str, ...], str]]) -> Iterable[str]:
    """What a tensor or the view by a map has at each index."""
    for at, inside in sorted(table[f"box {name}"].items()):
        read = table.get(f"gather {name}", {}).get(at)
        if inside != "True":
            yield "-"
        elif read is None:
            yield table.get(name, {}).get(at, "any")
        elif table.get(f"valid {name}", {}).get(at, "True") == "True":
            yield f"cell {read}"
        else:
            yield f"{table.get(f'fill of {name}', {}).get(at, 'any')} (fill)"


def _side(side: str, model: Mapping[str, str]) -> str:
    if model.get(f"{side} box") != "True":
        return "has no cell"
    if model.get(f"{side} defined") != "True":
        return "is not defined"
    return f"is {_short(model.get(f'{side}[i]', 'any'))}"
