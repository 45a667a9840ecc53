"""From an index map to a layout string: every output read as digits of the inputs, then compared with the string."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from eqsat.ir.errors import LayoutError, ParseError
from eqsat.ir.layouts.digits import static_digit
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.layouts.layout import Layout
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term


def layout_of_map(m: IndexMap, letters: str | None = None) -> Layout:
    """The layout string of a map of splits, permutations and packed blocks; `letters` name the inputs.

    >>> layout_of_map(IndexMap.parse("n, c -> n // 4, c, n - n // 4 * 4"))
    Layout('NC4n')

    Raises LayoutError where the map is not such a layout, or leaves open which axis a block of 1 belongs to.
    """
    what = f"layout string of {m}"
    if m.axis_separators:
        raise LayoutError(what, "a layout string has no axis separators", "leave them out of the map")
    chosen = list(letters) if letters is not None else [n.upper() for n in m.names]
    named = len(chosen) == len(m.names) == len(set(chosen)) and all(re.fullmatch("[A-Z]", c) for c in chosen)
    if not named:
        raise LayoutError(what, "inputs need one capital letter each", "give letters, for example 'NCHW'")
    letter_of = dict(zip(m.inputs, chosen, strict=True))
    pieces: list[str] = []
    for output in m.outputs:
        digits = _digits(output, letter_of)
        if digits is None:
            raise LayoutError(what, f"{output} is not made of digits of the inputs", "an IndexMap needs no string")
        if not digits:
            raise LayoutError(what, f"{output} may be a block of 1 of any input", "leave it out")
        texts = [d.letter if d.factor is None else f"{d.factor}{d.letter.lower()}" for d in digits]
        pieces.append(texts[0] if len(texts) == 1 else f"[{''.join(texts)}]")
    try:
        layout = Layout("".join(pieces))
    except ParseError as error:
        raise LayoutError(what, str(error)) from error
    if sorted(layout.letters) != sorted(chosen):
        raise LayoutError(what, "an input has no outermost part", "add its c // factor")
    wanted = Layout("".join(chosen)).to(layout).index_map
    letter_in = dict(zip(wanted.inputs, chosen, strict=True))
    for have, want in zip(m.outputs, wanted.outputs, strict=True):
        if _digits(have, letter_of) != _digits(want, letter_in):
            raise LayoutError(what, f"{have} is not what {layout} says", f"{layout} has {want}")
    return layout


@dataclass(frozen=True)
class _Summand:
    """coefficient * (axis // weight % factor); without a factor there is no remainder."""

    coefficient: int
    letter: str
    weight: int
    factor: int | None

    def joined(self, low: _Summand) -> _Summand | None:
        """This one and a lower one as one digit of the same axis, where they are that."""
        if self.letter != low.letter:
            return None
        weight, rest = divmod(self.weight, low.weight)
        if rest or self.coefficient != low.coefficient * weight * (1 if low.factor else -1):
            return None
        if low.factor is not None:
            if weight != low.factor:
                return None
            factor = None if self.factor is None else self.factor * low.factor
            return _Summand(low.coefficient, low.letter, low.weight, factor)
        return _Summand(low.coefficient, low.letter, low.weight, weight) if self.factor is None else None


def _digits(output: Term, letter_of: dict[Term, str]) -> list[_Summand] | None:
    """An output as digits of the inputs, highest first, neighbours joined (c//4*4 + c%4 is c); None if it is not."""
    constant, parts = t.linear_parts(output)
    result: list[_Summand] = []
    for coefficient, node in parts:
        digit = static_digit(node)
        letter = None if digit is None else letter_of.get(digit.source)
        if digit is None or letter is None:
            return None
        result.append(_Summand(coefficient, letter, digit.weight, digit.radix))
    changed = True
    while changed:
        changed = False
        for high, low in itertools.permutations(result, 2):
            both = high.joined(low)
            if both is not None:
                result = [both, *(d for d in result if d is not high and d is not low)]
                changed = True
                break
    return None if constant else sorted(result, key=lambda d: (-d.coefficient, d.letter, -d.weight))
