"""Laws of statements, declared: two patterns over statements, or over statements at a place, and what must hold.

A statement is a function from memory to memory; two are equal where they leave the same memory behind, whatever it was.
A statement *at a place* is that function where the memory is one that can come up there, and up to what nobody reads
later: what is known before and what is dead after are parts of the term, so that an equality says where it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from eqsat.ir.errors import EqsatError

STATEMENTS = {
    "Nop": "",
    "Leaf": "i",
    "Then": "SS",
    "Loop": "iS",
    "Branch": "iSS",
    "Local": "iS",
}
"""What statements are made of: a store or assumption, a sequence, a loop, a branch, a buffer of one's own. `i` is a
number that stands for a store, the head of a loop, a condition or a declaration."""
PLACED = {"At": "iS", "Seq": "iGG", "Repeat": "iiG", "Choose": "iiGG", "Within": "iiG"}
"""A statement at a place, and the same with its parts at their places. Each has the place: its parts may stand where
less is known, and what is equal there where more is known need not be equal where less is."""

FACTS = {"Written": "iS"}
"""What is said once of a function as it was written: that a loop has this body."""
QUESTIONS = {
    "Part": ("i", "ii"),
    "Negated": ("i", "i"),
    "Total": ("i", ""),
    "Choice": ("i", "iii"),
    "Fixed": ("iiS", ""),
    "Alike": ("iiSS", ""),
    "Opposite": ("iiSS", ""),
    "Together": ("iSS", ""),
    "Merging": ("iSS", ""),
    "Bound": ("iSS", ""),
    "Woven": ("iSSS", ""),
    "Other": ("iS", ""),
    "Apart": ("SS", ""),
    "Covered": ("SS", ""),
    "Idle": ("iS", ""),
    "Between": ("iSS", "ii"),
    "Inside": ("iiS", "i"),
    "Under": ("ii", "ii"),
    "Around": ("iiS", "i"),
    "Simpler": ("ii", "i"),
    "Needless": ("ii", ""),
    "Decided": ("ii", "i"),
    "Shorter": ("ii", "i"),
    "Safe": ("iS", ""),
    "Reads": ("iSS", ""),
    "Smaller": ("iiS", "S"),
}
"""What laws ask, with the sorts of what is given and of what is answered; `eqsat.statement_graph.answers` says when."""


@dataclass(frozen=True)
class StatementLaw:
    """`left` equals `right` where the conditions hold, in the order in which they are asked.

    Patterns are written as nested lists; words in lower case are variables. A condition is a question of `QUESTIONS`
    about variables of the patterns and conditions before it, its answers behind; one of `FACTS`; or `(= x PATTERN)`.
    `makes` are terms that are looked at before the last conditions are. With `instead`, and where the right side is a
    part of the left one, the left one is not looked at again: the right must be no larger then, and never the left.

    >>> print(StatementLaw("merge", "(Then (Loop h a) (Loop h b))", "(Loop h (Then a b))", ("(Together h a b)",)))
    merge: (Then (Loop h a) (Loop h b)) = (Loop h (Then a b)) if (Together h a b)
    """

    name: str
    left: str
    right: str
    where: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    instead: bool = False
    doc: str = ""
    family: ClassVar[str] = "statements"
    acts: ClassVar[tuple[str, ...]] = ("optimize_statements",)

    def __str__(self) -> str:
        given = f" if {' and '.join(self.where)}" if self.where else ""
        return f"{self.name}: {self.left} = {self.right}{given}"

    @property
    def is_part(self) -> bool:
        """Whether the right side is a part of the left one, or nothing."""
        return self.right == "(Nop)" or (self.right in variables(self.left) and not self.left.startswith("(At"))

    def __post_init__(self) -> None:
        for text in (self.left, self.right, *self.where, *self.makes):
            if text.count("(") != text.count(")"):
                raise EqsatError(f"law {self.name}", f"{text} has parentheses that do not match")
            self._check(text)
        unbound = [v for v in variables(self.right) if v not in variables(self.left, *self.where)]
        if unbound:
            raise EqsatError(f"law {self.name}", f"{unbound[0]} of the right side is not bound")
        left, right = pattern_parts(self.left), pattern_parts(self.right)
        if left[0] == "At" and not (right[0] in PLACED and right[1] == left[1]):
            problem = f"the left side stands at {left[1]}, the right side {self.right} does not"
            raise EqsatError(f"law {self.name}", problem, "what is equal at a place need not be equal elsewhere")

    def _check(self, pattern: str) -> None:
        """Refuse words that there are not, and those with too few or too many arguments."""
        if not pattern.startswith("("):
            return
        word, *given = pattern_parts(pattern)
        if word not in _ARGUMENTS:
            raise EqsatError(f"law {self.name}", f"{word} is no statement and no question", ", ".join(_ARGUMENTS))
        if len(given) != _ARGUMENTS[word]:
            raise EqsatError(f"law {self.name}", f"{pattern}: {word} has {_ARGUMENTS[word]} arguments")
        for part in given:
            self._check(part)


_ARGUMENTS = {
    "=": 2,
    **{word: len(parts) for word, parts in (*STATEMENTS.items(), *PLACED.items(), *FACTS.items())},
    **{word: len(given + answered) for word, (given, answered) in QUESTIONS.items()},
}
"""How many arguments each word of a pattern or condition has."""


def pattern_parts(pattern: str) -> list[str]:
    """The word and the arguments of a pattern; a variable is itself.

    >>> pattern_parts("(Then (Loop h a) b)")
    ['Then', '(Loop h a)', 'b']
    """
    found, depth = [""], 0
    for letter in pattern:
        depth += (letter == "(") - (letter == ")")
        if letter == " " and depth == 1:
            found.append("")
        elif not ((letter == "(" and depth == 1) or (letter == ")" and depth == 0)):
            found[-1] += letter
    return found


def variables(*patterns: str) -> tuple[str, ...]:
    """The variables of patterns, in order.

    >>> variables("(Then (Nop) s)", "(Together h a b)")
    ('s', 'h', 'a', 'b')
    """
    found = (w for text in patterns for w in re.findall(r"(?<![(\w])[a-z]\w*", text))
    return tuple(dict.fromkeys(found))


class StatementLaws:
    """Laws of one file, in order; `law` adds one."""

    def __init__(self) -> None:
        self._laws: list[StatementLaw] = []

    def law(
        self, name: str, left: str, right: str, *where: str,
        makes: tuple[str, ...] = (), instead: bool = False, doc: str = "",
    ) -> None:  # fmt: skip
        """Declare a law; EqsatError for a name that there is, and for patterns of unknown words."""
        if any(law.name == name for law in self._laws):
            raise EqsatError(f"law {name}", "is declared twice", "give it a name of its own")
        self._laws.append(StatementLaw(name, left, right, where, makes, instead, doc))

    def __len__(self) -> int:
        return len(self._laws)

    def __iter__(self) -> Iterator[StatementLaw]:
        return iter(self._laws)
