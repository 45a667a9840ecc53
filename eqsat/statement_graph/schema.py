"""Laws of statements as rules of the e-graph, and their conditions as questions that Python answers between runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from eqsat.ir.statements.law import FACTS, PLACED, QUESTIONS, STATEMENTS, StatementLaw, pattern_parts, variables

NAMED = "Named"
"""A statement by a number: the name that Python gives to a class, to say something of it."""
ROOT = "Root"
"""The whole function at its place."""
RULESETS = ("places", "statements")
"""Rules about statements at places, which are run first, and rules about statements."""
_SORTS = {"i": "i64", "S": "S", "G": "G"}


def asked(question: str) -> str:
    """The table of a question that waits for its answer."""
    return f"Ask{question}"


def schema() -> str:
    """The declarations, for an empty graph."""
    lines = [
        *(f"(ruleset {name})" for name in RULESETS),
        "(sort S)",
        "(sort G)",
        f"(constructor {NAMED} (i64) S)",
        f"(constructor {ROOT} () G)",
    ]
    for name, parts in STATEMENTS.items():
        lines.append(f"(constructor {name} ({_sorts(parts)}) S)")
    for name, parts in PLACED.items():
        lines.append(f"(constructor {name} ({_sorts(parts)}) G)")
    for name, parts in FACTS.items():
        lines.append(f"(relation {name} ({_sorts(parts)}))")
    for name, (given, answered) in QUESTIONS.items():
        lines.append(f"(relation {asked(name)} ({_sorts(given)}))")
        lines.append(f"(relation {name} ({_sorts(given + answered)}))")
    return "\n\n".join(lines)


def _sorts(parts: str) -> str:
    return " ".join(_SORTS[p] for p in parts)


def rules(laws: Iterable[StatementLaw]) -> str:
    """The rules of laws; those of one law are called by its name, and by a number where there are several.

    >>> from eqsat.ir.statements.law import StatementLaw
    >>> print(rules([StatementLaw("over", "(Then a b)", "b", ("(Covered a b)",))]))
    (rule ((= e_ (Then a b))) ((AskCovered a b)) :ruleset statements :name "ask over/0")
    <BLANKLINE>
    (rule ((= e_ (Then a b)) (Covered a b)) ((delete (Then a b)) (union e_ b)) :ruleset statements :name "over/1")
    """
    return "\n\n".join(text for law in laws for text in _rules(law))


def _rules(law: StatementLaw) -> Iterator[str]:
    ruleset = RULESETS[0] if law.left.startswith("(At ") else RULESETS[1]
    made: list[tuple[str, Sequence[str], Sequence[str]]] = []
    for left, right in _variants(law):
        facts, waiting = [f"(= e_ {left})"], list(law.makes)
        for condition in law.where:
            words = re.findall(r"[^\s()]+", condition)
            if words[0] in QUESTIONS:
                given = " ".join(words[1 : 1 + len(QUESTIONS[words[0]][0])])
                made.append(("ask ", tuple(facts), [f"({asked(words[0])} {given})"]))
            elif waiting and len(facts) > 1:
                made.append(("ask ", tuple(facts), waiting))
                waiting = []
            facts.append(condition)
        gone = [f"(delete {left})"] if law.instead or law.is_part else []
        made.append(("", facts, [*gone, f"(union e_ {right})"]))
    for number, (what, given_facts, actions) in enumerate(made):
        name = f'"{what}{law.name}/{number}"'
        yield f"(rule ({' '.join(given_facts)}) ({' '.join(actions)}) :ruleset {ruleset} :name {name})"


def _variants(law: StatementLaw) -> Iterator[tuple[str, str]]:
    """A law, and one of two statements in a row also where others follow."""
    yield law.left, law.right
    parts = pattern_parts(law.left)
    if parts[0] == "Then" and parts[2].startswith("(") and not parts[2].startswith("(Then"):
        assert "rest_" not in variables(law.left)
        yield f"(Then {parts[1]} (Then {parts[2]} rest_))", f"(Then {law.right} rest_)"
