"""Rules as declarations to paste into a module."""

from __future__ import annotations

from eqsat.ir.rule import Kind, Rule
from eqsat.ir.terms.term import Term

KINDS = {Kind.IDX: "Idx", Kind.POS: "Pos", Kind.PRED: "Pred", Kind.ANY: "Elem"}
HEAD = (
    "from eqsat import logical_and, logical_not, logical_or, maximum, minimum, rule, when, where\n"
    "from eqsat.ir.rule import Elem, Idx, Pos, Pred"
)


def rule_text(rule: Rule) -> str:
    """A rule as a declaration to paste into a module."""
    parameters = ", ".join(f"{p.name}: {KINDS[p.kind]}" for p in rule.parameters)
    tags = f", tags=[{', '.join(repr(x) for x in sorted(rule.tags))}]" if rule.tags else ""
    instance = rule.instances[0]
    given = f", when({', '.join(map(_text, instance.conditions))})" if instance.conditions else ""
    function = rule.name.replace("-", "_")
    law = str(rule).removeprefix(f"{rule.name}: ")
    return (
        f'@rule("{rule.name}"{tags})\ndef {function}({parameters}):\n    """{law}"""\n'
        f"    return {_text(instance.left)}, {_text(instance.right)}{given}".replace("'", '"')
    )


def _text(term: Term) -> str:
    """A term as Python that builds it: junctions are functions, as `and` of terms has no value."""
    if term.op in ("and", "or"):
        return f"logical_{term.op}({', '.join(map(_text, term.args))})"
    if term.op == "not":
        return f"logical_not({_text(term.args[0])})"
    if term.op in ("eq", "ne") and term.dtype == "bool":
        return f"({_text(term.args[0])}) {'==' if term.op == 'eq' else '!='} ({_text(term.args[1])})"
    return str(term)
